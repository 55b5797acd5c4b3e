/* snapshot.h - the format of snapshots, which save.c writes and restore.c reads.
 *
 *   file:    | header | block | block | ...
 *
 *   header:  | magic 8 | version, 32 | byte order, 32 | hash key, 2 x 64 | wall clock, 64 |
 *            | now, 32 | generation, 32 | zero, 32 | CRC of all before, 32 |
 *
 *   block:   | octets, 32 | CRC of the items, 32 | items |
 *
 *   item:    | octets, 32 | what, 8 | meta, 8 | key length, 16 | key and records |
 *
 * An item is an entry without its large records, or a key and one large record. Nothing in it
 * depends on the size of the arena: restoring puts the items into a new one, which then takes
 * the place of the old (resize.h). The hash key comes along, as the fingerprints of answers for
 * subnets are made with it. CRCs are CRC-32C; after them every item is checked in full, so that
 * no file whatever can do more than bring wrong entries of a sound form. */
#ifndef PITH_CACHE_SNAPSHOT_H
#define PITH_CACHE_SNAPSHOT_H

#include <stdint.h>

#include "cache/large.h"
#include "core/hash.h"

enum {
    SNAPSHOT_VERSION = 2,
    SNAPSHOT_BYTE_ORDER = 0x01020304,
    SNAPSHOT_BLOCK_MAX = 1 << 18,
};

#define SNAPSHOT_MAGIC "pithsnap"

struct snapshot_header {
    char magic[8];
    uint32_t version, byte_order;
    struct hash_key key;
    int64_t wall_s;
    uint32_t now_s, generation, zero, crc;
};
_Static_assert(sizeof(struct snapshot_header) == 56, "no holes");

struct snapshot_block {
    uint32_t len, crc;
};

enum { SNAPSHOT_ENTRY, SNAPSHOT_LARGE };

struct snapshot_item {
    uint32_t len; /* of what follows */
    uint8_t what, meta;
    uint16_t key_len;
};
_Static_assert(sizeof(struct snapshot_item) == 8, "no holes");

#endif
