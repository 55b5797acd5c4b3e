/* entry.c - an entry as a whole. */
#include "cache/entry.h"

#include <string.h>

#include "dns/wire.h"

bool cache_entry_first(struct cache_entry *e, uint8_t kind, const uint8_t *entry, size_t len)
{
    size_t n = cache_key_len(kind, entry, len);
    e->left = n == SIZE_MAX ? 0 : len - n;
    e->bad = n == SIZE_MAX || !cache_record_read(&e->record, entry + n, e->left);
    return !e->bad;
}

bool cache_entry_next(struct cache_entry *e)
{
    if (!(e->record.flags & RECORD_MORE))
        return false;
    size_t n = cache_record_size(&e->record, e->left);
    e->left -= n;
    e->bad = n == 0 || !cache_record_read(&e->record, e->record.start + n, e->left);
    return !e->bad;
}

static bool key_is_sound(uint8_t kind, const uint8_t *entry, size_t len)
{
    uint8_t name[DNS_NAME_MAX];
    size_t n = cache_key_len(kind, entry, len);
    if (n == SIZE_MAX || kind == KEY_FINGERPRINT)
        return n != SIZE_MAX;
    if (kind == KEY_LONG)
        return n > KEY_FINGERPRINT && cache_namecode_decode(name, entry + 1, n - 1) > 0;
    return cache_namecode_decode(name, entry, n) > 0;
}

/* No other record like this one behind it. */
static bool is_single(const struct cache_entry *e)
{
    struct cache_entry rest = *e;
    while (cache_entry_next(&rest)) {
        bool subnets = e->record.form == FORM_SUBNETS;
        if (rest.record.type == e->record.type &&
            (rest.record.form == FORM_SUBNETS) == subnets &&
            (subnets || ((rest.record.flags ^ e->record.flags) & RECORD_KEY) == 0))
            return false;
    }
    return true;
}

bool cache_entry_check(uint8_t kind, const uint8_t *entry, size_t len)
{
    struct cache_entry e;
    size_t end = 0;
    if (len % 4 != 0 || !key_is_sound(kind, entry, len))
        return false;
    for (bool more = cache_entry_first(&e, kind, entry, len); more;
         more = cache_entry_next(&e)) {
        size_t n = cache_record_size(&e.record, e.left);
        if (n == 0 || !is_single(&e))
            return false;
        end = len - e.left + n;
    }
    if (e.bad || end == 0 || len - end > 3)
        return false;
    for (; end < len; end++) {
        if (entry[end] != 0)
            return false;
    }
    return true;
}

size_t cache_entry_answers(uint8_t kind, const uint8_t *entry, size_t len)
{
    struct cache_entry e;
    size_t n = 0;
    for (bool more = cache_entry_first(&e, kind, entry, len); more; more = cache_entry_next(&e))
        n += e.record.form != FORM_SUBNETS;
    return n;
}

int32_t cache_entry_life_left(uint8_t kind, const uint8_t *entry, size_t len, uint32_t now_s)
{
    struct cache_entry e;
    int32_t most = INT32_MIN;
    const uint8_t *single = cache_entry_single(kind, entry, len);
    if (single != NULL) {
        uint32_t word;
        memcpy(&word, single + 2, sizeof word);
        return cache_record_left(word & RECORD_CLOCK, now_s);
    }
    for (bool more = cache_entry_first(&e, kind, entry, len); more;
         more = cache_entry_next(&e)) {
        int32_t left = cache_record_left(e.record.expiry, now_s);
        if (left > most)
            most = left;
    }
    return most;
}
