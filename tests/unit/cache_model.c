/* cache_model.c - see cache_model.h. */
#include "cache_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool bits_equal(const uint8_t *a, const uint8_t *b, size_t bits)
{
    for (size_t k = 0; k < bits; k++) {
        if ((a[k / 8] ^ b[k / 8]) >> (7 - k % 8) & 1)
            return false;
    }
    return true;
}

static int64_t life_left(const struct slot *s, uint32_t now_s)
{
    return s->put_s + s->life_s - now_s;
}

/* Of the same place in the cache: the later one replaces the earlier. */
static bool same_place(const struct slot *a, const struct slot *b)
{
    return a->kind == b->kind &&
           (a->kind != SLOT_SCOPED || (a->net.family == b->net.family && a->bits == b->bits &&
                                       (a->scope > a->source) == (b->scope > b->source) &&
                                       (a->scope <= a->source || a->source == b->source) &&
                                       bits_equal(a->net.ip, b->net.ip, a->bits)));
}

static void place(struct slot *s, const struct cache_key *key, uint8_t scope)
{
    memset(s, 0, sizeof *s);
    s->kind = key->subnet == NULL        ? SLOT_PLAIN
              : key->subnet->source == 0 ? SLOT_OPTOUT
              : scope == 0               ? SLOT_FOR_ALL
                                         : SLOT_SCOPED;
    if (key->subnet == NULL)
        return;
    s->net = *key->subnet;
    s->source = key->subnet->source;
    s->scope = scope;
    s->bits = s->kind != SLOT_SCOPED ? 0 : scope < s->source ? scope : s->source;
}

static void slot_free(struct slot *s)
{
    free(s->msg);
    free(s);
}

static void drop_place(struct model_key *k, const struct slot *place)
{
    for (struct slot **at = &k->slots; *at != NULL;) {
        struct slot *s = *at;
        if (same_place(s, place)) {
            *at = s->next;
            slot_free(s);
        } else {
            at = &s->next;
        }
    }
}

static bool is_shared(const struct slot *s)
{
    return s->kind == SLOT_PLAIN || s->kind == SLOT_FOR_ALL;
}

/* A failure does not replace an answer that may still be given. */
static bool kept_against_failure(const struct slot *s, const struct cache_put_options *o)
{
    return !s->options.failure && life_left(s, o->now_s) + o->stale_max_s > 0;
}

/* Any put of a key ends the refresh that somebody was told to make. */
static void forget_refreshes(struct model_key *k)
{
    for (struct slot *s = k->slots; s != NULL; s = s->next)
        s->refresh_until_s = 0;
}

/* The slot is there: nothing was evicted since it was put. */
static bool certain(struct model *m, const struct slot *s, const struct cache *cache)
{
    struct cache_stats stats;
    if (!s->sure)
        return false;
    cache_stats(cache, &stats);
    m->evictions = stats.evictions + stats.evicted_expired;
    return m->evictions == s->evictions;
}

/* May be too large for an entry of 1020 octets: names come compressed and are kept expanded. */
static bool is_large(const struct slot *s)
{
    struct plain_message p;
    size_t size = 0;
    if (s->len < 200 || !plain_parse(&p, s->msg, s->len))
        return false;
    for (size_t k = 0; k < p.n; k++)
        size += 10 + p.rr[k].rdata_len + p.rr[k].owner_len;
    plain_free(&p);
    return size > 700;
}

