#!/bin/sh
# Instructions a lookup and an insert, counted by callgrind: exact, and the same on a busy machine.
# usage: count_instructions.sh PATH-OF-bench_cache [MIX...]
set -eu
bench=$1
shift
[ $# -gt 0 ] || set -- w
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# count FUNCTION MIX [OPTION...]: instructions below FUNCTION in a fixed run
count() {
    function=$1
    mix=$2
    shift 2
    valgrind --tool=callgrind --toggle-collect="$function" --callgrind-out-file="$dir/out" \
        "$bench" --fixed --mix "$mix" "$@" >"$dir/run" 2>"$dir/log" || {
        cat "$dir/log" >&2
        exit 1
    }
    sed -n 's/^\(summary\|totals\): \([0-9]*\).*/\2/p' "$dir/out" | tail -n 1
}

field() {
    sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$dir/run"
}

for mix in "$@"; do
    lookups=$(count cache_get "$mix" --entries 40000)
    n_lookups=$(field lookups)
    hits=$(field hits)
    hot=$(count cache_get "$mix" --entries 40000 --cache-bytes 67108864 --hot)
    inserts=$(count cache_put "$mix" --entries 40000)
    n_inserts=$(field inserts)
    evicting=$(count cache_put "$mix" --entries 80000 --ratio 0.6)
    n_evicting=$(field inserts)
    printf '{"bench": "instructions", "mix": "%s", "lookups": %d, "hits": %d, "lookup": %d, "lookup_hot": %d, "insert": %d, "insert_half_evicting": %d}\n' \
        "$mix" "$n_lookups" "$hits" $((lookups / n_lookups)) $((hot / n_lookups)) \
        $((inserts / n_inserts)) $((evicting / n_evicting))
done
