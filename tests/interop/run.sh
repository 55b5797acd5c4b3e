#!/bin/sh
# run.sh [ARGUMENT...] - pithd with real clients; arguments go to pytest.
#
# All of it happens in mount and network namespaces of its own: policies of browsers, authorities,
# resolved.conf.d and ports are there and nowhere else. What it makes (screenshots, logs) is in
# the build tree, in tests/interop/.
set -u
build=${top_builddir:-$(pwd)}
source=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
here=$source/tests/interop
out=$build/tests/interop
python=${PYTHON3:-/usr/bin/python3}
PATH=$PATH:/usr/sbin:/sbin
export PATH

skip() {
    echo "check-interop: $*" >&2
    exit 77
}

outside() {
    test "$(id -u)" = 0 || skip "needs root for its namespaces"
    command -v unshare >/dev/null || skip "needs unshare (util-linux)"
    command -v ip >/dev/null || skip "needs ip (iproute2)"
    "$python" -c 'import pytest' 2>/dev/null || skip "needs python3-pytest"
    unshare --mount --net --propagation private true 2>/dev/null ||
        skip "namespaces cannot be made here"
    mkdir -p "$out"
    # Installed, systemd-resolved would take over the machine's own resolution.
    if test ! -x /lib/systemd/systemd-resolved && test ! -x "$out/resolved/lib/systemd/systemd-resolved"; then
        rm -rf "$out/resolved"
        mkdir -p "$out/resolved"
        (cd "$out/resolved" && apt-get -q download systemd-resolved >apt.log 2>&1 &&
            dpkg -x systemd-resolved_*.deb .) ||
            echo "check-interop: systemd-resolved cannot be had, its tests are left out" >&2
    fi
    PITH_TEST_INSIDE=yes
    export PITH_TEST_INSIDE
    exec unshare --mount --net --propagation private "$0" "$@"
}

# Loopback, and an interface that leads nowhere: without one browsers think they are offline.
network() {
    ip link set lo up || return 1
    ip link add out0 type dummy 2>/dev/null || ip link add out0 type veth peer name out1
    ip address add 192.0.2.2/24 dev out0
    ip link set out0 up
    ip link set out1 up 2>/dev/null
    ip route add default via 192.0.2.1
    # Without a way out over IPv6 browsers do not ask for AAAA.
    test ! -e /proc/net/if_inet6 || {
        ip address add 2001:db8::2/64 dev out0 nodad
        ip -6 route add default via 2001:db8::1
    }
    return 0
}

# Copies that may be written to.
files() {
    mkdir -p /usr/local/share/ca-certificates
    mount -t tmpfs tmpfs /run && mkdir -p /run/etc /run/systemd /run/lock && cp -a /etc/. /run/etc &&
        mount --bind /run/etc /etc &&
        mount -t tmpfs tmpfs /usr/local/share/ca-certificates || return 1
    printf 'nameserver 192.0.2.1\noptions timeout:1 attempts:1\n' >/run/resolv.conf
    # A link, or a file that is mounted, as in containers.
    umount /etc/resolv.conf 2>/dev/null
    rm -f /etc/resolv.conf
    cp /run/resolv.conf /etc/resolv.conf
    getent passwd systemd-resolve >/dev/null ||
        echo 'systemd-resolve:x:64999:65534::/:/usr/sbin/nologin' >>/etc/passwd
}

if test "${PITH_TEST_INSIDE-}" != yes; then
    case $0 in
    /*) ;;
    *) exec "$here/run.sh" "$@" ;;
    esac
    outside "$@"
fi
network && files || skip 'interfaces and mounts cannot be made here'
PYTHONDONTWRITEBYTECODE=1
HOME=$out/home
export PYTHONDONTWRITEBYTECODE HOME
mkdir -p "$HOME"
exec "$python" -m pytest -p no:cacheprovider -q --tb=short --durations=8 -rs \
    --basetemp="$out/tmp" "$here" "$@"