void model_put(struct model *m, struct model_key *k, const struct cache_key *key,
               const struct dns_reply *reply, const struct cache_put_options *options,
               const struct cache *cache)
{
    struct slot *s = malloc(sizeof *s);
    if (s == NULL)
        abort();
    place(s, key, options->scope);
    s->sure = true;
    bool both = false;
    forget_refreshes(k);
    for (struct slot *o = k->slots; o != NULL; o = o->next) {
        if (options->failure && kept_against_failure(o, options)) {
            if (same_place(o, s) && certain(m, o, cache)) {
                slot_free(s);
                return;
            }
            if (same_place(o, s))
                both = true; /* `o` may be gone, or not */
            s->sure = false; /* whether it counts for this place is the cache's to say */
        }
        if ((is_shared(o) && is_shared(s)) || (o->kind == SLOT_OPTOUT && s->kind == SLOT_PLAIN))
            o->sure = false; /* one place or two is the cache's to say */
        if (o->kind == SLOT_SCOPED && s->kind == SLOT_SCOPED && o->bits == s->bits)
            o->sure = o->sure && !bits_equal(o->net.ip, s->net.ip, s->bits);
    }
    if (!both)
        drop_place(k, s);
    s->evictions = m->evictions;
    s->number = ++m->puts;
    s->put_s = options->now_s;
    s->life_s = options->life_s;
    s->options = *options;
    if (options->ede_text != NULL)
        snprintf(s->ede_text, sizeof s->ede_text, "%s", options->ede_text);
    s->rcode = reply->rcode;
    s->len = reply->len;
    s->msg = malloc(reply->len);
    if (s->msg == NULL)
        abort();
    memcpy(s->msg, reply->msg, reply->len);
    if (is_large(s))
        s->sure = false; /* the large pages are few */
    s->next = k->slots;
    k->slots = s;
}

void model_put_refused(struct model_key *k, const struct cache_key *key, uint8_t scope)
{
    struct slot at;
    place(&at, key, scope);
    forget_refreshes(k);
    for (struct slot *s = k->slots; s != NULL; s = s->next) {
        if (same_place(s, &at))
            s->sure = false;
    }
}

/* An answer of this slot may be given to who asks with the key. */
static bool serves(const struct slot *s, const struct cache_key *key)
{
    const struct ecs *client = key->subnet;
    switch (s->kind) {
    case SLOT_PLAIN:
        return true;
    case SLOT_OPTOUT:
        return client != NULL && client->source == 0;
    case SLOT_FOR_ALL:
        return client == NULL || client->source > 0;
    default:
        return client != NULL && client->family == s->net.family && client->source >= s->bits &&
               (s->scope <= s->source || client->source == s->source) &&
               bits_equal(s->net.ip, client->ip, s->bits);
    }
}

/* Longer prefixes first, then what was got in the same way, then the later put. */
static bool better(const struct slot *a, const struct slot *b)
{
    unsigned a_bits = a->kind == SLOT_SCOPED ? 1u + a->bits : 0;
    unsigned b_bits = b->kind == SLOT_SCOPED ? 1u + b->bits : 0;
    if (a_bits != b_bits)
        return a_bits > b_bits;
    if ((a->kind == SLOT_OPTOUT) != (b->kind == SLOT_OPTOUT))
        return a->kind == SLOT_OPTOUT;
    return a->number > b->number;
}

/* The best slot behind `after` (NULL: the best of all) that serves the key. */
static struct slot *next_best(struct model_key *k, const struct cache_key *key,
                              const struct slot *after)
{
    struct slot *best = NULL;
    for (struct slot *s = k->slots; s != NULL; s = s->next) {
        if (serves(s, key) && (after == NULL || better(after, s)) &&
            (best == NULL || better(s, best)))
            best = s;
    }
    return best;
}

__attribute__((format(printf, 2, 3))) static bool wrong(struct model *m, const char *format,
                                                        ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(m->what, sizeof m->what, format, args);
    va_end(args);
    return false;
}

/* The smallest TTL of the answer section. A negative answer, behind an alias or bare, lives for
 * left_s at most. */
static uint32_t freshness(const struct plain_message *p, uint16_t qtype, uint32_t left_s)
{
    uint32_t ttl = UINT32_MAX;
    bool positive = false;
    for (size_t k = 0; k < p->n; k++) {
        if (p->rr[k].section != 0)
            continue;
        positive = positive || p->rr[k].type == qtype;
        if (p->rr[k].ttl < ttl)
            ttl = p->rr[k].ttl;
    }
    bool negative = !positive || (p->flags & 15) == 3;
    return negative && left_s < ttl ? left_s : ttl;
}

