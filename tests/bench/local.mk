# tests/bench: size, speed and hit rate of the cache beside baselines.
EXTRA_LIBRARIES += tests/bench/libbench.a
tests_bench_libbench_a_SOURCES = \
	tests/bench/batch.c tests/bench/batch.h \
	tests/bench/engine.h \
	tests/bench/engine_cache.c \
	tests/bench/lru.c \
	tests/bench/measure.c tests/bench/measure.h \
	tests/bench/packet.c \
	tests/bench/packetmap.c \
	tests/bench/policy.c \
	tests/bench/trace.c tests/bench/trace.h \
	tests/bench/workload.c tests/bench/workload.h \
	tests/unit/plain.c tests/unit/plain.h
tests_bench_libbench_a_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
bench_cache_libs = tests/bench/libbench.a cache/libcache.a src/dns/libdns.a \
	src/core/libcore.a -lm -lpthread

EXTRA_PROGRAMS += tests/bench/bench_cache tests/bench/bench_hitrate
tests_bench_bench_cache_SOURCES = \
	tests/bench/bench_cache.c \
	tests/bench/bench_modes.c tests/bench/bench_modes.h
tests_bench_bench_cache_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_bench_bench_cache_LDADD = $(bench_cache_libs)
tests_bench_bench_hitrate_SOURCES = tests/bench/bench_hitrate.c
tests_bench_bench_hitrate_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_bench_bench_hitrate_LDADD = $(bench_cache_libs)

EXTRA_DIST += tests/bench/count_instructions.sh

BENCH_ENTRIES = 1000000
BENCH_RUNS = 5
BENCH_MIXES = w w-realistic names ecs negative
.PHONY: bench bench-cache
bench: bench-cache
bench-cache: tests/bench/bench_cache$(EXEEXT) tests/bench/bench_hitrate$(EXEEXT)
	@for mix in $(BENCH_MIXES); do \
	    tests/bench/bench_cache --entries $(BENCH_ENTRIES) --runs $(BENCH_RUNS) --mix $$mix || exit 1; \
	done
	tests/bench/bench_cache --entries 10000 --runs $(BENCH_RUNS) --mix large
	tests/bench/bench_cache --entries $(BENCH_ENTRIES) --runs $(BENCH_RUNS) --threads
	tests/bench/bench_cache --entries $(BENCH_ENTRIES) --runs $(BENCH_RUNS) --snapshot
	tests/bench/bench_hitrate
	-@if command -v valgrind >/dev/null; then \
	    $(SHELL) $(top_srcdir)/tests/bench/count_instructions.sh tests/bench/bench_cache; fi

EXTRA_PROGRAMS += tests/bench/bench_upstream
tests_bench_bench_upstream_SOURCES = tests/bench/bench_upstream.c
tests_bench_bench_upstream_LDADD = src/libpith.a tls/libtls.a src/dns/libdns.a src/core/libcore.a \
	$(GETDNS_LIBS) $(YAML_LIBS) $(OPENSSL_LIBS) $(EV_LIBS)

# HTTP alone: sessions in memory, a canned reply.
EXTRA_PROGRAMS += tests/bench/bench_http
tests_bench_bench_http_SOURCES = tests/bench/bench_http.c tests/unit/http_fake.h
tests_bench_bench_http_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(NGHTTP2_CFLAGS)
tests_bench_bench_http_LDADD = http/libhttp.a src/dns/libdns.a src/core/libcore.a \
	$(NGHTTP2_LIBS) $(JANSSON_LIBS) $(LDNS_LIBS)
.PHONY: bench-http
bench-http: tests/bench/bench_http$(EXEEXT)
	@for mode in h2 post h1 idle; do tests/bench/bench_http $$mode || exit 1; done

# The query path alone: proxy and cache, no transport.
EXTRA_PROGRAMS += tests/bench/bench_proxy
tests_bench_bench_proxy_SOURCES = tests/bench/bench_proxy.c \
	tests/unit/fake_upstream.c tests/unit/fake_upstream.h
tests_bench_bench_proxy_LDADD = src/libpith.a cache/libcache.a tls/libtls.a src/dns/libdns.a \
	src/core/libcore.a $(GETDNS_LIBS) $(YAML_LIBS) $(OPENSSL_LIBS) $(EV_LIBS)
.PHONY: bench-proxy
bench-proxy: tests/bench/bench_proxy$(EXEEXT)
	tests/bench/bench_proxy

# The daemon beside its peers, where they are installed: CPU a query, memory a connection.
EXTRA_PROGRAMS += tests/bench/load tests/bench/floor
tests_bench_load_SOURCES = tests/bench/load.c
tests_bench_load_CPPFLAGS = $(AM_CPPFLAGS) $(OPENSSL_CFLAGS)
tests_bench_load_LDADD = src/dns/libdns.a src/core/libcore.a $(OPENSSL_LIBS)
tests_bench_floor_SOURCES = tests/bench/floor.c
tests_bench_floor_CPPFLAGS = $(AM_CPPFLAGS) $(OPENSSL_CFLAGS)
tests_bench_floor_LDADD = src/dns/libdns.a src/core/libcore.a $(OPENSSL_LIBS)
EXTRA_DIST += tests/bench/peers.py tests/bench/fill.py tests/bench/misses.py
.PHONY: bench-peers bench-fill bench-misses
bench: bench-peers
bench-peers: pithd$(EXEEXT) tests/bench/load$(EXEEXT) tests/bench/floor$(EXEEXT)
	top_builddir=. /usr/bin/python3 $(top_srcdir)/tests/bench/peers.py
bench: bench-fill
bench-fill: pithd$(EXEEXT)
	top_builddir=. /usr/bin/python3 $(top_srcdir)/tests/bench/fill.py
bench: bench-misses
bench-misses: pithd$(EXEEXT)
	top_builddir=. /usr/bin/python3 $(top_srcdir)/tests/bench/misses.py
EXTRA_DIST += tests/bench/instructions.py
.PHONY: bench-instructions
bench: bench-instructions
bench-instructions: pithd$(EXEEXT) tests/bench/load$(EXEEXT)
	-@if command -v valgrind >/dev/null; then \
	    top_builddir=. /usr/bin/python3 $(top_srcdir)/tests/bench/instructions.py; fi
