#!/bin/bash
# caisson arena and caisson candidate as people use them.
# shellcheck disable=SC1091,SC2154 # lib.sh
. "${CSN_SOURCE:?}/tests/cli/lib.sh"
unset DAYTONA_API_KEY DAYTONA_API_URL DAYTONA_BASE_URL DAYTONA_JWT_TOKEN
# what lives as long as the program is never freed
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
need_sandboxes

cat >good.py <<'END'
import sys
print("hello", sys.argv[1])
open(sys.argv[2], "w").write("# an artifact for " + sys.argv[1] + "\n")
END
echo 'import sys; sys.exit(3)' >bad.py
cat >sleeper.sh <<'END'
echo started
sleep 100
END

# ---- candidate ----
both caisson candidate good.py --objective "it's here"
is 'candidate: exit status of a success' "$status" 0
is 'candidate: the artifact is on stdout' "$out" "# an artifact for it's here"
like 'candidate: log lines carry the id' "$err" '*\[good\] \[Sandbox\] Connecting...*\[good\] \[Sandbox\] Cleaning up...'
both caisson candidate bad.py -o x -q
is 'candidate: exit status of a failure' "$status" 1
is 'candidate: the message' "$err" 'caisson: Script exited with code 3'
printf 'for n in range(100): print("line", n)\n1/0\n' > crash.py
both caisson candidate crash.py -o x
like 'candidate: what a script said last is shown' "$err" '*Exit code: 1*line 99*ZeroDivisionError: division by zero*caisson: Script exited with code 1*'
is 'candidate: … not all of it' "$(($(grep -c '^line ' <<< "$err") < 20))" 1
both caisson candidate nope.py -o x
is 'candidate: a missing script fails' "$status" 1
like 'candidate: and says so' "$err" '*Could not write script: nope.py: No such file or directory*try: does the path exist*'
is 'candidate: misuse' "$(status caisson candidate good.py)" 2
is 'candidate: misuse without script' "$(status caisson candidate -o x)" 2
both caisson candidate good.py -o x --json
is 'candidate: json is one document' "$(json 'd["candidate_id"], d["success"], d["output"], d["artifact_content"], d["error_message"], d["exit_code"]' <<<"$out")" \
    "('good', True, 'hello x\\n', '# an artifact for x\\n', None, 0)"
both caisson candidate good.py -o x --id other --output deep/post.md -q
is 'candidate: the artifact in a file' "$out|$(cat deep/post.md)" '|# an artifact for x'
both caisson candidate good.py -o x --daytona --json
is 'candidate: no key for the remote backend' "$status" 3
is 'candidate: its result' "$(json 'd["error_message"], d["runtime_seconds"], d["sandbox_id"]' <<<"$out")" \
    "('Daytona API key not configured', 0.0, None)"
like 'candidate: and no log line' "$err" ''
printf 'DAYTONA_API_KEY=your_daytona_api_key_here\n' >.env
both caisson candidate good.py -o x -d -q
like 'candidate: a placeholder in .env is no key' "$err" '*Daytona API key not configured*'
printf 'DAYTONA_API_KEY=dtn_secret_value # mine\n' >.env
both caisson candidate good.py -o x -d
like 'candidate: a key is not enough in this build' "$err" '*Daytona backend not available in this build*'
case $err in *dtn_secret*) not_ok 'candidate: the key is not shown' ;; *) ok 'candidate: the key is not shown' ;; esac
rm .env
head -c 131071 /dev/zero | tr '\0' q >long
printf 'import sys\nopen(sys.argv[2], "w").write(sys.argv[1])\n' >echo.py
both caisson candidate echo.py -o @long -q
is 'candidate: the longest objective arrives' "$(printf %s "$out" | sha256sum)" "$(sha256sum <long)"
printf q >>long
both caisson candidate echo.py -o @long -q
is 'candidate: one byte more is refused' "$err" 'caisson: Objective too long: 131072 bytes (limit 131071)'

# ---- arena ----
both caisson arena -c a=good.py -c b=bad.py 'my objective' --report r.html --report r.md
is 'arena: exit status with a winner' "$status" 0
like 'arena: banner' "$out" "$(printf '=%.0s' {1..60})
CAISSON ARENA
$(printf '=%.0s' {1..60})
Objective: my objective
Candidates: 2
Execution: LOCAL

PHASE: Running Candidates
$(printf -- '-%.0s' {1..40})
*"
like 'arena: plain lines carry the name' "$out" '*\[a\] \[Run\] Executing...*'
like 'arena: table' "$out" "*PHASE: Scoring
$(printf -- '-%.0s' {1..40})
Candidate  Success  Quality  Speed  TOTAL *
a          PASS       100.0 *
b          FAIL         0.0 *"
like 'arena: winner and files' "$out" '*Winner: a (*Artifacts: artifacts/
Results: artifacts/results.json
Report: r.html
Report: r.md'
is 'arena: the artifact' "$(cat artifacts/a/output.md)" '# an artifact for my objective'
is 'arena: a directory for the loser too' "$(ls -A artifacts/b)" ''
is 'arena: results.json' "$(json 'd["winner_id"], d["execution_mode"], [s["success"] for s in d["scores"]]' <artifacts/results.json)" \
    "('a', 'local', [True, False])"
