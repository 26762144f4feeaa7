#!/bin/bash
# The manual is well-formed, knows every command and option there is, and every file the papers link to exists. TAP.
# shellcheck disable=SC2013,SC2016 # none of the names has a space; the backquotes are Markdown
set -uo pipefail
cd "$CSN_SOURCE" || exit 1
caisson=$CSN_BUILD/caisson
n=0

report()
{
    n=$((n + 1))
    if [ -z "$2" ]; then
        echo "ok $n - $1"
    else
        echo "not ok $n - $1"
        printf '%s\n' "$2" | sed 's/^/# /'
    fi
}

for page in man/caisson*.[0-9]; do
    if command -v mandoc >/dev/null; then
        report "$page is clean" "$(mandoc -Tlint -W warning "$page" 2>&1 | grep -v 'mandoc.db')"
    else
        n=$((n + 1))
        echo "ok $n - $page is clean # SKIP mandoc is missing"
    fi
done

# "  run          Run a file …" → run
commands=$("$caisson" help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
missing=
for command in $commands; do
    grep -q "Cm $command" man/caisson.1 || missing+="$command "
done
report "caisson.1 names every command" "$missing"

missing=
for command in $commands "image build" "image ls" "volume ls" "key create" "key rm"; do
    # shellcheck disable=SC2086 # a command and its subcommand are two words
    for option in $("$caisson" help $command | sed -n 's/^  .\{4\}--\([a-z-]*\).*/\1/p'); do
        grep -q "Fl Fl $option\b" man/caisson.1 || missing+="$command --$option "
    done
done
report "caisson.1 names every option" "$missing"

missing=
for name in $(grep -o 'csn_[a-z_]*' caisson.sym | sort -u); do
    case $name in
    *_async) ;; # named once for all, where the loop is explained
    *) if grep -q "\b$name(" include/caisson/{engine,error,sandbox,process,files,image,volume,receipt}.h; then
        grep -q "Fn $name\b" man/caisson.3 || missing+="$name "
    fi ;;
    esac
done
report "caisson.3 names the functions of the headers" "$missing"

missing=
for paper in README.md SECURITY.md CONTRIBUTING.md docs/*.md; do
    for link in $(grep -o '](\([^)#:]*\))' "$paper" | sed 's/^](//; s/)$//'); do
        [ -e "$(dirname "$paper")/$link" ] || missing+="$paper: $link "
    done
done
report "every link in the papers leads somewhere" "$missing"
missing=
for path in $(grep -o '`\(tests\|src\)/[a-z_/]*[a-z_.]*`' SECURITY.md | tr -d '`' | sort -u); do
    [ -e "$path" ] || missing+="$path "
done
report "every test SECURITY.md names exists" "$missing"
echo "1..$n"
