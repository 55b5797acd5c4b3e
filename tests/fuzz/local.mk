# Fuzz targets. replay_WHAT runs corpus/WHAT in `make check`, with any compiler; fuzz_WHAT is
# the libFuzzer program (--enable-fuzzing, clang), which `make fuzz-smoke` runs for a while.
# A new target: its two programs, as below, and a folder of inputs in corpus/.
fuzz_programs =
FUZZ_SECONDS = 10
fuzz_driver = tests/fuzz/replay.c tests/fuzz/fuzz.h
fuzz_ldflags = $(AM_LDFLAGS) -fsanitize=fuzzer
EXTRA_DIST += tests/fuzz/corpus

# src/dns
fuzz_dns_replays = tests/fuzz/replay_query tests/fuzz/replay_reply tests/fuzz/replay_build
fuzz_dns_libs = src/dns/libdns.a src/core/libcore.a
check_PROGRAMS += $(fuzz_dns_replays)
TESTS += $(fuzz_dns_replays)
tests_fuzz_replay_query_SOURCES = tests/fuzz/fuzz_query.c $(fuzz_driver)
tests_fuzz_replay_query_LDADD = $(fuzz_dns_libs)
tests_fuzz_replay_reply_SOURCES = tests/fuzz/fuzz_reply.c $(fuzz_driver)
tests_fuzz_replay_reply_LDADD = $(fuzz_dns_libs)
tests_fuzz_replay_build_SOURCES = tests/fuzz/fuzz_build.c $(fuzz_driver)
tests_fuzz_replay_build_LDADD = $(fuzz_dns_libs)
if FUZZING
fuzz_programs += tests/fuzz/fuzz_query tests/fuzz/fuzz_reply tests/fuzz/fuzz_build
tests_fuzz_fuzz_query_SOURCES = tests/fuzz/fuzz_query.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_query_LDADD = $(fuzz_dns_libs)
tests_fuzz_fuzz_query_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_reply_SOURCES = tests/fuzz/fuzz_reply.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_reply_LDADD = $(fuzz_dns_libs)
tests_fuzz_fuzz_reply_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_build_SOURCES = tests/fuzz/fuzz_build.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_build_LDADD = $(fuzz_dns_libs)
tests_fuzz_fuzz_build_LDFLAGS = $(fuzz_ldflags)
endif

# tls
fuzz_tls_replays = tests/fuzz/replay_dot tests/fuzz/replay_proxyproto
fuzz_tls_libs = tls/libtls.a src/core/libcore.a
check_PROGRAMS += $(fuzz_tls_replays)
TESTS += $(fuzz_tls_replays)
tests_fuzz_replay_dot_SOURCES = tests/fuzz/fuzz_dot.c tests/unit/echo_handler.h $(fuzz_driver)
tests_fuzz_replay_dot_LDADD = $(fuzz_tls_libs)
tests_fuzz_replay_proxyproto_SOURCES = tests/fuzz/fuzz_proxyproto.c $(fuzz_driver)
tests_fuzz_replay_proxyproto_LDADD = $(fuzz_tls_libs)
if FUZZING
fuzz_programs += tests/fuzz/fuzz_dot tests/fuzz/fuzz_proxyproto
tests_fuzz_fuzz_dot_SOURCES = tests/fuzz/fuzz_dot.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_dot_LDADD = $(fuzz_tls_libs)
tests_fuzz_fuzz_dot_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_proxyproto_SOURCES = tests/fuzz/fuzz_proxyproto.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_proxyproto_LDADD = $(fuzz_tls_libs)
tests_fuzz_fuzz_proxyproto_LDFLAGS = $(fuzz_ldflags)
endif

# http
fuzz_http_replays = tests/fuzz/replay_h1 tests/fuzz/replay_h2 tests/fuzz/replay_json
fuzz_http_libs = http/libhttp.a src/dns/libdns.a src/core/libcore.a $(NGHTTP2_LIBS) \
	$(JANSSON_LIBS) $(LDNS_LIBS)
fuzz_http_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(JANSSON_CFLAGS)
fuzz_http_headers = tests/fuzz/fuzz_http.h tests/unit/http_fake.h
check_PROGRAMS += $(fuzz_http_replays)
TESTS += $(fuzz_http_replays)
tests_fuzz_replay_h1_SOURCES = tests/fuzz/fuzz_h1.c $(fuzz_driver) $(fuzz_http_headers)
tests_fuzz_replay_h1_CPPFLAGS = $(fuzz_http_cppflags)
tests_fuzz_replay_h1_LDADD = $(fuzz_http_libs)
tests_fuzz_replay_h2_SOURCES = tests/fuzz/fuzz_h2.c $(fuzz_driver) $(fuzz_http_headers)
tests_fuzz_replay_h2_CPPFLAGS = $(fuzz_http_cppflags)
tests_fuzz_replay_h2_LDADD = $(fuzz_http_libs)
tests_fuzz_replay_json_SOURCES = tests/fuzz/fuzz_json.c $(fuzz_driver)
tests_fuzz_replay_json_CPPFLAGS = $(fuzz_http_cppflags)
tests_fuzz_replay_json_LDADD = $(fuzz_http_libs)
if FUZZING
fuzz_programs += tests/fuzz/fuzz_h1 tests/fuzz/fuzz_h2 tests/fuzz/fuzz_json
tests_fuzz_fuzz_h1_SOURCES = tests/fuzz/fuzz_h1.c tests/fuzz/fuzz.h $(fuzz_http_headers)
tests_fuzz_fuzz_h1_CPPFLAGS = $(fuzz_http_cppflags)
tests_fuzz_fuzz_h1_LDADD = $(fuzz_http_libs)
tests_fuzz_fuzz_h1_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_h2_SOURCES = tests/fuzz/fuzz_h2.c tests/fuzz/fuzz.h $(fuzz_http_headers)
tests_fuzz_fuzz_h2_CPPFLAGS = $(fuzz_http_cppflags)
tests_fuzz_fuzz_h2_LDADD = $(fuzz_http_libs)
tests_fuzz_fuzz_h2_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_json_SOURCES = tests/fuzz/fuzz_json.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_json_CPPFLAGS = $(fuzz_http_cppflags)
tests_fuzz_fuzz_json_LDADD = $(fuzz_http_libs)
tests_fuzz_fuzz_json_LDFLAGS = $(fuzz_ldflags)
endif

