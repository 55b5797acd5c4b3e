# tests/interop: real clients, and the image. Not part of `make check`: browsers are large.
EXTRA_DIST += \
	tests/interop/browsers.py \
	tests/interop/check.sh \
	tests/interop/conftest.py \
	tests/interop/machine.sh \
	tests/interop/run.sh \
	tests/interop/site_under_test.py \
	tests/interop/test_browsers.py \
	tests/interop/test_clients.py \
	tests/interop/test_commands.py \
	tests/interop/test_resolved.py \
	tests/interop/test_service.py \
	tests/interop/test_systemd.py

.PHONY: check-interop
check-interop: pithd$(EXEEXT)
	$(AM_V_at)$(AM_TESTS_ENVIRONMENT) $(SHELL) $(top_srcdir)/tests/interop/check.sh

clean-local: clean-interop
clean-interop:
	rm -rf tests/interop/artefacts tests/interop/home tests/interop/image tests/interop/image.log \
		tests/interop/resolved tests/interop/tmp
.PHONY: clean-interop
