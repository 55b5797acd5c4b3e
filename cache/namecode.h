/* namecode.h - names as the cache keeps them: in lower case, in a fixed prefix code.
 *
 * Letters, digits, '-' and '_' take 4 to 7 bits, the step from one label to the next 5, any
 * other octet 16:
 *
 *   bits  code               octets
 *   4     0xxx               e a o i n s r t
 *   5     10xxx              c l d m p u g, next label
 *   6     110xxx             h b f k w y v -
 *   7     1110000..1111110   x z j q 0..9 _
 *   16    11111110 + octet   the rest
 *
 * The last octet is filled up with ones. A name that would become longer than it is stands as
 * it is, without its root, behind an octet 0xff, with which no code begins. The code is
 * one-to-one on names without case: equal codes, equal names. Thread: all functions are pure.
 */
#ifndef PITH_CACHE_NAMECODE_H
#define PITH_CACHE_NAMECODE_H

#include <stddef.h>
#include <stdint.h>

enum {
    NAMECODE_MAX =
        255, /* octets of the longest code: 0xff and a name of 254 octets without root */
    NAMECODE_SPACE = 528, /* what cache_namecode_encode() may write meanwhile */
};

/* The code of a wire name of any case. out has NAMECODE_SPACE octets; the 8 behind the code are
 * set to 0. Returns the length, 0 for the root, SIZE_MAX when the name is malformed. */
size_t cache_namecode_encode(uint8_t *out, const uint8_t *name, size_t len);

/* The wire name, in lower case, of a code; out has DNS_NAME_MAX octets. Returns its length, 0
 * when the code is none that cache_namecode_encode() makes. */
size_t cache_namecode_decode(uint8_t *out, const uint8_t *code, size_t len);

#endif
