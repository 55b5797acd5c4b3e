#!/bin/sh
# check.sh - all of check-interop: real clients, and beside them the image of docker/.
#
# What cannot be done on a machine (no root, no namespaces, no network for the image) is left out
# and said; what is done has to pass.
set -u
build=${top_builddir:?}
source=${top_srcdir:?}
out=$build/tests/interop
image_patience=420 # seconds; two processors that others use as well

mkdir -p "$out"
(nice -n 10 timeout "$image_patience" "$source/docker/test.sh" "$source" "$out/image" \
    >"$out/image.log" 2>&1) &
image=$!
clients=0
"$source/tests/interop/run.sh" "$@" || clients=$?
picture=0
wait "$image" || picture=$?
cat "$out/image.log"
echo "check-interop: screenshots and logs are in $out/artefacts"

status=0
case $clients in
0) echo 'check-interop: clients: passed' ;;
77) echo 'check-interop: clients: left out' ;;
*) echo 'check-interop: clients: FAILED' && status=1 ;;
esac
case $picture in
0) echo 'check-interop: image: passed' ;;
77) echo 'check-interop: image: left out' ;;
124) echo "check-interop: image: left out, it took more than $image_patience s" ;;
*) echo 'check-interop: image: FAILED' && status=1 ;;
esac
exit "$status"
