#!/bin/bash
# The skill card's examples, in C and on the command line, give what the card states.
# shellcheck disable=SC1091,SC2154 # lib.sh
. "${CSN_SOURCE:?}/tests/cli/lib.sh"
need_sandboxes
PATH=$CSN_BUILD:$PATH
git init -q -b main repo && echo '# Hi' > repo/README.md && git -C repo add . &&
    git -C repo -c user.name=a -c user.email=a@b commit -q -m one
is "in C" "$("$CSN_BUILD/tests/interp/example_card" "$PWD/repo")" '3628800
{"key": "value"}
["First observation", "Second observation"]
smoke: completed'
is "on the command line" "$("$CSN_SOURCE/examples/interp/card.sh" "$PWD/repo")" '{"answer":3628800,"status":"ok"}
{"saved":"/home/daytona/memory/knowledge/report.json"}
{"data":{"key":"value"}}
{"step":"collected"}
{"count":2,"items":["First observation","Second observation"]}
smoke: completed'
plan
