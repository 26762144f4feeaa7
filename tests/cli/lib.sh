# shellcheck shell=bash
# TAP in a few words, for tests of the program itself. Sourced; wants CSN_SOURCE and CSN_BUILD.
set -uo pipefail
: "${CSN_SOURCE:?}" "${CSN_BUILD:?}"

work=$(mktemp -d "${TMPDIR:-/tmp}/csn-cli.XXXXXX")
export CAISSON_STATE=$work/state HOME=$work LC_ALL=C.UTF-8 PATH=$CSN_BUILD:$PATH
unset COLUMNS NO_COLOR
cd "$work" || exit 1
n=0
failed=0

finish()
{
    caisson rm --all -q >/dev/null 2>&1
    run=$(readlink "$CAISSON_STATE/run" 2>/dev/null) && rm -rf "$run" # what the state has in memory
    cd / && rm -rf "$work"
    [ "$failed" -eq 0 ]
}
trap finish EXIT

ok()
{
    n=$((n + 1))
    echo "ok $n - $1"
}

not_ok()
{
    n=$((n + 1))
    failed=$((failed + 1))
    echo "not ok $n - $1"
    shift
    printf '%s\n' "$@" | sed 's/^/# /'
}

# is NAME GOT WANTED
is()
{
    if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "got:    ${2@Q}" "wanted: ${3@Q}"; fi
}

# like NAME GOT PATTERN (of the shell)
like()
{
    # shellcheck disable=SC2053 # the right side is a pattern
    if [[ $2 == $3 ]]; then ok "$1"; else not_ok "$1" "got:    ${2@Q}" "wanted: $3"; fi
}

# skip NAME WHY: "kernel: …", "build: …", "user: …" and "net: …" excuse, as in csn_test.h
skip()
{
    n=$((n + 1))
    if [ "${CSN_MUST_RUN:-0}" = 1 ] && [[ $2 != @(kernel|build|user|net):* ]]; then
        failed=$((failed + 1))
        echo "not ok $n - $1 (must run: $2)"
    else
        echo "ok $n - $1 # SKIP $2"
    fi
}

# status COMMAND…: its exit status, silently
status()
{
    "$@" >/dev/null 2>&1
    echo $?
}

# both COMMAND…: stdout in $out, stderr in $err, status in $status
# shellcheck disable=SC2034 # for the tests
both()
{
    "$@" >"$work/.out" 2>"$work/.err"
    status=$?
    out=$(cat "$work/.out")
    err=$(cat "$work/.err")
}

# json EXPRESSION: evaluates Python over the document `d` on stdin
json()
{
    python3 -c 'import json, sys; d = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"
}

# until_true SECONDS COMMAND…: again and again, until it succeeds or the time is up
until_true()
{
    local deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $deadline ] || return 1
        read -r -t 0.05 <> <(:) || :
    done
}

need_sandboxes()
{
    if ! caisson run -q -- true >"$work/.why" 2>&1; then
        skip "sandboxes start here" "$(head -n 1 "$work/.why")"
        plan
        exit
    fi
}

plan()
{
    echo "1..$n"
}
