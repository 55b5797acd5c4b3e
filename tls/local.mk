# tls: the only home of OpenSSL. Contexts, connections, DNS over TLS and TCP.
noinst_LIBRARIES += tls/libtls.a
tls_libtls_a_CPPFLAGS = $(AM_CPPFLAGS) $(OPENSSL_CFLAGS)
tls_libtls_a_SOURCES = \
	tls/cert.c tls/cert.h \
	tls/client.c tls/client.h \
	tls/conn.c tls/conn.h tls/conn_env.c tls/conn_start.c \
	tls/context.c tls/context.h \
	tls/dot.c tls/dot.h \
	tls/io.c tls/io.h \
	tls/limits.c tls/limits.h \
	tls/listener.c tls/listener.h \
	tls/proxyproto.c tls/proxyproto.h \
	tls/ticket.c tls/ticket.h \
	tls/tls.h
