#!/bin/bash
# tests/embed/install.sh BUILDDIR
# Installs into a directory of its own, then builds somebody else's program with nothing but pkg-config's answers: as C
# against the shared library, as C++, and as C against the static one. Each must run a command in a sandbox.
set -uo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0
n_failed=0

say()
{
    n=$((n + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $n - $2"
    else
        sed 's/^/# /' "$dir/log"
        echo "not ok $n - $2"
        n_failed=$((n_failed + 1))
    fi
}

meson install -C "$build" --no-rebuild --destdir "$dir/root" >"$dir/log" 2>&1
say $? "installs into DESTDIR"

pc=$(find "$dir/root" -name caisson.pc)
prefix=$(sed -n 's/^prefix=//p' "$pc" 2>/dev/null)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR=$dir/root
lib=$(dirname "$(find "$dir/root" -name libcaisson.so)")
libexec=$(dirname "$(find "$dir/root" -name caisson-keeper)")
flags=$(pkg-config --cflags caisson)

run()
{
    LD_LIBRARY_PATH=$lib timeout 60 "$1" "$libexec" "$dir/state" >"$dir/out" 2>"$dir/log" &&
        [ "$(cat "$dir/out")" = "hello from inside" ]
}

# shellcheck disable=SC2046,SC2086 # pkg-config's answer is many words
{
    cc -std=c99 -pedantic -Wall -Wextra -Werror $flags "$here/embedder.c" -o "$dir/c" \
        $(pkg-config --libs caisson) >"$dir/log" 2>&1 && run "$dir/c"
    say $? "a C99 program runs a sandbox through the shared library"

    g++ -x c++ -std=c++11 -pedantic -Wall -Wextra -Werror $flags "$here/embedder.c" -o "$dir/cxx" \
        $(pkg-config --libs caisson) >"$dir/log" 2>&1 && run "$dir/cxx"
    say $? "a C++11 program does too"

    cc -std=c99 $flags "$here/embedder.c" -o "$dir/static" "$lib/libcaisson.a" \
        $(PKG_CONFIG_SYSROOT_DIR='' pkg-config --libs jansson) -lm >"$dir/log" 2>&1 && run "$dir/static"
    say $? "a program linked with libcaisson.a needs no libcaisson.so"
}

"$dir/root$prefix/bin/caisson" --version >"$dir/log" 2>&1
say $? "the installed program starts"

grep -q '^u caisson ' "$dir/root$prefix/lib/sysusers.d/caisson.conf" 2>"$dir/log"
say $? "a user for the server's front is described"

! grep -rlF "$dir" "$dir/root$prefix" >"$dir/log"
say $? "nothing installed knows where it was built into"
echo "1..$n"
[ $n_failed -eq 0 ]
