/* name.h - domain names in wire format.
 *
 * A "wire name" is uncompressed: labels with their length octets and the root, 1..255
 * octets (RFC 1035 3.1, RFC 2181 11). Any octet may stand in a label. Letters compare
 * without case, ASCII only (RFC 4343). Thread: all functions are pure. */
#ifndef PITH_DNS_NAME_H
#define PITH_DNS_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dns/wire.h"

/* Text with escapes: 4 characters an octet at most, dots, NUL. */
enum { NAME_TEXT_SIZE = 1024 };

/* Length of the uncompressed name at p with `left` octets after it, root included; 0 when it
 * is cut off, longer than 255, or has a pointer or a reserved label type. */
size_t name_wire_len(const uint8_t *p, size_t left);

/* Reads the name at msg + *pos, which may end in compression pointers (RFC 1035 4.1.4).
 * Pointers go strictly backwards, each to a name that ends before the labels it follows, and
 * never into the header, and are 127 at most, so the work is bounded and nothing behind the name matters to it.
 * Writes the uncompressed name, case kept, to out (DNS_NAME_MAX octets) and moves *pos behind
 * the name in place. Returns its length, or 0 when malformed. */
size_t name_expand(const uint8_t *msg, size_t len, size_t *pos, uint8_t *out);

/* Moves *pos behind the name without expanding it, after the same checks. */
bool name_skip(const uint8_t *msg, size_t len, size_t *pos);

/* Wire names that differ at most in the case of letters. Lengths as from name_wire_len(). */
bool name_equal(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len);

/* True when `name` equals `suffix` or lies below it. */
bool name_below(const uint8_t *name, size_t name_len, const uint8_t *suffix, size_t suffix_len);

/* Copies with ASCII letters in lower case; in and out may be the same. */
void name_lower(uint8_t *out, const uint8_t *in, size_t len);

/* Labels without the root: 0 for ".". */
size_t name_labels(const uint8_t *name, size_t len);

/* The wire name in presentation format with its final dot and \DDD escapes (RFC 4343 2.1);
 * out has NAME_TEXT_SIZE octets. Returns out. */
const char *name_to_text(const uint8_t *name, size_t len, char *out);

/* From presentation format, with or without the final dot; escapes \DDD and \X. Returns the
 * length, 0 when malformed (empty label, label over 63, name over 255). out: DNS_NAME_MAX. */
size_t name_from_text(uint8_t *out, const char *text);

#endif
