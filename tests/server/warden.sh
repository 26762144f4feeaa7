#!/bin/bash
# A real warden with a real engine and, in caisson-serve's place, a front that tries every verb and prints TAP.
set -uo pipefail
: "${CSN_BUILD:?}" "${CSN_FRONT:?}"

work=$(mktemp -d "${TMPDIR:-/tmp}/csn-warden.XXXXXX")
mkdir "$work/bin"
ln -s "$CSN_BUILD"/caisson-{keeper,unpack} "$work/bin/"
ln -s "$CSN_FRONT" "$work/bin/caisson-serve"
failed=0

finish()
{
    CAISSON_STATE=$work/state/engine "$CSN_BUILD/caisson" rm --all -q >/dev/null 2>&1
    run=$(readlink "$work/state/engine/run" 2>/dev/null) && rm -rf "$run"
    rm -rf "$work"
    [ "$failed" -eq 0 ]
}
trap finish EXIT

warden()
{
    "${program[@]}" "$@"
}
program=("$CSN_BUILD/caisson-warden" "--state=$work/state" --listen=127.0.0.1:0 "--libexec=$work/bin")

out=$(warden -- --all 2>"$work/err")
status=$?
n=$(grep -cE '^(not )?ok ' <<<"$out")
grep -v '^1\.\.' <<<"$out"
sed 's/^/# /' "$work/err"

is()
{
    n=$((n + 1))
    # shellcheck disable=SC2053 # the right side is a pattern
    if [[ $2 == $3 ]]; then
        echo "ok $n - $1"
    else
        failed=$((failed + 1))
        printf 'not ok %d - %s\n# got:    %s\n# wanted: %s\n' "$n" "$1" "${2@Q}" "$3"
    fi
}
grep -q '^not ok' <<<"$out" && failed=1

is "a front that ends of itself ends the warden, status 1" "$status" 1
err=$(warden -- --die 2>&1)
status=$? # root's front has a user of its own, or it is said that it has none
is "also when it never was ready" "$status:$(grep -v 'msg="the front runs as nobody' <<<"$err")" "1:"
err=$(warden -- --bad 2>&1)
status=$?
is "bytes that are no message end the connection" "$status:$err" "1:*sent what it must not*"
is "and the front, also one that would stay" "${err##*still there*}" "$err"
err=$(warden --user=no-such-user 2>&1)
is "the front's user must exist" "$?:$err" "1:caisson: *no-such-user*"
err=$("$CSN_BUILD/caisson-warden" 2>&1)
is "by hand it is refused" "$?:$err" "2:*caisson serve*"
for where in nonsense 127.0.0.1 ::1:80 127.0.0.1:99999; do
    err=$("$CSN_BUILD/caisson-warden" --state="$work/state" --listen=$where --libexec="$work/bin" 2>&1)
    is "no address: $where" "$?:$err" "1:*ADDR:PORT*"
done

# start: the warden's pid in $pid, its front's in $front
start()
{
    rm -f "$work/line"
    mkfifo "$work/line"
    "${program[@]}" -- --wait >"$work/line" 2>"$work/err" &
    pid=$!
    exec 7<"$work/line"
    read -r -t 20 -u 7 _ front || echo "# not ready: $(cat "$work/err")"
}

# gone PID: waits until it is no more
gone()
{
    for ((i = 0; i < 500; i++)); do
        [ -e "/proc/$1" ] || return 0
        grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null && return 0
        read -r -t 0.02 -u 8 _
    done
    return 1
}
exec 8<> <(:)

start
err=$(warden -- --die 2>&1)
is "one server per directory" "$?:$err" "1:*another server runs here*"
kill -TERM "$pid"
wait "$pid"
is "SIGTERM: the front is told, both end well" "$?" 0
exec 7<&-

start
kill -KILL "$pid"
wait "$pid" 2>/dev/null
gone "$front"
is "a killed warden takes the front along" "$?" 0
exec 7<&-

start
kill -KILL "$front" 2>/dev/null || is "may kill the front" no yes
wait "$pid"
is "a killed front ends the warden" "$?:$(cat "$work/err")" "1:*the front is gone*"
exec 7<&-
echo "1..$n"
