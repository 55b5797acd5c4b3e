# http: DNS over HTTPS. Only home of nghttp2.
noinst_LIBRARIES += http/libhttp.a
http_libhttp_a_CPPFLAGS = $(AM_CPPFLAGS) $(NGHTTP2_CFLAGS) $(JANSSON_CFLAGS) $(LDNS_CFLAGS)
http_libhttp_a_SOURCES = \
	http/base64url.c http/base64url.h \
	http/client.c http/client.h \
	http/date.c http/date.h \
	http/doh.c http/doh.h \
	http/forwarded.c http/forwarded.h \
	http/h1.c http/h1_parse.c http/h1_parse.h \
	http/h2.c \
	http/h2_session.c http/h2_session.h \
	http/held.c http/held.h \
	http/http.h \
	http/json.c http/json.h \
	http/pool.c http/pool.h \
	http/response.c http/response.h \
	http/url.c http/url.h
