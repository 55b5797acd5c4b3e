# Real servers and clients on loopback, driven by pytest.
TESTS += tests/integration/run.sh
EXTRA_DIST += tests/helgrind.supp tests/integration/run.sh \
	tests/integration/attack_clients.py \
	tests/integration/checks.py \
	tests/integration/clients.py \
	tests/integration/conftest.py \
	tests/integration/load.py \
	tests/integration/proxies.py \
	tests/integration/scripted.py \
	tests/integration/servers.py \
	tests/integration/wire.py \
	tests/integration/zone.py \
	tests/integration/test_answers.py \
	tests/integration/test_attacks.py \
	tests/integration/test_behind_proxies.py \
	tests/integration/test_certificates.py \
	tests/integration/test_check.py \
	tests/integration/test_compare.py \
	tests/integration/test_config.py \
	tests/integration/test_doh.py \
	tests/integration/test_ecs.py \
	tests/integration/test_edns.py \
	tests/integration/test_lifecycle.py \
	tests/integration/test_load.py \
	tests/integration/test_local.py \
	tests/integration/test_matrix.py \
	tests/integration/test_messages.py \
	tests/integration/test_time.py \
	tests/integration/test_tls_upstream.py \
	tests/integration/test_workers.py
