/* base64url.h - base64 with the URL and file name safe alphabet (RFC 4648 5). */
#ifndef PITH_HTTP_BASE64URL_H
#define PITH_HTTP_BASE64URL_H

#include <stddef.h>
#include <stdint.h>

/* Octets that the output of `len` characters needs: one more than can come is written to. */
static inline size_t base64url_size(size_t len)
{
    return len / 4 * 3 + 3;
}

/* Decodes `len` characters to out (base64url_size(len) octets). Padding at the end is tolerated
 * when it makes the length a multiple of 4 or is cut short; a character outside the alphabet
 * ('+' and '/' too), a last group of one character, and set bits behind the last octet
 * (RFC 4648 3.5) are not. Returns the octets written, SIZE_MAX when malformed. */
size_t base64url_decode(uint8_t *out, const char *in, size_t len);

/* Characters that `len` octets encode to, with a NUL. */
static inline size_t base64url_encoded_size(size_t len)
{
    return (len * 4 + 2) / 3 + 1;
}

/* Encodes without padding, and ends with a NUL. */
void base64url_encode(char *out, const uint8_t *in, size_t len);

#endif
