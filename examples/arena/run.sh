#!/bin/bash
# Five candidates compete for one objective: live, scored, with a report. Everything it writes is below build/demo.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${CSN_BUILD:-$here/../../build}
if [ ! -x "$build/caisson" ]; then
    echo "arena: there is no $build/caisson yet: run ./demo" >&2
    exit 1
fi
build=$(cd "$build" && pwd)
# shellcheck source=examples/place.sh
. "$here/../place.sh"
choose_state demo "$build/caisson" run -- sh -c 'echo x > ~/x'
trap drop_state EXIT
trap : INT TERM # caisson cleans up after itself; its status decides

mkdir -p "$build/demo" && cd "$build/demo" || exit 1
"$build/caisson" arena --candidates "$here/candidates.json" --artifacts artifacts \
    --report report.html --report report.md "$@"
status=$?
echo
case $status in
0 | 1) echo "All of it is in $build/demo: open report.html in a browser." ;;
3) echo "arena: no sandbox could be made here, so nobody ran (status 3): 'caisson doctor' says what is missing." >&2 ;;
130 | 143) echo "arena: broken off, so there is no winner." >&2 ;;
*) echo "arena: the contest failed with status $status." >&2 ;;
esac
exit $status
