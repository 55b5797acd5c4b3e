#!/bin/sh
# autogen.sh - from a clone to a build, a running server or a test run.
#
#   ./autogen.sh                bootstrap: makes ./configure (autoreconf)
#   ./autogen.sh run            the same, then builds and starts pithd on loopback, asks it, and
#                               says how to use it
#   ./autogen.sh check          the same set-up plus what the tests need, then every test
#   ./autogen.sh interop        after check: browsers, systemd-resolved and others as clients, and
#                               the image; needs root, changes nothing outside of namespaces
#
# Options of run, check and interop:
#   --no-install                install nothing, only say what is missing
#   --upstream ADDRESS[:PORT]   (run) ask this server; also PITH_UPSTREAM in the environment
#   --name NAME                 (run) the name to ask for; also PITH_ASK (default example.com)
#
# What is missing is installed with apt-get (Debian, Ubuntu), by root or through sudo.
set -eu
cd "$(dirname "$0")"

build_packages='build-essential autoconf automake pkg-config libnghttp2-dev libssl-dev libev-dev
    libgetdns-dev libyaml-dev libjansson-dev libldns-dev libsystemd-dev libseccomp-dev'
run_packages='openssl ca-certificates curl knot-dnsutils'
test_packages='libcmocka-dev nsd unbound nginx haproxy knot-dnsutils bind9-dnsutils curl dnsperf
    nghttp2-client python3 python3-pytest python3-h2 python3-hpack python3-hyperframe
    python3-dnspython openssl procps valgrind clang libclang-rt-14-dev'

interop_packages='chromium chromium-driver firefox-esr libnss3-tools fonts-dejavu-core stubby
    nginx haproxy buildah debootstrap iproute2'

trial=run # where the trial's certificates and configuration are
doh_port=8443
dot_port=8853
dns_port=5300

say() {
    printf 'autogen.sh: %s\n' "$*" >&2
}

die() {
    say "$*"
    exit 1
}

# --- packages ---------------------------------------------------------------------------------

is_installed() {
    test "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed
}

# What the machine's release does not have under this name (a compiler's runtime of another
# version, say) is left out when it is one of these.
is_optional() {
    case $1 in
    libclang-rt-14-dev | libseccomp-dev | libsystemd-dev) return 0 ;;
    *) return 1 ;;
    esac
}

as_root() {
    if test "$(id -u)" = 0; then
        "$@"
    else
        sudo "$@"
    fi
}

# Servers that the tests start themselves must not be started by their packages, now or at the
# next boot: they would be on port 53.
policy=/usr/sbin/policy-rc.d
hold_services() {
    held=no
    if test ! -e "$policy"; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
        held=yes
    fi
}

release_services() {
    if test "$held" = yes; then
        as_root rm -f "$policy"
        held=no
    fi
    command -v systemctl >/dev/null 2>&1 || return 0
    for package in "$@"; do
        case $package in
        nsd | nginx | haproxy | stubby) as_root systemctl disable "$package" >/dev/null 2>&1 || : ;;
        unbound)
            as_root systemctl disable unbound unbound-resolvconf >/dev/null 2>&1 || :
            ;;
        esac
    done
}

apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@"
}

install_packages() {
    if test "$(id -u)" != 0 && ! command -v sudo >/dev/null 2>&1; then
        die "not root, and there is no sudo; as root: apt-get install $*"
    fi
    say "installing with apt-get: $*"
    apt_get update >&2 || say "the lists of packages could not be renewed"
    hold_services
    trap 'release_services' EXIT
    trap 'exit 1' INT TERM
    apt_get install --no-install-recommends "$@" >&2 || die "apt-get could not install them"
    trap - EXIT INT TERM
    release_services "$@"
}

# $1: yes or no (only say what is missing); then the packages.
need_packages() {
    may_install=$1
    shift
    if ! command -v dpkg-query >/dev/null 2>&1; then
        say "no Debian or Ubuntu: it is up to you to have the equivalents of: $*"
        return 0
    fi
    missing=
    for package in "$@"; do
        is_installed "$package" || missing="$missing $package"
    done
    test -n "$missing" || return 0
    if test "$may_install" = no; then
        die "missing:$missing (apt-get install$missing)"
    fi
    if ! apt-cache show libgetdns-dev >/dev/null 2>&1; then
        as_root apt-get -q update >&2 || :
    fi
    wanted=
    for package in $missing; do
        if is_optional "$package" && ! apt-cache show "$package" >/dev/null 2>&1; then
            say "$package is not to be had here, going on without it"
        else
            wanted="$wanted $package"
        fi
    done
    test -z "$wanted" || install_packages $wanted
}

# --- build ------------------------------------------------------------------------------------

