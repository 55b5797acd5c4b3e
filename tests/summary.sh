#!/bin/sh
# summary.sh BUILD - counts the results that `make check` left in BUILD, and ends with one line.
#
# A test program is one result, the whole of pytest as well.
set -eu
build=$1

count() {
    find "$build/tests" -name '*.trs' -exec cat {} + | grep -c "^:test-result: $1" || :
}

passed=$(($(count PASS) + $(count XFAIL)))
failed=$(($(count FAIL) + $(count XPASS) + $(count ERROR)))
skipped=$(count SKIP)
for trs in $(find "$build/tests" -name '*.trs' -exec grep -lE '^:test-result: (FAIL|XPASS|ERROR)' {} +); do
    echo "failed: ${trs%.trs}.log"
done
echo "$passed passed, $failed failed, $skipped skipped"
test "$failed" = 0 && test "$passed" -gt 0
