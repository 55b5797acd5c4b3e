#!/bin/sh
# includes.sh - who may include whom (HACKING.md), and where each library's headers are at home.
set -u
cd "$top_srcdir" || exit 99
faults=0

# $1: folder (its own files only), $2: what a quoted include may begin with.
only() {
    found=$(grep -HnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$1"/*.[ch] |
        grep -vE "include[[:space:]]*\"($2)") || return 0
    echo "$1 includes what it may not know:"
    echo "$found"
    faults=1
}

# $1: what an include in <> begins with, $2: the folders where it may be.
home() {
    found=$(find src cache tls http -name '*.[ch]' -exec \
        grep -HnE "^[[:space:]]*#[[:space:]]*include[[:space:]]*<$1" {} + | grep -vE "^($2)[^/]*:") ||
        return 0
    echo "<$1...> is not at home here:"
    echo "$found"
    faults=1
}

only src/core 'core/'
only src/dns 'core/|dns/'
only cache 'core/|dns/|cache/|autoconfig\.h"'
only tls 'core/|tls/|autoconfig\.h"'
only http 'core/|dns/|http/|autoconfig\.h"'

home 'openssl/' 'tls/'
home 'nghttp2/' 'http/'
home 'jansson' 'http/'
home 'getdns/' 'src/'
home 'ldns/' 'http/'
home 'yaml' 'src/'
home 'ev\.h' 'src/|tls/'
home 'systemd/' 'src/'
home 'seccomp' 'src/'

exit "$faults"