bootstrap() {
    command -v autoreconf >/dev/null 2>&1 ||
        die "autoreconf is missing: apt-get install autoconf automake pkg-config"
    autoreconf -fi
}

needs_bootstrap() {
    test -x configure || return 0
    test -n "$(find configure.ac Makefile.am src cache tls http tests contrib man docker \
        \( -name '*.mk' -o -name '*.am' -o -name '*.ac' \) -newer configure)"
}

jobs() {
    nproc 2>/dev/null || echo 2
}

# $1: folder; then what configure is told. Configured again when that changed.
build() {
    folder=$1
    shift
    if needs_bootstrap; then
        say "bootstrapping"
        bootstrap
    fi
    mkdir -p "$folder"
    if test ! -f "$folder/Makefile" || test configure -nt "$folder/config.status" ||
        test "$(cat "$folder/.options" 2>/dev/null)" != "$*"; then
        say "configuring in $folder/"
        (cd "$folder" && ../configure "$@" >configure.out 2>&1) ||
            { tail -n 20 "$folder/configure.out" >&2 && die "configure failed"; }
        printf '%s\n' "$*" >"$folder/.options"
    fi
    say "building in $folder/"
    make -C "$folder" -s -j"$(jobs)"
}

# --- certificates and configuration of the trial ------------------------------------------------

# Browsers do not take an authority's own certificate for a server's: there is one of each.
make_certificates() {
    test ! -f "$trial/leaf.pem" || return 0
    say "making a small certificate authority and a certificate for loopback in $trial/"
    (
        umask 077
        cd "$trial"
        openssl ecparam -name prime256v1 -genkey -noout -out ca.key
        openssl req -x509 -new -key ca.key -sha256 -days 3650 -subj '/CN=pith trial CA' \
            -addext 'basicConstraints=critical,CA:TRUE,pathlen:0' \
            -addext 'keyUsage=critical,keyCertSign,cRLSign' -out ca.pem
        openssl ecparam -name prime256v1 -genkey -noout -out leaf.key
        openssl req -new -key leaf.key -subj '/CN=localhost' -out leaf.csr
        cat >leaf.ext <<END
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth
subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1
END
        openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -sha256 \
            -days 365 -extfile leaf.ext -out leaf.new 2>/dev/null
        rm -f leaf.csr leaf.ext
        chmod 644 ca.pem leaf.new
        mv leaf.new leaf.pem
    )
}

# $1: file, $2: upstream or nothing.
write_config() {
    cat >"$1" <<END
# The trial of ./autogen.sh run; see pith.yaml(5). Yours to edit.
listen:
  doh: [ {address: "127.0.0.1:$doh_port"}, {address: "[::1]:$doh_port"} ]
  dot: [ {address: "127.0.0.1:$dot_port"}, {address: "[::1]:$dot_port"} ]
  dns: [ {address: "127.0.0.1:$dns_port"}, {address: "[::1]:$dns_port"} ]
tls: { certificates: [ {certificate: $trial/leaf.pem, key: $trial/leaf.key} ] }
limits: { connections: 1000 }
END
    if test ! -e /proc/net/if_inet6 || ! grep -q '^0*1 ' /proc/net/if_inet6; then
        sed 's/, {address: "\[::1\]:[0-9]*"}//' "$1" >"$1.new"
        mv "$1.new" "$1"
    fi
    if test -n "$2"; then
        printf 'upstreams: [ {address: "%s"} ]\n' "$2" >>"$1"
    else
        printf '# upstreams: [ {address: 9.9.9.9, transport: tls, tls-name: dns.quad9.net} ]\n' \
            >>"$1"
    fi
}

# --- asking -----------------------------------------------------------------------------------

# $1: what to call it; then a command that prints a dig-like answer.
ask() {
    label=$1
    shift
    "$@" >"$trial/answer" 2>&1 || :
    status=$(sed -n 's/.*status: \([A-Z][A-Z]*\).*/\1/p' "$trial/answer" | head -n 1)
    records=$(sed -e '/^;/d' -e '/^[[:space:]]*$/d' "$trial/answer")
    if test -z "$status"; then
        printf '  %-12s no answer: %s\n' "$label" "$(head -n 1 "$trial/answer")"
    elif test -z "$records"; then
        printf '  %-12s %s, no records\n' "$label" "$status"
    else
        printf '%s\n' "$records" | sed "s/^/  $(printf '%-12s' "$label") $status  /"
    fi
}

