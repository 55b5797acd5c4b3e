/* entry.h - an entry as a whole: a key and the records of it. */
#ifndef PITH_CACHE_ENTRY_H
#define PITH_CACHE_ENTRY_H

#include "cache/key.h"
#include "cache/record.h"

/* The records of an entry, one after the other:
 *
 *     for (bool more = cache_entry_first(&e, kind, entry, len); more; more =
 * cache_entry_next(&e)) ... e.record ... */
struct cache_entry {
    struct cache_record record;
    size_t left; /* octets from the record's start to the entry's end */
    bool bad;    /* the walk ended at something malformed */
};
bool cache_entry_first(struct cache_entry *e, uint8_t kind, const uint8_t *entry, size_t len);
bool cache_entry_next(struct cache_entry *e);

/* The record of an entry that has only one; NULL when it has more, or is malformed. */
static inline const uint8_t *cache_entry_single(uint8_t kind, const uint8_t *entry, size_t len)
{
    size_t n = cache_key_len(kind, entry, len);
    if (n == SIZE_MAX || len - n < RECORD_HEAD || (entry[n] & RECORD_MORE))
        return NULL;
    return entry + n;
}

/* Everything is as it has to be: a key that encoding makes, whole records, no two of the same
 * type and flags, less than 4 octets of 0 behind them. */
bool cache_entry_check(uint8_t kind, const uint8_t *entry, size_t len);

/* Answers in an entry. */
size_t cache_entry_answers(uint8_t kind, const uint8_t *entry, size_t len);

/* Life left of the longest-lived record. */
int32_t cache_entry_life_left(uint8_t kind, const uint8_t *entry, size_t len, uint32_t now_s);

#endif
