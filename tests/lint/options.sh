#!/bin/sh
# options.sh - every key is in pith.yaml(5) with its default and in the example configuration, and
# neither has others; every option of the command line is in pithd(8).
set -u
manual=$top_srcdir/man/pith.yaml.5
example=$top_srcdir/contrib/pith.yaml
table=$top_builddir/tests/lint/options
faults=0

fault() {
    echo "$*"
    faults=1
}

rows=$("$table") || exit 99
test -n "$rows" || exit 99
tab=$(printf '\t')

# $1: key. The line that begins its entry in the manual.
entry() {
    awk -v key="$1" 'last == ".TP" && $2 == key { print; exit } { last = $1 }' "$manual"
}

while IFS=$tab read -r key initial what help; do
    line=$(entry "$key")
    if test -z "$line"; then
        fault "man/pith.yaml.5 has no entry for $key ($what: $help)"
        continue
    fi
    if test "$initial" != -; then
        case $line in
        *"default: $initial)"*) ;;
        *) fault "man/pith.yaml.5: $key: the default is $initial, not as in: $line" ;;
        esac
    fi
    name=${key##*.}
    grep -qE "(^|[^a-z-])${name%\[\]}:" "$example" ||
        fault "contrib/pith.yaml does not have $key"
done <<END
$rows
END

# Entries of the manual begin with a key in section OPTIONS.
for key in $(sed -n '/^\.SH OPTIONS/,/^\.SH EXAMPLES/p' "$manual" | grep -A 1 '^\.TP' |
    sed -n 's/^\.BR\{0,1\} \([^ ]*\).*/\1/p'); do
    printf '%s\n' "$rows" | cut -f 1 | grep -qxF -- "$key" ||
        fault "man/pith.yaml.5 has $key, which is no option"
done

pithd=$top_builddir/pithd
for option in $("$pithd" --help | grep -oE -e '--[a-z-]+' | sort -u); do
    sed -e 's/\\f[BIR]/ /g' -e 's/\\-/-/g' "$top_srcdir/man/pithd.8" | grep -qwF -e "$option" ||
        fault "man/pithd.8 does not have $option"
done

# The example is good as it is. With all that is commented out in force ("#key", "#  key"; text is
# "# Text") only what this machine lacks is wrong: certificates, folders, users.
copy=$(mktemp) || exit 99
trap 'rm -f "$copy"' EXIT
told=$("$pithd" -t -c "$example" 2>&1) || fault "$told"
sed -E 's/^#([^ ]|  )/\1/' "$example" >"$copy"
told=$("$pithd" -t -c "$copy" 2>&1 | grep -vE 'cannot be read: |has no folder|there is no user|configuration is good|is missing|needs a certificate')
test -z "$told" || fault "contrib/pith.yaml, all in force: $told"

exit "$faults"
