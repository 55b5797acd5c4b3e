#!/bin/sh
# machine.sh ROOT PITHD - a systemd that is the first process of namespaces of its own.
#
# Its root is made on a tmpfs at the folder ROOT: /usr of this machine, read-only, PITHD in
# /usr/local/sbin, and nothing of /etc but users and groups. It runs in a control group of its own,
# can neither write to /proc/sys nor load modules, and has no units but the targets that a service
# needs, and the journal. The network is that of whoever calls. What is missing for all this is
# told, with exit status 77.
set -u
root=$1
pithd=$2
units='basic.target sysinit.target shutdown.target sockets.target multi-user.target
    network-online.target nss-lookup.target umount.target systemd-journald.service
    systemd-journald.socket systemd-journald-dev-log.socket'

skip() {
    echo "machine: $*" >&2
    exit 77
}

# A control group that this process and all it starts are in.
own_group() {
    mkdir -p "$root" && mount -t cgroup2 cgroup2 "$root" 2>/dev/null ||
        skip "control groups (version 2) cannot be mounted here"
    group=$root/pith-test-$$
    mkdir "$group" 2>/dev/null && echo $$ >"$group/cgroup.procs" 2>/dev/null ||
        skip "a control group cannot be made here"
}

devices() {
    mount -t tmpfs -o mode=755 tmpfs dev || return 1
    for name in null zero full random urandom tty; do
        touch "dev/$name" && mount --bind "/dev/$name" "dev/$name" || return 1
    done
    mkdir dev/shm dev/pts &&
        mount -t tmpfs -o mode=1777 tmpfs dev/shm &&
        mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts &&
        ln -s pts/ptmx dev/ptmx && ln -s /proc/self/fd dev/fd
}

system() {
    mount --bind /usr usr && mount -o remount,bind,ro usr &&
        mount -t tmpfs -o mode=755 tmpfs usr/local && mkdir usr/local/sbin &&
        cp "$pithd" usr/local/sbin/pithd || return 1
    for name in bin sbin lib lib32 lib64 libx32; do
        test ! -L "/$name" || ln -s "usr/$name" "$name"
    done
    mount -t proc proc proc && mount --bind proc/sys proc/sys &&
        mount -o remount,bind,ro proc/sys &&
        mount -t sysfs -o ro sysfs sys && mount -t cgroup2 cgroup2 sys/fs/cgroup &&
        mount -t tmpfs -o mode=755 tmpfs run && mount -t tmpfs -o mode=1777 tmpfs tmp
}

settings() {
    cp /etc/passwd /etc/group /etc/ld.so.cache etc/ && cp -a /etc/ld.so.conf /etc/ld.so.conf.d etc/
    printf 'passwd: files systemd\ngroup: files systemd\nhosts: files dns\n' >etc/nsswitch.conf
    printf '127.0.0.1 localhost\n' >etc/hosts
    echo 0123456789abcdef0123456789abcdef >etc/machine-id
    for name in $units; do
        cp "/usr/lib/systemd/system/$name" etc/systemd/system/ || return 1
    done
    mkdir etc/systemd/system/sysinit.target.wants &&
        ln -s ../systemd-journald.service etc/systemd/system/sysinit.target.wants/
}

inside() {
    mount -t tmpfs -o mode=755 tmpfs "$root" && cd "$root" &&
        mkdir -p usr proc sys dev run tmp root home old var/lib var/cache var/log var/tmp \
            etc/systemd/system etc/pith &&
        system && devices && settings && pivot_root . old && umount -l /old ||
        skip "a root cannot be put together here"
    # In containers systemd expects that as a given; credentials get to services that way.
    mount --make-rshared /
    exec env -i container=pith PATH=/usr/local/sbin:/usr/sbin:/usr/bin \
        SYSTEMD_UNIT_PATH=/etc/systemd/system:/run/systemd/system:/run/systemd/transient \
        SYSTEMD_GENERATOR_PATH=/none setpriv --bounding-set=-sys_module,-sys_time,-sys_boot,-sys_rawio \
        /lib/systemd/systemd --unit=multi-user.target --log-target=console --show-status=no
}

if test "${3-}" = inside; then
    inside
fi
test -x /lib/systemd/systemd || skip "systemd is not installed"
command -v setpriv >/dev/null || skip "setpriv (util-linux) is not installed"
own_group
setpriv --pdeathsig KILL unshare --pid --fork --kill-child=KILL --mount --uts --ipc --cgroup --propagation private \
    "$0" "$root" "$pithd" inside &
machine=$!
trap 'kill -KILL $machine 2>/dev/null' TERM INT
# SIGTERM may end the first wait only.
wait $machine
status=$?
wait $machine 2>/dev/null
# Groups go once they are empty; we are in the upper one ourselves.
echo $$ >"$root/cgroup.procs"
tries=0
while find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; test -d "$group"; do
    tries=$((tries + 1))
    test "$tries" -lt 50 || break
    sleep 0.1 # processes that were killed may take their time
done
exit $status
