/* cache.h - the compact answer cache, shared by all workers.
 *
 * Keys: qname (without case), qtype, DO, CD, and the client's subnet where the answer has
 * a scope (RFC 7871 7.3). Values: whole answers. What goes in comes out: the same records in
 * the same sections and order, octets of rdata and of owners kept (case too), TTLs aged; the
 * header and the question are written for who asks now.
 *
 * Memory: one arena of the size given at creation, resident as it is touched; nothing else
 * grows. Time: `now_s` is clock_now_s() of the caller, seconds that never go back; the cache
 * reads no clock. Thread: every function may be called from every thread at once, unless it
 * says otherwise; none blocks on anything but another caller's copy of one page. */
#ifndef PITH_CACHE_CACHE_H
#define PITH_CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "dns/ecs.h"
#include "dns/message.h"

struct cache;

/* An empty cache of at most `bytes` of memory, everything included. NULL when memory is out or
 * bytes is under CACHE_MIN_BYTES. Owner: the caller, cache_destroy(). */
enum { CACHE_MIN_BYTES = 1024 * 1024 };
struct cache *cache_create(size_t bytes);
void cache_destroy(struct cache *c); /* no other caller may be inside */

/* The same, but the cache begins with a sixteenth of that: few answers are found faster, and
 * take less memory, when they are together. When that gets crowded, when(arg) is called, once,
 * by whichever thread put something, and cache_grow() is to be called soon. */
struct cache *cache_create_growing(size_t bytes, void (*when)(void *arg), void *arg);

/* Gives a crowded cache all of its memory. It takes about a microsecond an answer that is
 * there, so this is for a thread that has the time; callers go on meanwhile. ERR_NOMEM: it
 * stays as it is, and when(arg) is called again. */
enum err cache_grow(struct cache *c, uint32_t now_s);

struct cache_key {
    const uint8_t *qname; /* wire name, any case */
    size_t qname_len;
    uint16_t qtype;
    bool dnssec_ok, checking_disabled; /* DO, CD */
    const struct ecs *subnet; /* what is (or would be) sent upstream for this client; NULL: no
                               * option is sent. source 0 is the client's opt-out: only answers
                               * that were got without a subnet, or with source 0, serve it. */
};

enum cache_outcome {
    CACHE_MISS,
    CACHE_HIT,
    CACHE_EXPIRED, /* out has the answer, past its life by answer.expired_s; TTLs are
                      stale_ttl_s */
};

struct cache_answer {
    size_t len;         /* of the message in out; no OPT in it */
    uint32_t ttl_s;     /* life left; 0 when expired */
    uint32_t life_s;    /* the whole life it was put with, as far as stored (rounded) */
    uint32_t expired_s; /* seconds past the end of its life */
    uint32_t max_age_s; /* smallest TTL in the answer section as written, negative: life left */
    uint16_t rcode;     /* 12 bits; the upper 8 go in the caller's OPT */
    uint16_t ede;       /* upstream's or ours, DNS_EDE_NONE without */
    uint8_t ede_text_len;
    uint8_t scope;  /* of the variant that was used; 0 when shared or no subnet */
    bool authentic; /* upstream's AD; the caller decides who sees it. The AD bit in out is clear
                     */
    bool scoped; /* the answer belongs to a subnet: scope and key.subnet make the ECS to echo */
    bool had_subnet; /* upstream was asked with this family and answered scope 0: valid for all
                      */
    bool failure;    /* put as a failure (RFC 9520) */
    bool refresh; /* this caller, and no other, is to refresh the entry now: it is in the last
                   * tenth of its life and was asked before. Taken until cache_put() or
                   * CACHE_REFRESH_S seconds later. */
    char ede_text[64];
};

/* For expired answers refresh is set for one caller at a time the same way. */
enum { CACHE_REFRESH_S = 8 };

struct cache_get_options {
    uint32_t now_s;
    uint32_t stale_max_s; /* how long past its life an answer may be given; 0: never */
    uint32_t stale_ttl_s; /* TTL of records in such an answer (RFC 8767 4) */
    bool prefetch;        /* refresh may be set before the end of an entry's life */
    bool only_look;       /* refresh is never set: nobody is asked for this caller's sake */
};

/* Looks the key up and builds the whole answer in out: header with ID 0, QR and RA set, RCODE,
 * counts; the question with key.qname octet for octet and class IN; all sections. out_size
 * should be DNS_MESSAGE_MAX; an answer that does not fit is a miss. ECS: the longest stored
 * prefix that covers key.subnet wins (RFC 7871 7.3.1). */
