#!/bin/bash
# caisson interp, session, rlm, smoke, diagnose, volume tree and cat, with a model that really speaks HTTP.
# shellcheck disable=SC1091,SC2154,SC2016,SC2034 # lib.sh
. "${CSN_SOURCE:?}/tests/cli/lib.sh"
need_sandboxes
no_sandboxes()
{
    [ -z "$(caisson ls -q)" ]
}
unset DSPY_LM_MODEL DSPY_LM_API_BASE DSPY_LLM_API_KEY DSPY_LM_API_KEY

# ---- results
is "SUBMIT prints JSON" "$(caisson interp -c 'import math
SUBMIT(answer=math.factorial(10), status="ok")')" '{"answer":3628800,"status":"ok"}'
is "executes share their state" "$(caisson interp -c 'x = 1' -c 'print(x + 1)')" 2
is "code from stdin" "$(echo 'print("in")' | caisson interp)" in
both caisson interp -c '1/0'
is "a Python error is 1" "$status" 1
like "… with its traceback" "$err" "Traceback*ZeroDivisionError: division by zero"
is "the time limit is 124" "$(status caisson interp --execute-timeout 1s -c 'while True: pass')" 124
is "a crash is 125" "$(status caisson interp -c 'import os; os._exit(3)')" 125
caisson interp -c 'print("in", flush=True)
while True: pass' > out.txt 2> err.txt &
victim=$!
until_true 20 grep -q in out.txt
kill -TERM $victim
wait $victim
is "a signal stops the code" "$?" 143
like "… and says so" "$(cat err.txt)" "*Execution cancelled*"
is "variables" "$(caisson interp --vars '{"n": 20}' -c 'SUBMIT(n * 2)')" '{"output":40}'
is "declared fields" "$(status caisson interp --field a -c 'SUBMIT(b=1)')" 1
is "--json" "$(caisson interp --json -c 'print("o"); SUBMIT(1)' | json 'd["results"][0]["kind"], d["results"][0]["stdout"], d["results"][0]["final"]')" \
    "('final', 'o\\n', {'output': 1})"
is "… of a file that is not there is one document" "$(caisson interp --json -f nothing 2> /dev/null | json 'd["error"]["code"]')" system
is "… of bad variables, too" "$(caisson interp --json --vars '[1]' -c 1 2> /dev/null | json 'd["error"]["code"]')" invalid
caisson interp --events ev -c 'x = 1' > /dev/null
is "--events" "$(wc -l < ev)" 2

# ---- sessions
caisson interp --session one -c 'v = 41'
is "a session outlives the program" "$(caisson interp --session one -c 'v += 1; SUBMIT(v)')" '{"output":42}'
is "session ls" "$(caisson session ls -q)" one
is "session export" "$(caisson session export one | json 'len(d["daytona"]["sandbox_id"])')" 32
caisson session export one | caisson session import two
is "session import" "$(caisson interp --session two -c 'SUBMIT(v)')" '{"output":42}'
rm -f "$CAISSON_STATE/sessions/two.json"
caisson interp --session one -c 'print("in", flush=True)
import time
time.sleep(600)' > out.txt 2> /dev/null &
victim=$!
until_true 20 grep -q in out.txt
kill -9 $victim
wait $victim 2> /dev/null
is "killed in the middle, the session has its variables" "$(caisson interp --session one -c 'SUBMIT(v)')" '{"output":42}'
is "session rm" "$(caisson session rm one)" one
is "… of none" "$(status caisson session rm one)" 125
both caisson interp --session ../x -c 1
is "a bad name" "$status" 2
is "… is said once" "$(printf '%s\n' "$err" | grep -c 'no name for a session')" 1
is "… also by export" "$(caisson session export ../x 2>&1 | grep -c caisson:)" 1
is "nothing stays" "$(caisson ls -q)" ""

# ---- volumes
caisson interp --volume vol -c 'save_to_volume("d/a.txt", "hello")'
like "volume tree" "$(caisson volume tree vol)" "/*  d/*    a.txt  5 B*"
is "volume cat" "$(caisson volume cat vol d/a.txt)" hello
is "… no way up" "$(status caisson volume cat vol ../x)" 125
is "it survives" "$(caisson interp --volume vol -c 'print(load_from_volume("d/a.txt"))')" hello

# Three programs write one volume at once, the third until it is killed.
writer='import sys
for n in range(100):
    save_to_volume("shared/%s-%d" % (who, n), "x" * n)
    remember("%s %d" % (who, n), n)
    with open("/home/daytona/memory/log", "a") as f: f.write(who + "\n")'
caisson interp --volume shared --vars '{"who": "a"}' -c "$writer" &
first=$!
caisson interp --volume shared --vars '{"who": "b"}' -c "$writer" &
second=$!
caisson interp --volume shared -c 'print("in", flush=True)
n = 0
while True:
    save_to_volume("killed", str(n) * 100000)
    n += 1' > out.txt &
