# src: the daemon itself; the only home of getdns.
noinst_LIBRARIES += src/libpith.a
src_libpith_a_CPPFLAGS = $(AM_CPPFLAGS) $(YAML_CFLAGS) $(GETDNS_CFLAGS) $(SYSTEMD_CFLAGS) $(SECCOMP_CFLAGS)
src_libpith_a_SOURCES =

# configuration
src_libpith_a_SOURCES += \
	src/config.c src/config.h \
	src/config_check.c \
	src/config_dump.c \
	src/config_env.c \
	src/config_schema.c src/config_schema.h \
	src/config_text.c \
	src/config_value.c \
	src/config_yaml.c \
	src/resolvconf.c src/resolvconf.h \
	src/units.c src/units.h

# life cycle: workers, listeners, reload, drain
src_libpith_a_SOURCES += \
	src/activation.c src/activation.h \
	src/endpoint.c src/endpoint.h \
	src/privileges.c src/privileges.h \
	src/sandbox.c src/sandbox.h \
	src/server.c src/server.h \
	src/sockets.c src/sockets.h \
	src/worker.c src/worker.h

# the query path
src_libpith_a_SOURCES += \
	src/accept.c src/accept.h \
	src/asker.c src/asker.h \
	src/cookie.c \
	src/inflight.c src/inflight.h \
	src/local.c src/local.h \
	src/loopcheck.c src/loopcheck.h \
	src/proxy.c src/proxy.h \
	src/ratelimit.c src/ratelimit.h \
	src/respond.c src/respond.h \
	src/special.c src/special.h \
	src/stalequeue.c src/stalequeue.h

# plain DNS over UDP
src_libpith_a_SOURCES += \
	src/udp.c src/udp.h

# commands beside the daemon: what a client sees of a server
src_libpith_a_SOURCES += \
	src/check.c src/check.h \
	src/health.c \
	src/lookup.c src/lookup.h \
	src/probe.c src/probe.h \
	src/setup.c src/setup.h

# upstreams: getdns
src_libpith_a_SOURCES += \
	src/upstream.c src/upstream.h src/upstream_set.h \
	src/upstream_ask.c src/upstream_choice.c src/upstream_line.c \
	src/upstream_outcome.c src/upstream_resolve.c src/upstream_try.c src/upstream_watch.c \
	src/upstream_context.c src/upstream_context.h \
	src/upstream_getdns.c src/upstream_getdns.h src/upstream_judge.c \
	src/upstream_health.c src/upstream_health.h \
	src/upstream_loop.c src/upstream_loop.h \
	src/upstream_mem.c src/upstream_mem.h

# the daemon
sbin_PROGRAMS += pithd
pithd_SOURCES = src/main.c
pithd_CPPFLAGS = $(src_libpith_a_CPPFLAGS)
pithd_LDADD = src/libpith.a http/libhttp.a tls/libtls.a cache/libcache.a src/dns/libdns.a \
	src/core/libcore.a $(GETDNS_LIBS) $(NGHTTP2_LIBS) $(JANSSON_LIBS) $(LDNS_LIBS) \
	$(OPENSSL_LIBS) $(YAML_LIBS) $(EV_LIBS) $(SYSTEMD_LIBS) $(SECCOMP_LIBS)
