#!/bin/bash
# Small limits and places that are missing: it works, or the true cause is named with what to do.
# shellcheck disable=SC1091,SC2154,SC2016 # lib.sh; the quotes are for the shell inside
. "${CSN_SOURCE:?}/tests/cli/lib.sh"
need_sandboxes

# ---- ulimit
is "ulimit -n 64: run" "$(ulimit -n 64; caisson run -q -- echo hi 2>&1)" hi
is "ulimit -n 64: interp" "$(ulimit -n 64; caisson interp -q -c 'print(6 * 7)' 2>&1)" 42
is "ulimit -n 32: interp" "$(ulimit -n 32; caisson interp -q -c 'print(6 * 7)' 2>&1)" 42
mkdir -p bin
printf '#!/bin/sh\necho "Traceback" >&2\necho "ImportError: it is broken" >&2\nexit 1\n' >bin/python3
caisson create crippled >/dev/null
caisson cp -q bin/python3 crippled:/home/daytona/python3
caisson exec crippled sh -c 'mkdir -p /home/daytona/.local/bin && mv python3 .local/bin && chmod +x .local/bin/python3'
caisson snapshot crippled broken >/dev/null 2>&1
both caisson interp -q --image broken -e PATH=/home/daytona/.local/bin:/usr/bin:/bin -c 1
like "a Python that can't start says why" "$status $err" \
    "125 caisson: *the interpreter process ended before it was ready: ImportError: it is broken"
caisson rm -q crippled

fresh() { rm -rf "$work/fresh"; echo "$work/fresh"; }
both env CAISSON_STATE="$(fresh)" sh -c 'ulimit -f 100; caisson run -q -- echo hi'
like "ulimit -f 100: what was too large, and the remedy" "$status $err" "125 caisson: *: File too large
  try: ulimit -f unlimited"
is "ulimit -f 2000 is enough" "$(ulimit -f 2000; CAISSON_STATE=$(fresh) caisson run -q -- echo hi 2>&1)" hi
is "ulimit -f 100 with a state that is made" "$(ulimit -f 100; caisson run -q -- echo hi 2>&1)" hi
is "inside, a file too large is a signal as ever" "$(caisson run -q -- sh -c 'ulimit -f 1; sh -c "yes > f"; echo $?' 2>/dev/null)" 153

# ---- places
if [ "$(id -u)" -ne 0 ]; then
    both env -u CAISSON_STATE -u XDG_STATE_HOME -u HOME caisson run -q -- true
    like "no HOME" "$status $err" "125 caisson: *find a place for the state directory (set CAISSON_STATE)*"
    both env -u CAISSON_STATE -u XDG_STATE_HOME HOME=/nonexistent caisson run -q -- true
    like "a HOME that is not there" "$status $err" \
        "125 caisson: *make the state directory '/nonexistent/.local/state/caisson' (CAISSON_STATE names another): Permission denied*"
    both env -u CAISSON_STATE -u XDG_STATE_HOME HOME=/ caisson run -q -- true
    like "HOME=/" "$status $err" "125 *'//.local/state/caisson' (CAISSON_STATE names another): Permission denied*"
fi
is "TMPDIR that is not there" "$(TMPDIR=/nonexistent caisson run -q -- echo hi 2>&1)" hi

name=$(printf 'd%.0s' {1..200})
long=$work
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13; do long=$long/$name; done
is "a state path of 2,600 bytes" "$(CAISSON_STATE=$long caisson run -q -- echo hi 2>&1)" hi
run=$(readlink "$long/run") && rm -rf "$run"
touch "$long/file"
both caisson --state "$long/file" ls
like "… and an error there keeps its reason" "$status $err" "125 caisson: *\(CAISSON_STATE names another\): Not a directory"
both timeout 20 caisson serve --state "$long/file" --listen 127.0.0.1:0
like "… serve's, too" "$err" "caisson: *Not a directory*"

if [ "$(id -u)" -eq 0 ]; then
    # A disk of its own for the state: full, then read-only.
    mkdir disk
    both unshare -m sh -c '
        mount -t tmpfs -o size=64k,mode=700 disk disk && CAISSON_STATE=$PWD/disk/st caisson run -q -- true'
    like "a full disk is named" "$status $err" \
        "125 caisson: *No space left on device*'$work/disk/st'*CAISSON_STATE names another*"
    both unshare -m sh -c '
        mount -t tmpfs -o mode=700 disk disk && export CAISSON_STATE=$PWD/disk/st && caisson run -q -- true &&
        rm "$(readlink disk/st/run)" -rf; mount -o remount,ro disk && caisson run -q -- true'
    like "a read-only disk is named" "$status $err" "125 caisson: *Read-only file system*'$work/disk/st'*CAISSON_STATE names another*"
fi

# ---- what a killed program left in memory goes when its state directory is gone
gone=$work/gone
CAISSON_STATE=$gone caisson run -q -- sleep 100 &
child=$!
until_true 20 sh -c '[ -n "$(ls "$1/run/boxes" 2>/dev/null)" ]' sh "$gone"
run=$(readlink "$gone/run")
kill -KILL "$child"
wait "$child" 2>/dev/null
until_true 20 sh -c '[ -z "$(ls "$1/boxes")" ]' sh "$run"
case $run in
/*)
    is "a killed client leaves an empty directory in memory" "$([ -d "$run" ] && echo there)" there
    caisson gc >/dev/null
    is "… which stays as long as its state does" "$([ -d "$run" ] && echo there)" there
    rm -rf "$gone"
    caisson gc >/dev/null
    is "… and goes with it" "$([ -e "$run" ] && echo there)" ""
    ;;
*) skip "directories in memory" "kernel: no file system in memory here" ;;
esac
plan
