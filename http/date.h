/* date.h - the value of the date header field (RFC 9110 5.6.7, 6.6.1). */
#ifndef PITH_HTTP_DATE_H
#define PITH_HTTP_DATE_H

#include <stdint.h>

enum { HTTP_DATE_LEN = 29 };

/* "Tue, 01 Dec 2026 03:30:00 GMT" of now_s (seconds since 1970), HTTP_DATE_LEN characters and a
 * NUL. Formatted once a second and thread; good until the thread's next call. */
const char *http_date(int64_t now_s);

#endif
