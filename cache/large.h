/* large.h - answers that do not fit an entry.
 *
 * A large page of 64 KiB has 256 units of 256 octets:
 *
 *   unit 0                                        unit u
 *   +-----+--------------------------+--        --+-------+--------+----+--------------+-------
 *   | seq | bits of units where a    |    ...     | stamp | length | id | record       | ...
 *   | 32  | record begins, 4 x 64    |            | 32    | 32     | 64 | (record.h)   |
 *   +-----+--------------------------+--        --+-------+--------+----+--------------+-------
 *
 * All large pages are one log, written round and round: a new record takes the units behind the
 * newest one and with them what lay there. The stub in the small page names page, unit and
 * stamp; when another record lies there by now, the answer is gone, and the stub with it once
 * somebody looks. The id is of the key (refresh.h), so that whatever happens no key ever gets
 * the answer of another.
 *
 * Body of the stub, a LARGE record:  | page, 32 | unit, 32 | stamp, 32 |
 *
 * In its extension, so that the record need not be read for it: RCODE and epoch. */
#ifndef PITH_CACHE_LARGE_H
#define PITH_CACHE_LARGE_H

#include "cache/internal.h"

enum {
    LARGE_STUB = 12, /* the body of a stub */
    LARGE_STUB_MAX = RECORD_HEAD + 2 + 5 + LARGE_STUB,
    LARGE_UNIT = 256,
    LARGE_UNITS = LARGE_PAGE_SIZE / LARGE_UNIT,
    LARGE_HEAD = 16,
    LARGE_MAX = LARGE_PAGE_SIZE - LARGE_UNIT - LARGE_HEAD, /* octets of a record */
};

/* Puts a record into the large pages and makes its stub, of RECORD_HEAD + 2 + LARGE_STUB octets
 * at most. Returns the stub's length, 0 when the record is longer than LARGE_MAX or the arena
 * is retired. */
size_t cache_large_put(struct cache *c, struct cache_arena *a, uint64_t id,
                       const uint8_t *record, size_t len, uint8_t *stub);

/* Copies the record of a stub; out has LARGE_MAX + 8 octets. Returns its length, 0 when it is
 * gone. */
size_t cache_large_get(const struct cache_arena *a, uint64_t id,
                       const struct cache_record *stub, uint8_t *out);

/* Forgets all. */
void cache_large_clear(struct cache *c, struct cache_arena *a);

/* Octets of all records there, whole units; for checks, while nobody else is inside. */
uint64_t cache_large_bytes(const struct cache_arena *a);

#endif