static const char *message_difference(const struct slot *s, const struct cache_key *key,
                                      const struct cache_get_options *o, const uint8_t *out,
                                      const struct cache_answer *a)
{
    struct plain_message put, got;
    if (a->len < 12 || !plain_parse(&got, out, a->len))
        return "answer is malformed";
    const char *what = "put is malformed";
    if (plain_parse(&put, s->msg, s->len)) {
        bool fresh = life_left(s, o->now_s) > 0;
        what = plain_difference(
            &put, &got, fresh ? PLAIN_AGED(o->now_s - s->put_s) : PLAIN_FIXED(o->stale_ttl_s));
        if (what == NULL &&
            a->max_age_s != freshness(&got, key->qtype, fresh ? a->ttl_s : o->stale_ttl_s))
            what = "max_age_s";
        plain_free(&put);
    }
    if (what == NULL && (got.id != 0 || (got.flags & 0xfff0) != 0x8080))
        what = "header";
    if (what == NULL &&
        (got.qname_len != key->qname_len || memcmp(got.qname, key->qname, key->qname_len) != 0))
        what = "spelling of the question";
    plain_free(&got);
    return what;
}

/* The stored life is rounded: to 1/16 at worst. */
static bool life_near(uint32_t got_s, uint32_t put_s)
{
    int64_t off = (int64_t)got_s - put_s;
    return (off < 0 ? -off : off) * 16 <= (int64_t)put_s + 16;
}

static const char *fields_difference(const struct slot *s, const struct cache_key *key,
                                     const struct cache_get_options *o,
                                     const struct cache_answer *a)
{
    int64_t left = life_left(s, o->now_s);
    if ((int64_t)a->ttl_s != (left > 0 ? left : 0))
        return "ttl_s";
    if ((int64_t)a->expired_s != (left > 0 ? 0 : -left))
        return "expired_s";
    if (!life_near(a->life_s, s->life_s))
        return "life_s";
    if (a->rcode != s->rcode)
        return "rcode";
    if (a->ede != s->options.ede || a->ede_text_len != strlen(s->ede_text) ||
        memcmp(a->ede_text, s->ede_text, a->ede_text_len) != 0)
        return "extended error";
    if (a->authentic != s->options.authentic)
        return "authentic";
    if (a->failure != s->options.failure)
        return "failure";
    if (a->scoped != (s->kind == SLOT_SCOPED))
        return "scoped";
    if (s->kind == SLOT_SCOPED ? a->scope != s->scope && a->scope != s->bits : a->scope != 0)
        return "scope";
    if (key->subnet != NULL && key->subnet->source > 0 && s->kind != SLOT_SCOPED &&
        key->subnet->family == s->net.family && a->had_subnet != (s->kind == SLOT_FOR_ALL))
        return "had_subnet";
    return NULL;
}

/* One caller at a time is told to refresh, in the last tenth of the life or after it. */
static const char *refresh_difference(struct slot *s, const struct cache_get_options *o,
                                      const struct cache_answer *a)
{
    if (!a->refresh)
        return NULL;
    int64_t left = life_left(s, o->now_s);
    if (left > 0 && (!o->prefetch || left * 10 > (int64_t)s->life_s * 17 / 16 + 20))
        return "refresh too early";
    if (s->refresh_until_s > o->now_s)
        return "refresh given twice";
    s->refresh_until_s = o->now_s + (int64_t)CACHE_REFRESH_S;
    return NULL;
}

static const char *slot_difference(struct slot *s, const struct cache_key *key,
                                   const struct cache_get_options *o, const uint8_t *out,
                                   const struct cache_answer *a)
{
    const char *what = message_difference(s, key, o, out, a);
    return what ? what : fields_difference(s, key, o, a);
}

static bool visible(const struct slot *s, const struct cache_get_options *o)
{
    int64_t left = life_left(s, o->now_s);
    return left > 0 ||
           (o->stale_max_s > 0 && !s->options.failure && left + o->stale_max_s >= 0);
}