# src: the query path
check_PROGRAMS += tests/fuzz/replay_proxy
TESTS += tests/fuzz/replay_proxy
fuzz_proxy_sources = tests/fuzz/fuzz_proxy.c tests/unit/fake_upstream.c tests/unit/fake_upstream.h
fuzz_proxy_libs = src/libpith.a cache/libcache.a tls/libtls.a src/dns/libdns.a \
	src/core/libcore.a $(GETDNS_LIBS) $(YAML_LIBS) $(OPENSSL_LIBS) $(EV_LIBS)
tests_fuzz_replay_proxy_SOURCES = $(fuzz_proxy_sources) $(fuzz_driver)
tests_fuzz_replay_proxy_LDADD = $(fuzz_proxy_libs)
if FUZZING
fuzz_programs += tests/fuzz/fuzz_proxy
tests_fuzz_fuzz_proxy_SOURCES = $(fuzz_proxy_sources) tests/fuzz/fuzz.h
tests_fuzz_fuzz_proxy_LDADD = $(fuzz_proxy_libs)
tests_fuzz_fuzz_proxy_LDFLAGS = $(fuzz_ldflags)
endif

# cache
fuzz_cache_libs = cache/libcache.a src/dns/libdns.a src/core/libcore.a -lpthread
fuzz_cache_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/tests -I$(top_srcdir)/tests/fuzz
fuzz_cache_plain = tests/unit/plain.c tests/unit/plain.h
fuzz_snapshot_made = $(fuzz_cache_plain) tests/unit/made.c tests/unit/made.h \
	tests/bench/workload.c tests/bench/workload.h
fuzz_cache_replays = tests/fuzz/replay_cache tests/fuzz/replay_namecode \
	tests/fuzz/replay_snapshot
check_PROGRAMS += $(fuzz_cache_replays)
TESTS += $(fuzz_cache_replays)
tests_fuzz_replay_cache_SOURCES = tests/fuzz/fuzz_cache.c $(fuzz_driver) $(fuzz_cache_plain)
tests_fuzz_replay_cache_CPPFLAGS = $(fuzz_cache_cppflags)
tests_fuzz_replay_cache_LDADD = $(fuzz_cache_libs)
tests_fuzz_replay_namecode_SOURCES = tests/fuzz/fuzz_namecode.c $(fuzz_driver)
tests_fuzz_replay_namecode_LDADD = $(fuzz_cache_libs)
tests_fuzz_replay_snapshot_SOURCES = tests/fuzz/fuzz_snapshot.c $(fuzz_driver) \
	$(fuzz_snapshot_made)
tests_fuzz_replay_snapshot_CPPFLAGS = $(fuzz_cache_cppflags)
tests_fuzz_replay_snapshot_LDADD = $(fuzz_cache_libs) -lm
if FUZZING
fuzz_programs += tests/fuzz/fuzz_cache tests/fuzz/fuzz_namecode tests/fuzz/fuzz_snapshot
tests_fuzz_fuzz_cache_SOURCES = tests/fuzz/fuzz_cache.c tests/fuzz/fuzz.h $(fuzz_cache_plain)
tests_fuzz_fuzz_cache_CPPFLAGS = $(fuzz_cache_cppflags)
tests_fuzz_fuzz_cache_LDADD = $(fuzz_cache_libs)
tests_fuzz_fuzz_cache_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_namecode_SOURCES = tests/fuzz/fuzz_namecode.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_namecode_LDADD = $(fuzz_cache_libs)
tests_fuzz_fuzz_namecode_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_snapshot_SOURCES = tests/fuzz/fuzz_snapshot.c tests/fuzz/fuzz.h \
	$(fuzz_snapshot_made)
tests_fuzz_fuzz_snapshot_CPPFLAGS = $(fuzz_cache_cppflags)
tests_fuzz_fuzz_snapshot_LDADD = $(fuzz_cache_libs) -lm
tests_fuzz_fuzz_snapshot_LDFLAGS = $(fuzz_ldflags)
endif

# What libFuzzer finds of interest goes to fuzz-work/ in the build tree, not into the corpus.
noinst_PROGRAMS += $(fuzz_programs)
.PHONY: fuzz-smoke
if FUZZING
fuzz-smoke: $(fuzz_programs)
	@set -e; for p in $(fuzz_programs); do \
	    what=$${p##*fuzz_}; work=fuzz-work/$$what; mkdir -p $$work; \
	    ./$$p -max_total_time=$(FUZZ_SECONDS) -timeout=10 -max_len=4096 -print_final_stats=1 \
	        -artifact_prefix=$$work- $$work $(srcdir)/tests/fuzz/corpus/$$what \
	        >$$work.log 2>&1 || { tail -40 $$work.log; exit 1; }; \
	    echo "$$p: `sed -n 's/.*executed_units: *//p' $$work.log` runs"; \
	done
else
fuzz-smoke:
	@echo 'make fuzz-smoke needs CC=clang and --enable-fuzzing --with-sanitizer=address,undefined'
	@exit 1
endif
clean-local: clean-fuzz-work
clean-fuzz-work:
	-rm -rf fuzz-work