like 'arena: html' "$(head -c 15 r.html)" '<!doctype html>'
like 'arena: markdown' "$(cat r.md)" '# Arena report*Winner: a*'
is 'arena: no winner' "$(status caisson arena -c b=bad.py x)" 1
is 'arena: forge is another name' "$(status caisson forge -c a=good.py x)" 0
is 'arena: no candidates is misuse' "$(status caisson arena x)" 2
is 'arena: duplicate ids are misuse' "$(status caisson arena -c a=good.py -c a=bad.py x)" 2
is 'arena: bad weights are misuse' "$(status caisson arena -c a=good.py --weights 1,1,1 x)" 2
is 'arena: a bad check is misuse' "$(status caisson arena -c a=good.py --check 'regex:(' x)" 2
is 'arena: an unknown report is misuse' "$(status caisson arena -c a=good.py --report x.pdf x)" 2
echo '{"candidates": [{"id": "a", "skript": "good.py"}]}' >c.json
both caisson arena --candidates c.json
is 'arena: a bad candidates file is misuse' "$status" 2
like 'arena: and names the key' "$err" '*c.json: candidates\[0\].skript: unknown key*'
both caisson arena -c a=good.py --daytona
is 'arena: the fallback does not change the status' "$status" 0
like 'arena: the fallback says both lines' "$out" '*Execution: LOCAL
  (Daytona not configured, falling back to local)
*'
like 'arena: the default objective' "$out" "*Objective: Generate weekly 'AI Events in San Francisco' post for Discord*"
both caisson arena -c a=good.py x --json
is 'arena: json alone on stdout' "$(json 'd["winner_id"]' <<<"$out")" a
like 'arena: and the talk on stderr' "$err" '*CAISSON ARENA*Winner: a*'
both caisson arena -c a=good.py x -q --artifact-name discord_post.md --artifacts elsewhere/round_1 --trials 3 --seed 5
like 'arena: trials' "$out" '*Candidate  n  Success*a          3    100 %*seed 5*'
is 'arena: the name of the copy' "$(ls elsewhere/round_1/a)" discord_post.md
both caisson arena --candidates "$CSN_SOURCE/examples/arena/candidates.json" -q --artifacts ex
is 'arena: the examples have a winner' "$status" 0
like 'arena: gamma' "$out" '*Winner: Gamma (*'
both caisson arena --candidates "$CSN_SOURCE/examples/arena/polyglot.json" -q --artifacts ex
if command -v node >/dev/null; then is 'arena: other languages' "$(json '[s["disqualified"] for s in d["scores"]]' <ex/results.json)" '[False, False, False]'
else skip 'arena: other languages' 'no node'; fi

# ---- interrupted ----
for signal in INT TERM; do
    env --default-signal=INT caisson arena -c s1=sleeper.sh -c s2=sleeper.sh -c s3=sleeper.sh x --artifacts int >int.out 2>&1 &
    pid=$!
    until_true 20 grep -q 'Executing' int.out
    kill -$signal $pid
    wait $pid
    rc=$?
    is "SIG$signal: exit status" "$rc" $((128 + $(kill -l $signal)))
    is "SIG$signal: everybody is marked" "$(json 'set(c["error_message"] for c in d["candidates"])' <int/results.json)" "{'Cancelled'}"
    is "SIG$signal: nothing is left" "$(find "$CAISSON_STATE/boxes" -mindepth 1 | wc -l)" 0
done

# ---- the live display ----
if command -v tmux >/dev/null; then
    t="tmux -S $work/tmux"
    $t -f /dev/null new-session -d -x 80 -y 12 "cd $work; PATH=$PATH CAISSON_STATE=$CAISSON_STATE caisson arena -c one=sleeper.sh -c two=good.py -c three=sleeper.sh x; echo status \$?; sleep 60"
    screen() { $t capture-pane -p 2>/dev/null | grep -q -- "$1"; }
    if until_true 20 screen 'one .* running .* started'; then ok 'live: a line for each with its last words'; else not_ok 'live: a line for each' "$($t capture-pane -p)"; fi
    like 'live: the title counts' "$($t capture-pane -p | head -1)" ' arena · local · * of 3 done*'
    $t resize-window -x 50 -y 5
    if until_true 10 screen 'more'; then ok 'live: a small window shows what runs'; else not_ok 'live: small window' "$($t capture-pane -p)"; fi
    $t resize-window -x 100 -y 30
    if until_true 10 screen 'three .* running'; then ok 'live: correct after resize'; else not_ok 'live: resize' "$($t capture-pane -p)"; fi
    is 'live: each candidate once' "$($t capture-pane -p | grep -c running)" 3
    $t send-keys C-c
    if until_true 20 screen 'status 130'; then ok 'live: restored after Ctrl-C'; else not_ok 'live: Ctrl-C' "$($t capture-pane -p)"; fi
    is 'live: the cursor is back' "$($t display-message -p '#{cursor_flag} #{alternate_on}')" '1 0'
    $t kill-server
else
    skip 'live display' 'no tmux'
fi
NO_COLOR=1 script -qec 'caisson arena -c a=good.py x' /dev/null >color.out </dev/null 2>&1
case $(cat color.out) in *$'\033[3'[0-9]m* | *$'\033[1m'*) not_ok 'NO_COLOR: no colours' ;; *) ok 'NO_COLOR: no colours' ;; esac
plan
