# tests/unit: one program a source file or area, linked downward only.
if HAVE_CMOCKA

# src/core
check_PROGRAMS += tests/unit/test_core
TESTS += tests/unit/test_core
tests_unit_test_core_SOURCES = tests/unit/test_core.c
tests_unit_test_core_LDADD = src/core/libcore.a $(CMOCKA_LIBS)

# src/dns
dns_tests = \
	tests/unit/test_build \
	tests/unit/test_ecs \
	tests/unit/test_edns \
	tests/unit/test_message \
	tests/unit/test_name \
	tests/unit/test_rrtype
check_PROGRAMS += $(dns_tests)
TESTS += $(dns_tests)
dns_test_ldadd = src/dns/libdns.a src/core/libcore.a $(CMOCKA_LIBS)
tests_unit_test_build_SOURCES = tests/unit/test_build.c tests/unit/messages.h
tests_unit_test_build_LDADD = $(dns_test_ldadd)
tests_unit_test_ecs_SOURCES = tests/unit/test_ecs.c tests/unit/messages.h
tests_unit_test_ecs_LDADD = $(dns_test_ldadd)
tests_unit_test_edns_SOURCES = tests/unit/test_edns.c tests/unit/messages.h
tests_unit_test_edns_LDADD = $(dns_test_ldadd)
tests_unit_test_message_SOURCES = tests/unit/test_message.c tests/unit/messages.h
tests_unit_test_message_LDADD = $(dns_test_ldadd)
tests_unit_test_name_SOURCES = tests/unit/test_name.c
tests_unit_test_name_LDADD = $(dns_test_ldadd)
tests_unit_test_rrtype_SOURCES = tests/unit/test_rrtype.c
tests_unit_test_rrtype_LDADD = $(dns_test_ldadd)

# src: the query path
check_PROGRAMS += tests/unit/test_local
TESTS += tests/unit/test_local
tests_unit_test_local_SOURCES = tests/unit/test_local.c
tests_unit_test_local_LDADD = src/libpith.a src/dns/libdns.a src/core/libcore.a \
	$(GETDNS_LIBS) $(CMOCKA_LIBS)
# http
http_tests = \
	tests/unit/test_base64url \
	tests/unit/test_doh \
	tests/unit/test_forwarded \
	tests/unit/test_h1 \
	tests/unit/test_h2 \
	tests/unit/test_json \
	tests/unit/test_pool
check_PROGRAMS += $(http_tests)
TESTS += $(http_tests)
http_test_cppflags = $(AM_CPPFLAGS) $(NGHTTP2_CFLAGS) $(JANSSON_CFLAGS)
http_test_ldadd = http/libhttp.a src/dns/libdns.a src/core/libcore.a $(NGHTTP2_LIBS) \
	$(JANSSON_LIBS) $(LDNS_LIBS) $(CMOCKA_LIBS)
tests_unit_test_base64url_SOURCES = tests/unit/test_base64url.c
tests_unit_test_base64url_LDADD = $(http_test_ldadd)
tests_unit_test_doh_SOURCES = tests/unit/test_doh.c tests/unit/http_fake.h
tests_unit_test_doh_LDADD = $(http_test_ldadd)
tests_unit_test_forwarded_SOURCES = tests/unit/test_forwarded.c
tests_unit_test_forwarded_LDADD = $(http_test_ldadd)
tests_unit_test_pool_SOURCES = tests/unit/test_pool.c
tests_unit_test_pool_LDADD = $(http_test_ldadd)
tests_unit_test_json_SOURCES = tests/unit/test_json.c
tests_unit_test_json_CPPFLAGS = $(http_test_cppflags)
tests_unit_test_json_LDADD = $(http_test_ldadd)
tests_unit_test_h1_SOURCES = tests/unit/test_h1.c tests/unit/http_fake.h
tests_unit_test_h1_CPPFLAGS = $(http_test_cppflags)
tests_unit_test_h1_LDADD = $(http_test_ldadd)
tests_unit_test_h2_SOURCES = tests/unit/test_h2.c tests/unit/http_fake.h
tests_unit_test_h2_CPPFLAGS = $(http_test_cppflags)
tests_unit_test_h2_LDADD = $(http_test_ldadd)