bool model_check(struct model *m, struct model_key *k, const struct cache_key *key,
                 const struct cache_get_options *o, enum cache_outcome outcome,
                 const uint8_t *out, const struct cache_answer *answer,
                 const struct cache *cache)
{
    const char *what = "nothing of the kind was put", *first = NULL;
    const struct slot *missed = NULL;
    for (struct slot *s = next_best(k, key, NULL); s != NULL; s = next_best(k, key, s)) {
        if (!visible(s, o))
            continue;
        bool fresh = life_left(s, o->now_s) > 0;
        if (outcome == (fresh ? CACHE_HIT : CACHE_EXPIRED)) {
            what = slot_difference(s, key, o, out, answer);
            if (what == NULL) {
                what = refresh_difference(s, o, answer);
                return what ? wrong(m, "%s", what) : true;
            }
            first = first ? first : what;
        }
        bool last_second = !fresh && life_left(s, o->now_s) + o->stale_max_s == 0;
        if (!last_second && certain(m, s, cache)) {
            missed = missed ? missed : s;
            if (fresh)
                break; /* nothing else is right */
        }
    }
    if (outcome != CACHE_MISS)
        return wrong(m, "wrong answer: %s", first ? first : what);
    if (missed != NULL)
        return wrong(m, "lost: kind %d, put at %lld for %u s, %zu octets, nothing was evicted",
                     missed->kind, (long long)missed->put_s, missed->life_s, missed->len);
    return true;
}

static void print_subnet(const struct ecs *e)
{
    char text[ADDR_TEXT_SIZE];
    struct addr a = {.family = e->family};
    memcpy(a.ip, e->ip, sizeof a.ip);
    fprintf(stderr, "%s/%u", addr_format_ip(&a, text), e->source);
}

void model_print(const struct model_key *k, const struct cache_key *key,
                 const struct cache_get_options *o)
{
    static const char *const kinds[] = {"plain", "opt-out", "for all", "scoped"};
    fprintf(stderr, "asked: type %u%s%s, %zu octets of name, stale_max %u, subnet ", k->qtype,
            k->dnssec_ok ? " DO" : "", k->checking_disabled ? " CD" : "", k->qname_len,
            o->stale_max_s);
    if (key->subnet != NULL)
        print_subnet(key->subnet);
    fprintf(stderr, "\n");
    for (const struct slot *s = k->slots; s != NULL; s = s->next) {
        fprintf(stderr, "  put %llu at %lld for %u s (%lld left): %s, scope %u, kept for ",
                (unsigned long long)s->number, (long long)s->put_s, s->life_s,
                (long long)life_left(s, o->now_s), kinds[s->kind], s->scope);
        print_subnet(&s->net);
        fprintf(stderr, " %u bits, RCODE %u, %zu octets%s%s%s\n", s->bits, s->rcode, s->len,
                s->options.failure ? ", failure" : "", s->sure ? "" : ", unsure",
                serves(s, key) ? "" : ", not for this client");
    }
}

void model_remove(struct model_key *k, const struct cache_key *key, uint32_t now_s)
{
    /* Which of several the key would have been answered from depends on evictions. */
    size_t n = 0;
    struct slot *only = NULL;
    for (struct slot *s = next_best(k, key, NULL); s != NULL; s = next_best(k, key, s)) {
        s->sure = false;
        only = s;
        n++;
    }
    if (n == 1 && life_left(only, now_s) > 0)
        drop_place(k, &(struct slot){.kind = only->kind,
                                     .net = only->net,
                                     .bits = only->bits,
                                     .source = only->source,
                                     .scope = only->scope});
}

bool slot_any(const struct slot *s)
{
    (void)s;
    return true;
}

bool slot_failure(const struct slot *s)
{
    return s->options.failure;
}

void model_drop(struct model_key *k, bool (*drop)(const struct slot *s))
{
    for (struct slot **at = &k->slots; *at != NULL;) {
        struct slot *s = *at;
        if (drop(s)) {
            *at = s->next;
            slot_free(s);
        } else {
            at = &s->next;
        }
    }
}

void model_move_clock(struct model *m, uint32_t old_s, uint32_t now_s, uint32_t down_s)
{
    for (size_t k = 0; k < m->n_keys; k++) {
        for (struct slot *s = m->keys[k].slots; s != NULL; s = s->next) {
            s->put_s = s->put_s - old_s + now_s - down_s;
            s->refresh_until_s = 0;
        }
    }
}