third=$!
until_true 60 grep -q in out.txt
wait $first
status_a=$?
kill -9 $third
wait $third 2> /dev/null
wait $second
is "two writers end well" "$status_a $?" "0 0"
is "nothing is lost" "$(caisson interp --volume shared -c 'import os
log = open("/home/daytona/memory/log").read().split()
names = os.listdir("/home/daytona/memory/shared")
whole = all(len(load_from_volume("shared/" + x)) == int(x[2:]) for x in names)
kept = load_from_volume("killed")
SUBMIT(log.count("a"), log.count("b"), len(names), whole, len(recall("a ")["results"]), kept == kept[:len(kept) // 100000] * 100000)')" \
    '{"output":[100,100,200,true,50,true]}'
is "no sandbox stays" "$(until_true 20 no_sandboxes; caisson ls -q)" ""
caisson gc > /dev/null 2>&1
is "a volume survives everything" "$(caisson volume cat shared shared/a-3)" xxx
caisson volume rm shared > /dev/null
is "… but volume rm" "$(status caisson volume cat shared shared/a-3)" 125

# ---- smoke and diagnose
git init -q -b main repo && echo '# Hi' > repo/README.md && git -C repo add . &&
    git -C repo -c user.name=a -c user.email=a@b commit -q -m one
is "smoke" "$(caisson smoke --repo "$PWD/repo" | json 'd["persisted_state_value"], d["termination_phase"]')" "(5, 'completed')"
both caisson smoke --repo "$PWD/repo" --ref nope
is "smoke fails with 1" "$status" 1
is "… with the report on stderr" "$out" ""
like "… that names the phase" "$err" '*"termination_phase": "repo_clone"*'
is "smoke without --repo is a misuse" "$(status caisson smoke)" 2
like "smoke --help" "$(caisson smoke --help)" "*--repo*--ref*"
like "diagnose" "$(caisson diagnose)" "OK    engine*0 FAIL"
like "diagnose hides the key" "$(DSPY_LM_MODEL=m DSPY_LM_API_BASE=http://x DSPY_LLM_API_KEY=sk-secret caisson diagnose)" "*with a key (hidden)*"
is "a half-set model fails" "$(DSPY_LM_MODEL=m status caisson diagnose)" 1

# ---- settings
mkdir conf && cd conf || exit 1
printf 'DSPY_LM_MODEL=from-env\nDSPY_LM_API_BASE=http://x\n' > .env
like "b13_56 .env is read" "$(caisson diagnose)" "*from-env*"
echo 'DSPY_LM_MODEL=from-local' > .env.local
like "b13_56 .env.local comes before .env" "$(caisson diagnose)" "*from-local*"
like "b13_56 the environment comes before both" "$(DSPY_LM_MODEL=from-environ caisson diagnose)" "*from-environ*"
rm .env .env.local
like "b13_55 a misspelt name of the URL is refused" "$(DAYTONA_API_BASE_URL=http://x caisson diagnose)" "*FAIL*DAYTONA_API_URL*"
like "b13_57 a key of another name is none" "$(OPENAI_API_KEY=k DSPY_LM_MODEL=m DSPY_LM_API_BASE=http://x caisson diagnose)" "*without a key*"
cd .. || exit 1

# ---- models
# serve STEPS: a scripted model; its address in $url
serve()
{
    echo "$1" > steps.json
    : > model.log
    coproc MODEL { exec python3 "$CSN_SOURCE/tests/interp/model_server.py" steps.json model.log; }
    read -r port <&"${MODEL[0]}"
    url=http://127.0.0.1:$port/v1
}
serve_end()
{
    eval "exec ${MODEL[1]}>&-"
    wait "$MODEL_PID" 2> /dev/null
}
ask()
{
    DSPY_LLM_API_KEY=k-123 caisson interp --llm-url "$url" --llm-model m "$@"
}

serve '[{"echo": true}]'
is "a question over HTTP" "$(ask -c 'SUBMIT(llm_query("hi", "ctx"))')" '{"output":"ctx\n\nhi"}'
like "the key is sent" "$(cat model.log)" '*"auth": "Bearer k-123"*'
is "four at once, in order" "$(ask -c 'SUBMIT(llm_query_batched([str(n) for n in range(6)]))')" '{"output":["0","1","2","3","4","5"]}'
serve_end
serve '[{"text": "```python\nSUBMIT(answer=llm_query(\"q\"))\n```"}, {"text": "a"}]'
is "b13_57 delegates have the small model" "$(DSPY_LM_MODEL=large DSPY_LM_SMALL_MODEL=small DSPY_LM_API_BASE=$url \
    caisson rlm -q --json How | json 'd["final"]') $(json '[r["model"] for r in d]' < <(jq -s . model.log 2> /dev/null ||
    python3 -c 'import json, sys; print(json.dumps([json.loads(l) for l in open("model.log")]))'))" "{'answer': 'a'} ['large', 'small']"