# src: configuration, start
config_tests = \
	tests/unit/test_activation \
	tests/unit/test_config \
	tests/unit/test_privileges \
	tests/unit/test_resolvconf \
	tests/unit/test_sockets \
	tests/unit/test_units
check_PROGRAMS += $(config_tests)
TESTS += $(config_tests)
config_test_ldadd = src/libpith.a tls/libtls.a src/dns/libdns.a src/core/libcore.a \
	$(CMOCKA_LIBS) $(YAML_LIBS) $(OPENSSL_LIBS) $(GETDNS_LIBS) $(EV_LIBS)
tests_unit_test_activation_SOURCES = tests/unit/test_activation.c
tests_unit_test_activation_LDADD = $(config_test_ldadd)
tests_unit_test_config_SOURCES = tests/unit/test_config.c
tests_unit_test_config_LDADD = $(config_test_ldadd)
tests_unit_test_privileges_SOURCES = tests/unit/test_privileges.c
tests_unit_test_privileges_LDADD = $(config_test_ldadd)
tests_unit_test_resolvconf_SOURCES = tests/unit/test_resolvconf.c
tests_unit_test_resolvconf_LDADD = $(config_test_ldadd)
tests_unit_test_sockets_SOURCES = tests/unit/test_sockets.c
tests_unit_test_sockets_LDADD = $(config_test_ldadd)
tests_unit_test_units_SOURCES = tests/unit/test_units.c
tests_unit_test_units_LDADD = $(config_test_ldadd)
EXTRA_DIST += \
	tests/unit/data/README \
	tests/unit/data/other.key.pem \
	tests/unit/data/server.cert.pem \
	tests/unit/data/server.key.pem

# src: upstreams
upstream_tests = \
	tests/unit/test_upstream \
	tests/unit/test_upstream_dark \
	tests/unit/test_upstream_fuzz \
	tests/unit/test_upstream_health \
	tests/unit/test_upstream_matrix \
	tests/unit/test_upstream_mem
check_PROGRAMS += $(upstream_tests)
TESTS += $(upstream_tests)
upstream_test_support = \
	tests/unit/upstream_client.c tests/unit/upstream_client.h \
	tests/unit/upstream_fake.c tests/unit/upstream_fake.h
upstream_test_cppflags = $(AM_CPPFLAGS) $(OPENSSL_CFLAGS)
upstream_test_ldadd = src/libpith.a tls/libtls.a src/dns/libdns.a src/core/libcore.a \
	$(GETDNS_LIBS) $(YAML_LIBS) $(OPENSSL_LIBS) $(EV_LIBS) $(CMOCKA_LIBS)
tests_unit_test_upstream_SOURCES = tests/unit/test_upstream.c $(upstream_test_support)
tests_unit_test_upstream_CPPFLAGS = $(upstream_test_cppflags)
tests_unit_test_upstream_LDADD = $(upstream_test_ldadd)
tests_unit_test_upstream_dark_SOURCES = tests/unit/test_upstream_dark.c $(upstream_test_support)
tests_unit_test_upstream_dark_CPPFLAGS = $(upstream_test_cppflags)
tests_unit_test_upstream_dark_LDADD = $(upstream_test_ldadd)
tests_unit_test_upstream_fuzz_SOURCES = tests/unit/test_upstream_fuzz.c $(upstream_test_support)
tests_unit_test_upstream_fuzz_CPPFLAGS = $(upstream_test_cppflags)
tests_unit_test_upstream_fuzz_LDADD = $(upstream_test_ldadd)
tests_unit_test_upstream_health_SOURCES = tests/unit/test_upstream_health.c
tests_unit_test_upstream_health_LDADD = src/libpith.a $(CMOCKA_LIBS)
tests_unit_test_upstream_mem_SOURCES = tests/unit/test_upstream_mem.c
tests_unit_test_upstream_mem_LDADD = src/libpith.a $(CMOCKA_LIBS)
tests_unit_test_upstream_matrix_SOURCES = tests/unit/test_upstream_matrix.c $(upstream_test_support)
tests_unit_test_upstream_matrix_CPPFLAGS = $(upstream_test_cppflags)
tests_unit_test_upstream_matrix_LDADD = $(upstream_test_ldadd)

