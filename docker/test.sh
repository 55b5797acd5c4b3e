#!/bin/sh
# test.sh SOURCE OUT - builds the image from a copy of SOURCE, looks at what it is, and runs it.
#
# With docker where an engine answers; else with buildah, whose isolation by chroot leaves the rest
# to a mount namespace of ours: read-only root, no shell, no capability. What it makes is in OUT.
# Ends with 77 where there is no way to build one.
set -eu
source=$1
out=$2
here=$(cd "$(dirname "$0")" && pwd)
limit=60000000 # octets over the base
name=pith-test

say() { printf 'image: %s\n' "$*"; }
fail() {
    say "FAILED: $*"
    exit 1
}
skip() {
    say "left out: $*"
    exit 77
}
# $1: what is looked at, $2: what it is, $3: what it has to be.
is() {
    test "$2" = "$3" || fail "$1 is \"$2\", not \"$3\""
}

# --- the context: what the source archive has, or the checkout ---------------------------------

mkdir -p "$out"
rm -rf "$out/context"
mkdir "$out/context"
(cd "$source" && tar -c --exclude=./.git --exclude='./build*' --exclude='./b' --exclude='./b-*' \
    --exclude=./run --exclude=./autom4te.cache .) | tar -x -C "$out/context"

# --- docker ------------------------------------------------------------------------------------

if docker info >/dev/null 2>&1; then
    docker build -q -t "$name" -f "$out/context/docker/Dockerfile" "$out/context" >/dev/null
    is user "$(docker inspect -f '{{.Config.User}}' "$name")" 65532:65532
    is "stop signal" "$(docker inspect -f '{{.Config.StopSignal}}' "$name")" SIGTERM
    id=$(docker run -d --read-only --cap-drop ALL --security-opt no-new-privileges \
        --entrypoint /usr/sbin/pithd "$name")
    trap 'docker rm -f "$id" >/dev/null' EXIT
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        docker exec "$id" /usr/sbin/pithd --health >"$out/health" 2>&1 && break
        sleep 1
    done
    cat "$out/health"
    docker exec "$id" /usr/sbin/pithd --health >/dev/null || fail "does not answer"
    docker stop -t 10 "$id" >/dev/null
    is "exit status" "$(docker inspect -f '{{.State.ExitCode}}' "$id")" 0
    docker run --rm -e PITH_CACHE_MEMORY=lots "$name" >"$out/wrong" 2>&1 && fail "takes any value"
    grep -q 'environment: PITH_CACHE_MEMORY: "lots"' "$out/wrong" || fail "$(cat "$out/wrong")"
    say "good, by docker"
    exit 0
fi

# --- buildah -----------------------------------------------------------------------------------

command -v buildah >/dev/null || skip "neither a docker engine nor buildah"
test "$(id -u)" = 0 || skip "buildah needs root here"
command -v debootstrap >/dev/null || skip "no debootstrap for a base image"
unshare --mount --net true 2>/dev/null || skip "namespaces cannot be made here"

container=
finish() {
    test -z "$container" || b rm "$container" >/dev/null 2>&1 || :
}
trap finish EXIT

# Its own storage, which nobody else uses.
b() {
    buildah --storage-driver vfs --root "$out/storage" --runroot "$out/runroot" "$@"
}

if ! b inspect --type image docker.io/library/debian:bookworm-slim >/dev/null 2>&1; then
    say "making a base image with debootstrap"
    rm -rf "$out/base"
    debootstrap --variant=minbase bookworm "$out/base" >"$out/debootstrap.log" 2>&1 ||
        skip "debootstrap: $(tail -n 1 "$out/debootstrap.log")"
    rm -rf "$out"/base/var/cache/apt/archives/*.deb "$out"/base/var/lib/apt/lists/*
    container=$(b from scratch)
    b add -q "$container" "$out/base" / >/dev/null
    b commit -q "$container" docker.io/library/debian:bookworm-slim >/dev/null
    b rm "$container" >/dev/null
    container=
    rm -rf "$out/base"
fi

# The machine's package sources, which the base made here does not have.
mounts=
for path in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /usr/share/keyrings; do
    test ! -e "$path" || mounts="$mounts -v $path:$path:ro"
done
say "building"
b bud --pull-never --format docker --isolation chroot --network host $mounts -t "$name" \
    -f "$out/context/docker/Dockerfile" "$out/context" >"$out/build.log" 2>&1 ||
    { tail -n 30 "$out/build.log" && fail "it does not build"; }
rm -rf "$out/context"

# $1: a Go template over what `buildah inspect` knows.
about() {
    b inspect --type image -f "$1" "$name"
}
is user "$(about '{{.Docker.Config.User}}')" 65532:65532
is "entry point" "$(about '{{.Docker.Config.Entrypoint}}')" '[/usr/sbin/pithd]'
is "health check" "$(about '{{.Docker.Config.Healthcheck.Test}}')" \
    '[CMD /usr/sbin/pithd --health]'
is title "$(about '{{index .Docker.Config.Labels "org.opencontainers.image.title"}}')" pith
is "stop signal" "$(about '{{.OCIv1.Config.StopSignal}}')" SIGTERM
about '{{.Docker.Config.ExposedPorts}}' | grep -q '8443/tcp' || fail "8443 is not exposed"

container=$(b from --pull-never "$name")
root=$(b mount "$container")
base=$(b from --pull-never docker.io/library/debian:bookworm-slim)
added=$(($(du -sb "$root" | cut -f 1) - $(du -sb "$(b mount "$base")" | cut -f 1)))
b rm "$base" >/dev/null
say "$added octets over the base"
test "$added" -le "$limit" || fail "more than $limit octets"

# As a container: the root read-only, no shell, user 65532, no capability, no network but loopback.
# $1: what to do there; further arguments are the environment.
contained() {
    unshare --mount --net --propagation private sh "$here/contained.sh" "$root" "$out" "$@"
}
contained serve || fail "$(cat "$out/pithd.log")"
cat "$out/health"
contained fault PITH_CACHE_MEMORY=lots
grep -q 'environment: PITH_CACHE_MEMORY: "lots"' "$out/pithd.log" || fail "$(cat "$out/pithd.log")"
contained fault PITH_TLS_CERTIFICATES=/certs/fullchain.pem,key=/certs/privkey.pem
grep -q 'PITH_TLS_CERTIFICATES: "/certs/fullchain.pem" cannot be read' "$out/pithd.log" ||
    fail "$(cat "$out/pithd.log")"
say "good, by buildah and a namespace"