enum cache_outcome cache_get(struct cache *c, const struct cache_key *key,
                             const struct cache_get_options *options, uint8_t *out,
                             size_t out_size, struct cache_answer *answer);

/* For who has several keys to look up: what the lookups will need is brought from memory
 * meanwhile. First cache_prefetch() for all of them, then cache_prefetch_entry() with what it
 * returned, then cache_get(). Names are wire names; of anything else nothing comes. */
uint64_t cache_prefetch(const struct cache *c, const uint8_t *qname, size_t len);
void cache_prefetch_entry(const struct cache *c, uint64_t prefetched);

struct cache_put_options {
    uint32_t now_s;
    uint32_t life_s; /* > 0; how long it is fresh. Records' TTLs are those of the message, which
                      * the caller has clamped; they are aged from now_s and never shown below 1
                      * while fresh */
    uint16_t ede;    /* DNS_EDE_NONE for none */
    const char *ede_text; /* may be NULL; kept up to 63 octets */
    uint8_t scope;  /* of upstream's ECS option, when key.subnet is there; 0: for everyone */
    bool authentic; /* upstream's AD */
    bool failure;   /* a failure (RFC 9520): cache_forget_failures() voids it; never replaces a
                     * fresh or stale   answer that is still within stale_max_s */
    uint32_t stale_max_s;
};

/* Keeps a reply that reply_parse() passed and whose question has the key's name and type.
 * RCODE, records of all sections (without OPT) are taken from it. With a subnet and scope > 0,
 * it is kept for min(source, scope) bits of the subnet; with scope 0 and source > 0 for
 * everyone (RFC 7871 7.3.1). An older entry of the key is replaced. ERR_OK kept; ERR_FORMAT:
 * not a reply the validator passes, or of another question (assert in debug builds); ERR_LIMIT:
 * too large, or too many subnets of one name; counted. */
enum err cache_put(struct cache *c, const struct cache_key *key, const struct dns_reply *reply,
                   const struct cache_put_options *options);

/* Forgets the answer that this key would get, fresh or not (a newer one came that is not to be
 * kept). */
void cache_remove(struct cache *c, const struct cache_key *key);

/* The refresh that a cache_get() handed out failed: nobody else is told to for retry_s seconds.
 */
void cache_refresh_failed(struct cache *c, const struct cache_key *key, uint32_t now_s);

/* Failures put before now are void (an upstream is back). */
void cache_forget_failures(struct cache *c);

/* Forget: all types and subnets of a name; of a name and everything below; everything. Returns
 * how many entries went (0 for all). */
size_t cache_flush_name(struct cache *c, const uint8_t *name, size_t len);
size_t cache_flush_suffix(struct cache *c, const uint8_t *name, size_t len);
void cache_flush_all(struct cache *c);

struct cache_stats {
    uint64_t entries, bytes_used, bytes_total, bytes_large;
    uint64_t hits, misses, stale, puts, updates, evictions, evicted_expired, too_large,
        subnets_capped;
    uint64_t entries_by_form[8]; /* see cache/record.h */
};
void cache_stats(const struct cache *c, struct cache_stats *out);

/* Walks all entries, page by page, holding no lock while the callback runs. The callback gets
 * name (in lower case), type, life left, length. Answers for subnets are kept without their
 * names: a name that has some is shown once with `scoped` set, type 0 and the life of the one
 * that lives longest. Returning false ends the walk, and so does a resize meanwhile. */
struct cache_entry_info {
    const uint8_t *qname;
    size_t qname_len;
    uint16_t qtype;
    uint16_t rcode;
    bool dnssec_ok, checking_disabled, scoped;
    int64_t life_left_s; /* negative when expired */
    size_t bytes;
};
void cache_walk(struct cache *c, uint32_t now_s,
                bool (*each)(void *arg, const struct cache_entry_info *info), void *arg);

/* Writes all entries to a file (temporary file, fsync, rename; mode 0600) and loads them again.
 * wall_s is the wall clock, so that time spent down ages the entries. Restoring keeps what is
 * structurally sound and drops the rest; loading from a cache of another size re-inserts.
 * ERR_MISSING: no such file; ERR_FORMAT: not a snapshot. */
enum err cache_save(struct cache *c, const char *path, uint32_t now_s, int64_t wall_s);
enum err cache_restore(struct cache *c, const char *path, uint32_t now_s, int64_t wall_s);

/* Another size; entries move over page by page. Callers go on meanwhile. ERR_NOMEM leaves the
 * old one. */
enum err cache_resize(struct cache *c, size_t bytes, uint32_t now_s);

#endif
