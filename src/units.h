/* units.h - sizes and times as people write them: "64MiB", "1300ms", "1d".
 *
 * Thread: all functions are pure. */
#ifndef PITH_UNITS_H
#define PITH_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* The longest text that the writers make, with its NUL. */
enum { UNITS_TEXT_SIZE = 32 };

/* What a number without a unit means. 0 needs none anywhere. */
enum units_bare { UNITS_BARE_NO, UNITS_BARE_SECONDS };

/* A whole number and B, KiB, MiB, GiB, TiB or kB, MB, GB, TB (powers of 1000); a bare number is
 * octets. NULL when *bytes is set, else why not, to follow the text in a message. */
const char *units_read_bytes(const char *text, uint64_t *bytes);

/* A whole number and ms, s, m, h, d or w. NULL when *ms is set, else why not. */
const char *units_read_ms(const char *text, enum units_bare bare, uint64_t *ms);

/* A whole number up to max, nothing around it. NULL when *value is set, else why not. */
const char *units_read_count(const char *text, uint64_t max, uint64_t *value);

/* With the largest unit that needs no fraction; read back the same. out has UNITS_TEXT_SIZE
 * octets. Returns out. */
const char *units_write_bytes(uint64_t bytes, char *out);
const char *units_write_ms(uint64_t ms, char *out);

#endif
