/* edns.h - OPT records and their options (RFC 6891). */
#ifndef PITH_DNS_EDNS_H
#define PITH_DNS_EDNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dns/wire.h"

/* Finds the first option of a code in checked options (query_parse(), reply_parse()). Returns
 * its data, or NULL; *len is the data's length. Data of length 0 returns a non-NULL pointer. */
const uint8_t *edns_option(const uint8_t *options, size_t options_len, uint16_t code,
                           size_t *len);

/* True when the octets are whole options, one after the other to the end. */
bool edns_options_valid(const uint8_t *options, size_t len);

/* Writes an OPT record without options at out (DNS_OPT_FIXED octets): size ours, ext_rcode the
 * upper 8 bits of the RCODE, flags with DO. Returns DNS_OPT_FIXED. */
size_t edns_write(uint8_t *out, uint16_t udp_size, uint8_t ext_rcode, uint16_t ext_flags);

/* Appends an option to the OPT record that begins at opt and ends at end (the current end of the
 * message), and raises its RDLENGTH. Returns the new end, or NULL when limit would be passed or
 * RDLENGTH would wrap. data may be NULL with len 0. */
uint8_t *edns_add(uint8_t *opt, uint8_t *end, const uint8_t *limit, uint16_t code,
                  const void *data, size_t len);

/* Padding that makes a message of len octets (OPT included, padding option not) a multiple of
 * block: the option's data length, at least 0 (RFC 8467 4.1, the option's 4 octets counted). When
 * the result would pass max, pads to max; SIZE_MAX when not even the empty option fits. */
size_t edns_padding(size_t len, size_t block, size_t max);

#endif
