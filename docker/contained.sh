#!/bin/sh
# contained.sh ROOT OUT serve|fault [VARIABLE=VALUE...] - what test.sh does inside its namespaces.
#
# serve: the server starts, is well by its own health check, and ends by SIGTERM with status 0.
# fault: it ends with status 1 at once. The log is in OUT/pithd.log.
set -eu
root=$1
out=$2
what=$3
shift 3

ip link set lo up
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
for shell in sh bash dash; do
    test ! -e "$root/usr/bin/$shell" || mount --bind /dev/null "$root/usr/bin/$shell"
done
mount -o remount,ro,bind "$root"
if touch "$root/written" 2>/dev/null; then
    echo "the root is not read-only" >&2
    exit 1
fi

# $1: arguments of pithd; the rest is its environment.
run() {
    arguments=$1
    shift
    # chroot(1) first, for it needs root; it gives up groups and user itself.
    exec setpriv --no-new-privs --bounding-set=-all,+sys_chroot,+setuid,+setgid --inh-caps=-all \
        chroot --userspec=65532:65532 --groups= "$root" \
        /usr/bin/env -i PATH=/usr/bin "$@" /usr/sbin/pithd $arguments
}

if test "$what" = fault; then
    status=0
    (run '' "$@" >"$out/pithd.log" 2>&1) || status=$?
    test "$status" = 1
    exit
fi

(run '' "$@" >"$out/pithd.log" 2>&1) &
pid=$!
tries=100
until grep -q ' ready: ' "$out/pithd.log" 2>/dev/null; do
    tries=$((tries - 1))
    test "$tries" -gt 0 && kill -0 "$pid" || exit 1
    sleep 0.1
done
grep -q '^Uid:.65532.65532' "/proc/$pid/status"
grep -q '^CapEff:.0000000000000000' "/proc/$pid/status"
(run --health >"$out/health" 2>&1)
kill -TERM "$pid"
wait "$pid"
