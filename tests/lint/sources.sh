#!/bin/sh
# sources.sh - every source file is built, and text is plain.
set -u
cd "$top_srcdir" || exit 99
faults=0

# Says what, and shows what grep found.
forbid() {
    test -n "$2" || return 0
    echo "$1"
    echo "$2"
    faults=1
}

files=$(find src cache tls http tests -name '*.[ch]')
test -n "$files" || exit 99
for file in $files; do
    grep -rqE "(^|[[:space:]=])$file([[:space:]]|\$)" --include=local.mk src cache tls http tests ||
        forbid 'is in no local.mk, so it is neither built nor shipped:' "$file"
done

# Dashes, quotes and blanks that only look like ASCII. Escapes in strings are the way to others.
text="$(find src cache tls http tests man contrib docker .ci \( -name '*.[ch]' -o -name '*.sh' -o \
    -name '*.py' -o -name '*.mk' -o -name '*.[58]' -o -name '*.yaml' -o -name '*.in' \) -print)
README.md HACKING.md CHANGELOG.md configure.ac Makefile.am autogen.sh"
forbid 'typographic characters:' \
    "$(LC_ALL=C grep -nE "$(printf '\342\200[\220-\257]|\302\240|\342\210\222')" $text)"
forbid 'white space at the end of lines:' "$(grep -nE '[[:blank:]]+$' $text)"
forbid 'tabs in C:' "$(grep -nE "$(printf '\t')" $files)"

exit "$faults"
