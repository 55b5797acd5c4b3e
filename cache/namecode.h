/* namecode.h - names as the cache keeps them: in lower case, in symbols of 5 or 6 bits.
 *
 *   code:   | width, 1 bit | symbol | symbol | ... | ones up to a whole octet |
 *
 *   width   symbols have   octets that have a symbol
 *   0       5 bits         letters (1..26), '-' (27), the step from one label to the next (0)
 *   1       6 bits         0x20..0x5f and lower-case letters, but not '.' and '?': the lower 6
 *                          bits in upper case; the step takes the place of '.'
 *
 * Bits are numbered from the lowest of the first octet on. The narrow width is taken for every
 * name that it can say. A name with any other octet, or one over 0x1f that a label's length
 * octet is, stands as it is, without its root, behind an octet 0xff, with which no code begins.
 * So the first octet of a name, and where labels end, take no room.
 *
 * A code of variable length, with 4 bits for an 'e' and 7 for a digit, would be shorter by 1 to
 * 2 octets a name, at five times the work: these symbols are packed sixteen at a time.
 *
 * The code is one-to-one on names without case: equal codes, equal names. Thread: all functions
 * are pure. */
#ifndef PITH_CACHE_NAMECODE_H
#define PITH_CACHE_NAMECODE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    NAMECODE_MAX =
        255, /* octets of the longest code: 0xff and a name of 254 octets without root */
    NAMECODE_AHEAD = 32, /* octets that may be written from the start on, at least */
    NAMECODE_SPACE = 264,
    NAMECODE_SHORT = 32, /* octets of a short name without its first and its root */
};

/* The code of a wire name of any case. out has NAMECODE_SPACE octets and is aligned to 8.
 * Returns the length, 0 for the root, SIZE_MAX when the name is malformed. */
size_t cache_namecode_encode(uint8_t *out, const uint8_t *name, size_t len);

/* The octets of a short name behind its first as four words; what is behind the last is
 * anything. */
struct cache_words {
    uint64_t w[NAMECODE_SHORT / 8];
};

/* Reads them at p; `room` octets can be read there: as many as the name has, and at least 8.
 * There is no branch on the length, which is random. */
static inline struct cache_words cache_namecode_words(const uint8_t *p, size_t room);

/* The same as cache_namecode_encode() for a short name, of which p, n and words are. Returns 0
 * when it has to be that. */
size_t cache_namecode_encode_short(uint8_t *out, const uint8_t *p, size_t n,
                                   const struct cache_words *words);

/* The wire name, in lower case, of a code; out has DNS_NAME_MAX octets. Returns its length, 0
 * when the code is none that cache_namecode_encode() makes. */
size_t cache_namecode_decode(uint8_t *out, const uint8_t *code, size_t len);

/* The same for a code that is known to be good; of any other, some length and octets or 0. */
size_t cache_namecode_decode_own(uint8_t *out, const uint8_t *code, size_t len);

/* ---- inside */

/* Eight octets from `at` on, of which `room` (8 or more) are there. */
static inline uint64_t namecode_eight(const uint8_t *p, size_t room, size_t at)
{
    size_t from = at < room - 8 ? at : room - 8;
    uint64_t w;
    memcpy(&w, p + from, sizeof w);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return w >> (8 * (at - from) & 63);
#else
    return w << (8 * (at - from) & 63);
#endif
}

static inline struct cache_words cache_namecode_words(const uint8_t *p, size_t room)
{
    return (struct cache_words){{namecode_eight(p, room, 0), namecode_eight(p, room, 8),
                                 namecode_eight(p, room, 16), namecode_eight(p, room, 24)}};
}

#endif
