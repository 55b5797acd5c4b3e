/* h2_session.h - nghttp2's server sessions as we want them: options, SETTINGS, memory. */
#ifndef PITH_HTTP_H2_SESSION_H
#define PITH_HTTP_H2_SESSION_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A session whose SETTINGS are submitted; NULL when memory is out. What one
 * nghttp2_session_mem_send() returns is gone with the next call for any session of the thread.
 */
nghttp2_session *h2_session_create(const nghttp2_session_callbacks *callbacks, void *user,
                                   uint32_t max_streams);

/* Has to see the first frame that the session sends, before it goes out. Always true.
 *
 * nghttp2 ends the connection of who opens more streams than we announced and acknowledged;
 * RFC 9113 5.1.2 wants the stream refused, the others go on. So nghttp2 is told a larger
 * number, and this puts the real one into the SETTINGS. Beyond the larger the connection still
 * ends. */
bool h2_session_announce(uint8_t *frame, size_t len, uint32_t max_streams);

#endif
