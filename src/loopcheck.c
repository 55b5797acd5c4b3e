/* loopcheck.c - one secret name an upstream. */
#include "loopcheck.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/hash.h"
#include "dns/name.h"

/*   NN.pith-loop-SSSSSSSSSSSSSSSS.test.        NN: the slot, S: the secret in hexadecimal */
enum { SLOT_LABEL = 1 + 2, SECRET_LABEL = 1 + 10 + 16 };

static uint8_t tail[SECRET_LABEL + 6]; /* all behind the slot's label */
static pthread_once_t tail_once = PTHREAD_ONCE_INIT;
static _Atomic uint64_t seen_ms[LOOPCHECK_SLOTS];

static void make_tail(void)
{
    uint64_t secret;
    char text[sizeof tail + 1];

    hash_random(&secret, sizeof secret);
    snprintf(text, sizeof text, "%cpith-loop-%016llx\x04test", SECRET_LABEL - 1,
             (unsigned long long)secret);
    memcpy(tail, text, sizeof tail);
}

size_t loopcheck_name(uint8_t out[DNS_NAME_MAX], unsigned slot)
{
    pthread_once(&tail_once, make_tail);
    out[0] = 2;
    out[1] = (uint8_t)('0' + slot / 10);
    out[2] = (uint8_t)('0' + slot % 10);
    memcpy(out + SLOT_LABEL, tail, sizeof tail);
    return SLOT_LABEL + sizeof tail;
}

bool loopcheck_note(const uint8_t *qname, size_t len)
{
    unsigned slot;

    if (len != SLOT_LABEL + sizeof tail || qname[0] != 2)
        return false;
    pthread_once(&tail_once, make_tail);
    if (!name_equal(qname + SLOT_LABEL, sizeof tail, tail, sizeof tail))
        return false;
    slot = (unsigned)(qname[1] - '0') * 10 + (unsigned)(qname[2] - '0');
    if (slot < LOOPCHECK_SLOTS)
        atomic_store_explicit(&seen_ms[slot], clock_now_ms(), memory_order_relaxed);
    return true;
}

uint64_t loopcheck_seen_ms(unsigned slot)
{
    return atomic_load_explicit(&seen_ms[slot], memory_order_relaxed);
}
