# tests/lint: what a compiler does not check.
check_PROGRAMS += tests/lint/options
tests_lint_options_SOURCES = tests/lint/options.c
tests_lint_options_LDADD = src/libpith.a tls/libtls.a src/dns/libdns.a src/core/libcore.a \
	$(YAML_LIBS) $(OPENSSL_LIBS) $(GETDNS_LIBS) $(EV_LIBS)
dist_check_SCRIPTS += \
	tests/lint/includes.sh \
	tests/lint/options.sh \
	tests/lint/sources.sh
TESTS += \
	tests/lint/includes.sh \
	tests/lint/options.sh \
	tests/lint/sources.sh
EXTRA_DIST += tests/summary.sh
