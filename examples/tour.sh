#!/bin/bash
# A guided tour of caisson, on a state directory of its own: a minute, and nothing stays.
set -uo pipefail
exec 2>&1 # remarks in their place, also when the tour is recorded
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${CSN_BUILD:-$here/../build}
if [ ! -x "$build/caisson" ]; then
    echo "tour: there is no $build/caisson yet: run ./demo"
    exit 1
fi
export PATH=$build:$PATH
# shellcheck source=examples/place.sh
. "$here/place.sh"
try_place() { local id && id=$(caisson create) && caisson rm "$id"; }
choose_state tour try_place

bold='' dim='' off=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$'\033[1m' dim=$'\033[2m' off=$'\033[0m'
fi

leave()
{
    [ -z "$own_state" ] || caisson rm --all -q >/dev/null 2>&1
    drop_state
}
trap leave EXIT
trap 'exit 130' INT TERM

say() { printf '\n%s%s%s\n' "$bold" "$*" "$off"; }

# show COMMAND…: print it as one would type it, run it, and say the status when it isn't 0
show()
{
    local status
    printf '%s$ %s%s\n' "$dim" "${shown:-$*}" "$off"
    "$@"
    status=$?
    [ $status -eq 0 ] || printf '%s(exit status %d)%s\n' "$dim" "$status" "$off"
    shown=
}

cd "$here/tour" || exit 1

say "1. Can this machine do it?"
if ! caisson doctor -q >/dev/null 2>&1; then
    caisson doctor
    echo "tour: 'caisson doctor' above says what is missing"
    exit 1
fi
echo "yes: every wall stands here ('caisson doctor' lists them)"

say "2. A Python file, in a sandbox that lives as long as the run"
show caisson run primes.py

say "3. What a nosy program finds there"
show caisson run nosy.sh

say "4. Limits that hold, and say so"
show caisson run --timeout 1s -- sleep 3600
shown="caisson run --memory 64m -- python3 -c 'x = bytearray(1 << 30)'"
show caisson run --memory 64m -- python3 -c 'x = bytearray(1 << 30)'
shown="caisson run --pids 32 -- sh -c ': a fork bomb'"
show caisson run -q --pids 32 --timeout 2s -- bash -c ':(){ :|:& };:; sleep 0.3; echo "the machine did not notice"' 2>/dev/null

say "5. A sandbox that stays: files, a copy, an image"
show caisson create --name work
shown="caisson exec work -- sh -c 'echo \"written inside\" > note'"
show caisson exec work -- sh -c 'echo "written inside" > note'
show caisson fork work copy
show caisson exec copy -- cat note
show caisson ls
show caisson rm work copy

say "6. Everything about a run as data"
shown="caisson run --json -- sh -c 'echo out; echo err >&2' | head -n 6"
show sh -c "caisson run --json -- sh -c 'echo out; echo err >&2' | head -n 6"

say "7. And nothing is left: no process, no mount, no file"
show caisson ls -q
printf '%s(and the layer the copy was made of, which no sandbox needs any more)%s\n' "$dim" "$off"
show caisson gc

say "The last word of every run is its receipt:"
show caisson run --receipt -- echo "done"
