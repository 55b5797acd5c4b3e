/* url.h - query strings: "a=b&c=d" with %-escapes (RFC 3986 2.1, 3.4). */
#ifndef PITH_HTTP_URL_H
#define PITH_HTTP_URL_H

#include <stddef.h>

/* Decodes %-escapes; those that are none stay as they are, and `+` is a plus. out has len
 * octets and may be the same as in. Returns the octets written. */
size_t url_unescape(char *out, const char *in, size_t len);

#endif