serve_end
serve '[{"status": 429, "headers": {"Retry-After": "0"}}, {"status": 500}, {"text": "third"}]'
is "429 and 500 are tried again" "$(ask -c 'SUBMIT(llm_query("x"))')" '{"output":"third"}'
serve_end
serve '[{"cut": true}, {"text": "whole"}]'
is "a cut connection, too" "$(ask -c 'SUBMIT(llm_query("x"))')" '{"output":"whole"}'
serve_end
serve '[{"status": 500}]'
like "but not for ever" "$(ask -c 'llm_query("x")' 2>&1)" "*RuntimeError: HTTP 500*"
is "… three times" "$(wc -l < model.log)" 3
serve_end
serve '[{"body": "not json"}]'
like "invalid JSON is said" "$(ask -c 'llm_query("x")' 2>&1)" "*no chat completion*"
serve_end
serve '[{"slow": 30}]'
like "a slow model times out" "$(ask --llm-timeout 1s -c 'llm_query("x")' 2>&1)" "*LLM call timed out after 1s.*"
serve_end
serve '[{"status": 401, "body": "{\"error\": {\"message\": \"bad key sk-abcdefghijklmnopqrstuvwx\"}}"}]'
both ask -c 'for _ in range(2):
    try: llm_query("x")
    except RuntimeError as e: print(e)'
like "401 is said once, without the key" "$out" "LLM authentication failed: HTTP 401: bad key ?REDACTED?*was not asked again*"
is "… and asked once" "$(wc -l < model.log)" 1
serve_end
serve '[{"status": 400, "body": "{\"error\": {\"message\": \"no such key: k-123456, k-123456!\"}}"}]'
like "our own key is not quoted" "$(DSPY_LLM_API_KEY=k-123456 caisson interp --llm-url "$url" -c 'llm_query("x")' 2>&1)" \
    "*HTTP 400: no such key: ?REDACTED?, ?REDACTED?!"
serve_end
both caisson interp --llm-cmd 'cat > /dev/null; echo asked >> asked.log; echo "401 Unauthorized" >&2; exit 1' -c 'for _ in range(2):
    try: llm_query("x")
    except RuntimeError as e: print(e)'
like "a command that is not authorised is asked once" "$out" "LLM authentication failed: model command failed (exit 1): 401 Unauthorized*was not asked again*"
is "… and no more" "$(wc -l < asked.log)" 1
like "who can't be reached is named" "$(ask -c 'llm_query("x")' 2>&1)" "*the model's endpoint http://127.0.0.1:*/chat/completions: *onnect*"
serve '[{"text": "Like this:\n```Python\nfence = \"```\"\nSUBMIT(answer=fence)\n```\nDone."}]'
is "rlm: a fence in a string ends nothing" "$(caisson rlm -q --llm-url "$url" --max-iterations 1 "How?")" '{"answer":"```"}'
serve_end
serve '[{"text": "```python\nprint(len(context))\n```"}, {"text": "```js\nx\n```"}, {"text": "SUBMIT(wrong=1)"},
    {"text": "```python\na = llm_query(\"q\")\nSUBMIT(answer=a + \"!\")\n```"}, {"text": "sub"}]'
is "rlm: code, output, SUBMIT" "$(echo text | caisson rlm -q --llm-url "$url" --llm-model m --input - --json "How?" |
    json 'd["final"], d["iterations"], d["llm_calls"]')" "({'answer': 'sub!'}, 4, 1)"
like "… the model sees the output" "$(sed -n 2p model.log)" '*Output:\\n5*'
like "… and what was wrong" "$(sed -n 4p model.log)" "*SUBMIT is missing: answer*"
serve_end
is "a command as model" "$(caisson interp --llm-cmd 'tr a-z A-Z' -c 'SUBMIT(llm_query("loud"))')" '{"output":"LOUD"}'
like "… that fails" "$(caisson interp --llm-cmd 'echo no >&2; exit 1' -c 'llm_query("x")' 2>&1)" "*RuntimeError: model command failed (exit 1): no*"
like "… without a word" "$(caisson interp --llm-cmd 'exit 3' -c 'llm_query("x")' 2>&1)" "*RuntimeError: model command failed (exit 3)"
like "… by a signal" "$(caisson interp --llm-cmd 'kill -9 $$' -c 'llm_query("x")' 2>&1)" "*RuntimeError: model command failed (signal 9)"
like "… with a secret: the rest of the message stays" \
    "$(caisson interp --llm-cmd "echo 'api_key=\"abc is not closed' >&2; echo quota used up >&2; exit 3" -c 'llm_query("x")' 2>&1)" \
    "*RuntimeError: model command failed (exit 3): api_key=?REDACTED?*quota used up"
like "… that is nothing but a secret" "$(caisson interp --llm-cmd 'echo postgres://u:p@h/db >&2; exit 3' -c 'llm_query("x")' 2>&1)" \
    "*RuntimeError: model command failed (exit 3): ?REDACTED?"
is "a keyword is no variable" "$(caisson interp --json --vars '{"for": 1}' -c 1 2> /dev/null | json 'd["error"]["message"]')" \
    "variable name 'for' is a Python keyword"
printf '\xef\xbb\xbfprint("bom")\r\n' > bom.py
is "a file with a byte order mark" "$(caisson interp -f bom.py) $(caisson interp < bom.py)" "bom bom"
is "the budget" "$(status caisson interp --max-llm-calls 1 --llm-cmd cat -c 'llm_query("a"); llm_query("b")')" 1
is "nothing stays" "$(caisson ls -q)" ""
plan
