#!/bin/sh
# Runs the integration tests against the daemon of this build, or $PITHD. Arguments and
# $PYTEST_ADDOPTS go to pytest. Debian's python3 is used, for which the modules are packaged.
python=${PYTHON3:-/usr/bin/python3}
here=${top_srcdir:-.}/tests/integration

missing=
for module in pytest h2; do
	"$python" -c "import $module" 2>/dev/null || missing="$missing python3-$module"
done
PATH=$PATH:/usr/sbin:/sbin
export PATH
for pair in nsd:nsd unbound:unbound kdig:knot-dnsutils dig:bind9-dnsutils curl:curl \
	dnsperf:dnsperf h2load:nghttp2-client openssl:openssl nginx:nginx haproxy:haproxy; do
	command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair##*:}"
done
if [ -n "$missing" ]; then
	echo "the integration tests need:$missing (see ./autogen.sh check)"
	exit 77
fi

PYTHONDONTWRITEBYTECODE=1
PYTHONASYNCIODEBUG=0
export PYTHONDONTWRITEBYTECODE PYTHONASYNCIODEBUG
exec "$python" -m pytest -p no:cacheprovider -q --tb=short --durations=10 "$here" "$@"