ask_all() {
    name=$1
    kdig="kdig @127.0.0.1 +noall +header +answer +time=5 +retry=0"
    tls="+tls-ca=$trial/ca.pem +tls-hostname=localhost"
    printf '\n%s A, asked over each front end:\n' "$name"
    ask 'DoH' $kdig -p "$doh_port" +https $tls "$name" A
    ask 'DoH (GET)' $kdig -p "$doh_port" +https-get $tls "$name" A
    ask 'DoT' $kdig -p "$dot_port" +tls $tls "$name" A
    ask 'DNS (UDP)' $kdig -p "$dns_port" "$name" A
    ask 'DNS (TCP)' $kdig -p "$dns_port" +tcp "$name" A
    rm -f "$trial/answer"
}

show_use() {
    here=$(pwd)
    ca=$here/$trial/ca.pem
    cat <<END

To use it, until you stop it with Ctrl-C:

curl
  curl --cacert $ca --doh-url https://localhost:$doh_port/dns-query --resolve localhost:$doh_port:127.0.0.1 http://$1/
kdig
  kdig -p $doh_port @127.0.0.1 +https +tls-ca=$ca +tls-hostname=localhost $1
  kdig -p $dot_port @127.0.0.1 +tls +tls-ca=$ca +tls-hostname=localhost $1
  kdig -p $dns_port @127.0.0.1 $1
Firefox
  Settings, Privacy & Security, Certificates, View Certificates, Authorities, Import: $ca
  Settings, Privacy & Security, DNS over HTTPS, Max Protection, Custom:
  https://127.0.0.1:$doh_port/dns-query
Chrome, Chromium
  chrome://certificate-manager, Installed by you, Trusted Certificates, Import: $ca
  chrome://settings/security, Use secure DNS, Add custom DNS service provider:
  https://127.0.0.1:$doh_port/dns-query{?dns}
systemd-resolved (as root)
  cp $ca /usr/local/share/ca-certificates/pith-trial.crt && update-ca-certificates
  mkdir -p /etc/systemd/resolved.conf.d
  printf '[Resolve]\nDNS=127.0.0.1:$dot_port#localhost\nDNSOverTLS=yes\nDomains=~.\n' \\
      >/etc/systemd/resolved.conf.d/pith-trial.conf
  systemctl restart systemd-resolved

END
}

# Passes the daemon's log on; asks once it is ready. Ends with the daemon.
watch_log() {
    trap '' INT TERM HUP
    while IFS= read -r line; do
        printf '%s\n' "$line" >&2
        case $line in
        *' ready: '* | *'>ready: '*)
            ask_all "$1"
            show_use "$1"
            ;;
        esac
    done
}

# --- what can be asked for ----------------------------------------------------------------------

run() {
    need_packages "$may_install" $build_packages $run_packages
    build build
    mkdir -p "$trial"
    make_certificates
    config=$trial/pith.yaml
    if test -n "$upstream"; then
        config=$trial/pith.upstream.yaml
        write_config "$config" "$upstream"
    elif test ! -f "$config"; then
        write_config "$config" ''
    fi
    build/pithd -t -c "$config" || exit 1
    rm -f "$trial/log"
    mkfifo -m 600 "$trial/log"
    watch_log "$name" <"$trial/log" &
    # From here on this process is the daemon.
    exec build/pithd -c "$config" 2>"$trial/log"
}

check() {
    need_packages "$may_install" $build_packages $run_packages $test_packages
    build build-check --enable-debug ${CI:+--enable-werror}
    say "testing (logs in build-check/tests/)"
    status=0
    make -C build-check -s -j"$(jobs)" check || status=1
    sh tests/summary.sh build-check || status=1
    exit "$status"
}

# What cannot be installed is not there to be tested; the tests say what they leave out.
interop() {
    need_packages "$may_install" $build_packages $run_packages $test_packages
    (need_packages "$may_install" $interop_packages) || say "going on without some of them"
    build build-check --enable-debug ${CI:+--enable-werror}
    make -C build-check -s check-interop
}

command=bootstrap
may_install=yes
upstream=${PITH_UPSTREAM-}
name=${PITH_ASK:-example.com}
unset PITH_UPSTREAM PITH_ASK # not options of pithd
while test $# -gt 0; do
    case $1 in
    run | check | interop) command=$1 ;;
    --no-install) may_install=no ;;
    --upstream=*) upstream=${1#*=} ;;
    --name=*) name=${1#*=} ;;
    --upstream | --name)
        test $# -gt 1 || die "$1 wants a value"
        if test "$1" = --upstream; then upstream=$2; else name=$2; fi
        shift
        ;;
    -h | --help)
        sed -n '2,/^set -eu/{/^set -eu/d;s/^# \{0,1\}//;p;}' "$0"
        exit 0
        ;;
    *) die "\"$1\" is not understood; --help tells what is" ;;
    esac
    shift
done
"$command"
