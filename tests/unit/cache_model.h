/* cache_model.h - what a cache may answer: a dictionary of all that was put.
 *
 * The model keeps every answer until something replaces or removes it. For a question it gives
 * the answers that are right, best first (RFC 7871 7.3.1: the longest prefix that covers the
 * client). An answer that the cache has dropped is simply not there, so a miss or a shorter
 * prefix is right as well, unless the cache has evicted nothing since: then the best answer
 * must come. */
#ifndef PITH_TESTS_CACHE_MODEL_H
#define PITH_TESTS_CACHE_MODEL_H

#include "cache/cache.h"
#include "unit/plain.h"

/* How the upstream was asked, and for whom the answer is. */
enum slot_kind {
    SLOT_PLAIN,   /* asked without a subnet */
    SLOT_OPTOUT,  /* asked with source 0 */
    SLOT_FOR_ALL, /* asked with a subnet, scope 0 */
    SLOT_SCOPED,  /* for a prefix */
};

struct slot {
    struct slot *next; /* of the key, the latest first */
    enum slot_kind kind;
    struct ecs net;        /* SLOT_SCOPED: cut to `bits`; SLOT_FOR_ALL: what was asked with */
    uint8_t bits;          /* of the prefix it is kept for */
    uint8_t source, scope; /* as put */
    bool sure;             /* there unless evicted; false: may have been replaced */
    uint64_t evictions;    /* of the cache, a little before it was put */
    uint64_t number;       /* of the put */
    int64_t put_s;
    uint32_t life_s;
    int64_t refresh_until_s; /* somebody was told to refresh it; 0: nobody */
    struct cache_put_options options;
    char ede_text[64];
    uint16_t rcode;
    uint8_t *msg;
    size_t len;
};

struct model_key {
    uint8_t qname[255];
    size_t qname_len;
    uint16_t qtype;
    bool dnssec_ok, checking_disabled;
    struct slot *slots;
};

struct model {
    struct model_key *keys;
    size_t n_keys;
    uint64_t puts;
    uint64_t evictions; /* of the cache when last looked at */
    char what[400];     /* what was wrong */
};

/* What a cache_put() that returned ERR_OK leaves behind. */
void model_put(struct model *m, struct model_key *k, const struct cache_key *key,
               const struct dns_reply *reply, const struct cache_put_options *options,
               const struct cache *cache);

/* A cache_put() that was refused: an older answer of the key may be gone. */
void model_put_refused(struct model_key *k, const struct cache_key *key, uint8_t scope);

/* Checks what cache_get() gave. evictions() is asked only when something is missing. False: it
 * is wrong, m->what tells. */
bool model_check(struct model *m, struct model_key *k, const struct cache_key *key,
                 const struct cache_get_options *options, enum cache_outcome outcome,
                 const uint8_t *out, const struct cache_answer *answer,
                 const struct cache *cache);

/* The slots of a key and who asked, to stderr. */
void model_print(const struct model_key *k, const struct cache_key *key,
                 const struct cache_get_options *options);

/* cache_remove() of a key. */
void model_remove(struct model_key *k, const struct cache_key *key, uint32_t now_s);

/* Drops the slots of a key that `drop` is true for. */
void model_drop(struct model_key *k, bool (*drop)(const struct slot *s));
bool slot_any(const struct slot *s);
bool slot_failure(const struct slot *s);

/* The cache was loaded into a process whose clock says now_s where the old one said old_s;
 * down_s went by. */
void model_move_clock(struct model *m, uint32_t old_s, uint32_t now_s, uint32_t down_s);

#endif
