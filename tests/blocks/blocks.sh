#!/bin/bash
# caisson blocks: files, stdin, given code, replies, JSON, and that nothing stays.
# shellcheck disable=SC1091,SC2154,SC2016 # lib.sh; the backquotes are Markdown
. "${CSN_SOURCE:?}/tests/cli/lib.sh"
need_sandboxes

printf 'Do:\n```python\nprint("first")\n```\nthen\n```bash\necho second\n```\n' > a.md
is "a file's blocks, joined" "$(caisson blocks a.md)" "$(printf 'first\n\nsecond')"
is "from stdin" "$(caisson blocks - < a.md)" "$(printf 'first\n\nsecond')"
is "a block's status is ours" "$(status caisson blocks --lang bash --code 'exit 42')" 42
is "code without a language" "$(caisson blocks --code 'print(6 * 7)')" 42
is "the agent's reply" "$(caisson blocks --reply a.md)" \
    "$(printf 'exitcode: 0 (execution succeeded)\nCode output: first\n\nsecond')"
is "no block, no reply" "$(echo text | caisson blocks --reply)" ""
is "… of a failure" "$(caisson blocks --reply --lang sh --code 'echo no; exit 3')" \
    "$(printf 'exitcode: 3 (execution failed)\nCode output: no')"
is "JSON" "$(caisson blocks --json a.md | python3 -c 'import json, sys; d = json.load(sys.stdin)
print(d["exit_code"], d["blocks_run"], d["failed_index"], d["output"] == "first\n\nsecond\n", len(d["sandbox_id"]))')" "0 2 -1 True 32"
is "extract only" "$(caisson blocks --extract-only --json a.md | python3 -c 'import json, sys
print([b["language"] for b in json.load(sys.stdin)])')" "['python', 'bash']"
is "an unknown language" "$(caisson blocks --lang rust --code x)" \
    "Unsupported language: 'rust'. Supported languages: python, bash, sh, javascript, typescript"
is "a variable" "$(caisson blocks -e K=v --lang sh --code 'echo $K')" v
printf '%s\n' '[{"role": "user", "content": "```sh\necho newest\n```"}, {"role": "user", "content": "thanks"}]' > talk.json
is "a conversation" "$(caisson blocks --messages talk.json)" newest
is "… of which one message is looked at" "$(caisson blocks --messages --last-n 1 --reply talk.json)" ""
is "… or none" "$(status caisson blocks --messages --last-n 0 talk.json)" 2
printf -- '- ~~~sh x=y\n  echo list\n  ~~~\n' > b.md
is "CommonMark" "$(caisson blocks --commonmark b.md)" list
is "snapshot and image" "$(status caisson blocks --snapshot a --image b --code 1)" 1
is "a time-out is 1" "$(status caisson blocks --timeout 1s --lang sh --code 'sleep 60')" 1
for wrong in 0 -5 -5s -0.5 0.5 0s -1ms unlimited; do
    both caisson blocks --timeout="$wrong" --lang sh --code 'echo ran'
    is "--timeout=$wrong" "$status $out$err" "1 caisson: Timeout must be greater than or equal to 1."
done
both caisson blocks --timeout=-soon --lang sh --code 'echo ran'
is "a time that is none is a misuse" "$status" 2
like "… that is named" "$err" "caisson: blocks: --timeout '-soon': not a time such as 30s*"
printf '\xef\xbb\xbf```bash\r\necho marked\r\n```\r\n' > mark.md
is "a file with a byte order mark" "$(caisson blocks mark.md) $(caisson blocks --commonmark mark.md)" "marked marked"
both caisson blocks --keep --name kept-blocks --lang sh --code 'touch ~/x'
like "--keep says what it keeps" "$err" "caisson: kept sandbox *"
is "… and it is there" "$(caisson exec kept-blocks -- ls)" x
caisson rm -f kept-blocks > /dev/null
is "nothing stays" "$(caisson ls -q)" ""
plan
