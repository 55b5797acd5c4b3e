/* fake_upstream.c - see fake_upstream.h. */
#include "fake_upstream.h"

#include <string.h>

struct fake_ask fake_asks[FAKE_ASKS];
size_t fake_n_asks, fake_open;
bool fake_well = true, fake_full, fake_claims;

static void (*recovery)(void *arg);
static void *recovery_arg;

void fake_reset(void)
{
    fake_n_asks = fake_open = 0;
    fake_well = true;
    fake_full = fake_claims = false;
}

static void finish(size_t i, const struct upstream_answer *answer)
{
    struct fake_ask *a = &fake_asks[i];

    a->open = false;
    fake_open--;
    a->on_answer(a->arg, answer);
}

bool fake_reply(size_t i, const uint8_t *msg, size_t len, bool trust_ad)
{
    struct fake_ask *a = &fake_asks[i];
    struct dns_reply reply;
    struct upstream_answer answer = {
        .reply = &reply, .trust_ad = trust_ad, .ede = DNS_EDE_NONE, .ede_text = ""};

    if (!reply_parse(&reply, msg, len) ||
        !reply_matches(&reply, a->qname, a->qname_len, a->qtype, false))
        return false;
    finish(i, &answer);
    return true;
}

void fake_fail(size_t i, uint16_t ede)
{
    struct upstream_answer answer = {
        .ede = ede, .ede_text = "no upstream", .network_failure = true};

    finish(i, &answer);
}

void fake_recover(void)
{
    if (recovery)
        recovery(recovery_arg);
}

struct upstream_ask *
upstream_ask(struct upstream_set *set, const struct upstream_question *q,
             void (*on_answer)(void *arg, const struct upstream_answer *answer), void *arg)
{
    struct fake_ask *a = &fake_asks[fake_n_asks];

    (void)set;
    if (fake_full || fake_n_asks == FAKE_ASKS)
        return NULL;
    *a = (struct fake_ask){
        .open = true,
        .qname_len = q->qname_len,
        .qtype = q->qtype,
        .dnssec_ok = q->dnssec_ok,
        .checking_disabled = q->checking_disabled,
        .has_subnet = q->subnet != NULL,
        .on_answer = on_answer,
        .arg = arg,
    };
    memcpy(a->qname, q->qname, q->qname_len);
    if (q->subnet)
        a->subnet = *q->subnet;
    fake_n_asks++;
    fake_open++;
    return (struct upstream_ask *)a;
}

void upstream_cancel(struct upstream_ask *ask)
{
    ((struct fake_ask *)ask)->open = false;
    fake_open--;
}

bool upstream_well(const struct upstream_set *set)
{
    (void)set;
    return fake_well;
}

void upstream_on_recovery(struct upstream_set *set, void (*on_recovery)(void *arg), void *arg)
{
    (void)set;
    recovery = on_recovery;
    recovery_arg = arg;
}

bool upstream_claims(const struct upstream_set *set, const uint8_t *qname, size_t qname_len)
{
    (void)set;
    (void)qname;
    (void)qname_len;
    return fake_claims;
}
