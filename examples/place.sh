# shellcheck shell=bash
# Where the examples keep their state: $CAISSON_STATE, else a directory of their own in the first of HOME, TMPDIR and a file
# system in memory that can hold sandboxes. Sourced; needs `caisson` on the PATH.

# choose_state NAME COMMAND…: sets and exports CAISSON_STATE and says it. A place is taken when COMMAND works in it; if it works
# nowhere the first place is taken all the same, so that what comes next can say why.
choose_state()
{
    local name=$1 dir first=
    shift
    own_state=
    if [ -n "${CAISSON_STATE:-}" ]; then
        echo "$name: the state is in $CAISSON_STATE (CAISSON_STATE)"
        return
    fi
    for dir in "${HOME:-}" "${TMPDIR:-/tmp}" "${XDG_RUNTIME_DIR:-}" /dev/shm; do
        CAISSON_STATE=$([ -n "$dir" ] && mktemp -d "${dir%/}/.caisson-$name.XXXXXX" 2>/dev/null) || continue
        export CAISSON_STATE
        first=${first:-$dir}
        own_state=$CAISSON_STATE
        "$@" >/dev/null 2>&1 && break
        drop_state
    done
    if [ -z "$own_state" ] && [ -n "$first" ]; then
        own_state=$(mktemp -d "${first%/}/.caisson-$name.XXXXXX")
        export CAISSON_STATE=$own_state
    fi
    [ -z "$own_state" ] || echo "$name: the state is in $own_state, until the end"
}

# Removes the state again, if it is ours.
drop_state()
{
    local run
    [ -n "$own_state" ] || return 0
    run=$(readlink "$own_state/run" 2>/dev/null) && rm -rf "$run" # what the state has in memory
    rm -rf "$own_state"
    own_state=
}