# tls
tls_tests = \
	tests/unit/test_conn \
	tests/unit/test_dot \
	tests/unit/test_proxyproto \
	tests/unit/test_tls
check_PROGRAMS += $(tls_tests)
TESTS += $(tls_tests)
tls_test_cppflags = $(AM_CPPFLAGS) $(OPENSSL_CFLAGS)
tls_test_ldadd = tls/libtls.a src/core/libcore.a $(OPENSSL_LIBS) $(EV_LIBS) $(CMOCKA_LIBS)
tests_unit_test_dot_SOURCES = tests/unit/test_dot.c tests/unit/echo_handler.h
tests_unit_test_dot_LDADD = $(tls_test_ldadd)
tests_unit_test_dot_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc
tests_unit_test_proxyproto_SOURCES = tests/unit/test_proxyproto.c
tests_unit_test_proxyproto_LDADD = $(tls_test_ldadd)
tls_test_support = tests/unit/certs.c tests/unit/certs.h tests/unit/echo_handler.h \
	tests/unit/net_fixture.c tests/unit/net_fixture.h
tests_unit_test_conn_SOURCES = tests/unit/test_conn.c $(tls_test_support)
tests_unit_test_conn_CPPFLAGS = $(tls_test_cppflags)
tests_unit_test_conn_LDADD = $(tls_test_ldadd)
tests_unit_test_tls_SOURCES = tests/unit/test_tls.c $(tls_test_support)
tests_unit_test_tls_CPPFLAGS = $(tls_test_cppflags)
tests_unit_test_tls_LDADD = $(tls_test_ldadd)

# src: UDP
check_PROGRAMS += tests/unit/test_udp
TESTS += tests/unit/test_udp
tests_unit_test_udp_SOURCES = tests/unit/test_udp.c tests/unit/echo_handler.h
tests_unit_test_udp_LDADD = src/libpith.a src/core/libcore.a $(EV_LIBS) $(CMOCKA_LIBS)

# src: the query path, whole
check_PROGRAMS += tests/unit/test_proxy
TESTS += tests/unit/test_proxy
tests_unit_test_proxy_SOURCES = tests/unit/test_proxy.c \
	tests/unit/fake_upstream.c tests/unit/fake_upstream.h
tests_unit_test_proxy_LDADD = src/libpith.a cache/libcache.a tls/libtls.a src/dns/libdns.a \
	src/core/libcore.a $(GETDNS_LIBS) $(YAML_LIBS) $(OPENSSL_LIBS) $(EV_LIBS) $(CMOCKA_LIBS)

# queries a second
check_PROGRAMS += tests/unit/test_ratelimit
TESTS += tests/unit/test_ratelimit
tests_unit_test_ratelimit_SOURCES = tests/unit/test_ratelimit.c
tests_unit_test_ratelimit_LDADD = src/libpith.a src/core/libcore.a $(CMOCKA_LIBS)

# the filter of system calls
check_PROGRAMS += tests/unit/test_sandbox
TESTS += tests/unit/test_sandbox
tests_unit_test_sandbox_SOURCES = tests/unit/test_sandbox.c
tests_unit_test_sandbox_LDADD = src/libpith.a src/core/libcore.a $(SECCOMP_LIBS) $(CMOCKA_LIBS)

