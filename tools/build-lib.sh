# shellcheck shell=bash
# What ./demo and ./check share. Sourced, from the top of the tree; each function's first argument is who speaks.

# Not the owner's copy, a read-only disk: said before meson's traceback.
need_writable_tree()
{
    local dir=. owner
    [ ! -d build ] || dir=build
    [ -w . ] && [ -w "$dir" ] && return 0
    owner=$(stat -c %U "$dir")
    echo "$1: '$(cd "$dir" && pwd)' can't be written by $(id -un) (it belongs to $owner): clone the repository again as yourself, or run as $owner" >&2
    exit 1
}

need_temporary_directory()
{
    [ -z "${TMPDIR:-}" ] || { [ -d "$TMPDIR" ] && [ -w "$TMPDIR" ]; } && return 0
    echo "$1: TMPDIR is '$TMPDIR', where nothing can be written: using /tmp" >&2
    unset TMPDIR
}

# configure WHO DIR MESON-OPTION…: also what an interrupted or an older meson left.
configure()
{
    local who=$1 dir=$2 log=$2/configure.log
    shift 2
    mkdir -p "$dir" || return 1
    if [ -f "$dir/build.ninja" ] && [ $# -eq 0 ]; then
        return 0
    elif [ -f "$dir/build.ninja" ] && { meson configure "$dir" "$@" || meson setup --reconfigure "$dir" "$@"; } >"$log" 2>&1; then
        return 0 # the second: our options changed since
    fi
    meson setup "$dir" "$@" >"$log" 2>&1 && [ -f "$dir/build.ninja" ] && return 0
    [ ! -d "$dir/meson-private" ] || rm -rf "$dir/meson-private" "$dir/meson-info" "$dir/build.ninja"
    if ! meson setup "$dir" "$@" >"$log" 2>&1; then
        grep -E -A 4 'ERROR|error:|not found' "$log" >&2 || tail -n 20 "$log" >&2
        echo "$who: '$dir' can't be configured: all of it is in '$log'" >&2
        return 1
    fi
}

# Warnings are errors only with compilers that were tried: a newer one that knows more must not turn a user's check red.
werror_for()
{
    local major
    major=$("$1" -dumpversion 2>/dev/null | cut -d. -f1)
    case $1-$major in
    gcc-12 | gcc-14 | clang-14 | clang-19) echo true ;;
    *) echo false ;;
    esac
}
