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

enum {
    NAMECODE_MAX =
        255, /* octets of the longest code: 0xff and a name of 254 octets without root */
    NAMECODE_AHEAD = 32, /* octets that are 0xff behind a code, up to a multiple of 32 */
    NAMECODE_SPACE = 288,
};

/* The code of a wire name of any case. out has NAMECODE_SPACE octets and is aligned to 8; what
 * is behind the code is 0xff up to a multiple of NAMECODE_AHEAD octets. Returns the length, 0
 * for the root, SIZE_MAX when the name is malformed. */
size_t cache_namecode_encode(uint8_t *out, const uint8_t *name, size_t len);

/* The wire name, in lower case, of a code; out has DNS_NAME_MAX octets. Returns its length, 0
 * when the code is none that cache_namecode_encode() makes. */
size_t cache_namecode_decode(uint8_t *out, const uint8_t *code, size_t len);

#endif