# commands beside the daemon
check_PROGRAMS += tests/unit/test_setup
TESTS += tests/unit/test_setup
tests_unit_test_setup_SOURCES = tests/unit/test_setup.c
tests_unit_test_setup_LDADD = src/libpith.a http/libhttp.a tls/libtls.a src/dns/libdns.a \
	src/core/libcore.a $(NGHTTP2_LIBS) $(JANSSON_LIBS) $(LDNS_LIBS) $(OPENSSL_LIBS) $(CMOCKA_LIBS)

# cache: the model, and what takes many entries to see
cache_proof_libs = tests/bench/libbench.a cache/libcache.a src/dns/libdns.a \
	src/core/libcore.a $(CMOCKA_LIBS) -lm -lpthread
cache_proof_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/tests -I$(top_srcdir)/tests/unit
cache_proofs = \
	tests/unit/test_cache_model \
	tests/unit/test_cache_proof \
	tests/unit/test_cache_stress
check_PROGRAMS += $(cache_proofs)
TESTS += $(cache_proofs)
tests_unit_test_cache_model_SOURCES = tests/unit/test_cache_model.c \
	tests/unit/cache_model.c tests/unit/cache_model.h \
	tests/unit/made.c tests/unit/made.h
tests_unit_test_cache_model_CPPFLAGS = $(cache_proof_cppflags)
tests_unit_test_cache_model_LDADD = $(cache_proof_libs)
tests_unit_test_cache_proof_SOURCES = tests/unit/test_cache_proof.c
tests_unit_test_cache_proof_CPPFLAGS = $(cache_proof_cppflags)
tests_unit_test_cache_proof_LDADD = $(cache_proof_libs)
tests_unit_test_cache_stress_SOURCES = tests/unit/test_cache_stress.c
tests_unit_test_cache_stress_CPPFLAGS = $(cache_proof_cppflags)
tests_unit_test_cache_stress_LDADD = $(cache_proof_libs)

# cache: its parts, one by one
cache_tests = \
	tests/unit/test_cache_admin \
	tests/unit/test_cache_ecs \
	tests/unit/test_cache_life \
	tests/unit/test_cache_namecode \
	tests/unit/test_cache_page
check_PROGRAMS += $(cache_tests)
TESTS += $(cache_tests)
cache_test_sources = tests/unit/cache_help.h tests/unit/made.c tests/unit/made.h
tests_unit_test_cache_admin_SOURCES = tests/unit/test_cache_admin.c $(cache_test_sources)
tests_unit_test_cache_admin_CPPFLAGS = $(cache_proof_cppflags)
tests_unit_test_cache_admin_LDADD = $(cache_proof_libs)
tests_unit_test_cache_ecs_SOURCES = tests/unit/test_cache_ecs.c $(cache_test_sources)
tests_unit_test_cache_ecs_CPPFLAGS = $(cache_proof_cppflags)
tests_unit_test_cache_ecs_LDADD = $(cache_proof_libs)
tests_unit_test_cache_life_SOURCES = tests/unit/test_cache_life.c $(cache_test_sources)
tests_unit_test_cache_life_CPPFLAGS = $(cache_proof_cppflags)
tests_unit_test_cache_life_LDADD = $(cache_proof_libs)
tests_unit_test_cache_namecode_SOURCES = tests/unit/test_cache_namecode.c $(cache_test_sources)
tests_unit_test_cache_namecode_CPPFLAGS = $(cache_proof_cppflags)
tests_unit_test_cache_namecode_LDADD = $(cache_proof_libs)
tests_unit_test_cache_page_SOURCES = tests/unit/test_cache_page.c $(cache_test_sources)
tests_unit_test_cache_page_CPPFLAGS = $(cache_proof_cppflags)
tests_unit_test_cache_page_LDADD = $(cache_proof_libs)

endif
