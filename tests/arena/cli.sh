#!/bin/bash
# caisson arena and caisson candidate as people use them.
# shellcheck disable=SC1091,SC2154,SC2016 # lib.sh; the quotes are for the shell inside
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
printf '\xef\xbb\xbfimport sys\nopen(sys.argv[2], "w").write("marked")\n' > marked.py
is 'candidate: a script with a byte order mark' "$(caisson candidate marked.py -o x -q)" marked
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
mkdir -p no-helper
CAISSON_LIBEXEC=$work/no-helper both caisson candidate good.py -o x -d
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
like 'arena: plain lines stand below their candidate' "$out" '*
\[a\]
  \[Sandbox\] Connecting...
  \[Sandbox\] Creating sandbox...
  \[Sandbox\] Sandbox ready: ????????...
  \[Sandbox\] Script uploaded
  \[Run\] Executing...
  \[Run\] Exit code: 0
  \[Done\] Artifact retrieved
  \[Sandbox\] Cleaning up...
*'
like 'arena: … the other one, too' "$out" '*
\[b\]
  \[Sandbox\] Connecting...
*
  \[Run\] Exit code: 3
*'
is 'arena: each has one block' "$(grep -c '^\[' <<<"$out")" 2
like 'arena: table' "$out" "*PHASE: Scoring
$(printf -- '-%.0s' {1..40})
Candidate  Success  Verdict       Quality  Speed   TOTAL *
a          PASS     qualified       100.0 *
b          FAIL     disqualified      0.0 *(*)*"
like 'arena: winner and files' "$out" '*Winner: a (score *Artifacts: artifacts/
Results: artifacts/results.json
Report: r.html
Report: r.md'
is 'arena: the artifact' "$(cat artifacts/a/output.md)" '# an artifact for my objective'
is 'arena: a directory for the loser too' "$(ls -A artifacts/b)" ''
is 'arena: results.json' "$(json 'd["winner_id"], d["execution_mode"], [s["success"] for s in d["scores"]]' <artifacts/results.json)" \
    "('a', 'local', [True, False])"
like 'arena: html' "$(head -c 15 r.html)" '<!doctype html>'
like 'arena: markdown' "$(cat r.md)" '# Arena report*Winner: a*'
is 'arena: results.json tells success, verdict and score apart' \
    "$(json '[(s["success"], s["verdict"], s["total_score"] > 90) for s in d["scores"]], [r["verdict"] for r in d["runs"]]' <artifacts/results.json)" \
    "([(True, 'qualified', True), (False, 'disqualified', False)], ['qualified', 'disqualified'])"
is 'arena: … and has the scripts' "$(json 'd["candidates"][1]["script"]' <artifacts/results.json)" "$(cat bad.py)"
like 'arena: the scripts are in the page' "$(cat r.html)" '*&quot;hello&quot;, sys.argv\[1\]*import sys; sys.exit(3)*'
like 'arena: … and in the Markdown' "$(cat r.md)" '*Script:*import sys; sys.exit(3)*'
cat >short.py <<'END'
import sys
open(sys.argv[2], "w").write("short")
END
both caisson arena -c s=short.py -c a=good.py x --artifacts three -q
like 'arena: a success can be disqualified' "$out" '*s          PASS     disqualified      0.0 *(*)*'
is 'arena: no winner' "$(status caisson arena -c b=bad.py x)" 1
is 'arena: forge is another name' "$(status caisson forge -c a=good.py x)" 0
is 'arena: no candidates is misuse' "$(status caisson arena x)" 2
is 'arena: duplicate ids are misuse' "$(status caisson arena -c a=good.py -c a=bad.py x)" 2
for weights in 1,1,1 2,-1,0 nan,0.5,0.5 inf,0,0 0,0,0 0.2,0.6 0.2,0.6,0.2,0 0.2,0.6,x ''; do
    both caisson arena -c a=good.py --weights "$weights" x --artifacts weighed
    is "arena: weights '$weights' are misuse, and nothing ran" "$status|$out|$([ -e weighed ] || echo 1)" '2||1'
    like "arena: weights '$weights' are named" "$err" "caisson: arena: --weights '$weights': *"
done
for weights in '[1, 1, 1]' '[0, 0, 0]' '["a", 0.5, 0.5]' '[2, -1, 0]' '[1]'; do
    echo '{"weights": '"$weights"', "candidates": [{"id": "a", "script": "good.py"}]}' >w.json
    both caisson arena --candidates w.json x
    is "arena: weights $weights of a file, too" "$status|$out" '2|'
    like "arena: weights $weights of a file are named" "$err" '*w.json: weights: *'
done
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

# ---- terminals that can do little ----
# at_terminal COLUMNS COMMAND…: what it writes to a terminal of that width
at_terminal()
{
    python3 -c '
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
try:
    while data := os.read(fd, 65536):
        sys.stdout.buffer.write(data)
except OSError:
    pass
os.waitpid(pid, 0)' "$@" </dev/null
}
printf '#!/bin/sh\nsleep 0.4\necho a text that is long enough >"$2"\n' >slow.sh
chmod +x slow.sh
TERM=dumb at_terminal 80 caisson arena -c a=slow.sh x >dumb.out
is 'TERM=dumb: no escape sequences' "$(grep -c $'\033' dumb.out)" 0
like 'TERM=dumb: plain lines instead' "$(tr -d '\r' <dumb.out)" '*\[a\]
  \[Sandbox\] *Winner: a*'
TERM=xterm at_terminal 40 sh -c 'stty cols 40; caisson arena -c a-candidate-with-a-long-name=slow.sh -c b=slow.sh x --trials 2' >narrow.out
lines_of() { sed -e $'s/\033\\[[0-9;?]*[a-zA-Z]//g' -e 's/\r/\n/g' "$1"; }
is '40 columns: no line of the display and the scores is wider' \
    "$(lines_of narrow.out | LC_ALL=C.UTF-8 grep -E '^ [^ ] |arena|^Candidate|PASS|FAIL' | grep -v Median | python3 -c 'import sys; print(*[l for l in sys.stdin if len(l.rstrip("\n")) > 40])')" ""
like '40 columns: each has its row' "$(lines_of narrow.out)" '* b *running*'
LC_ALL=C TERM=xterm at_terminal 80 caisson arena -c a=slow.sh -c bad=bad.py x >ascii.out
is 'LANG=C: ASCII only' "$(LC_ALL=C grep -c '[^ -~[:space:]'$'\033'']' ascii.out)" 0
like 'LANG=C: marks are there' "$(lines_of ascii.out)" '*+ a *x bad *'
like 'live: what stays on the screen tells success, verdict and score' "$(lines_of ascii.out)" \
    '*+ a *succeeded *s  qualified, score 9*x bad *failed *s  disqualified: exit code 3*'
is 'LANG=C: receipts, too' "$(LC_ALL=C caisson run --receipt -- true 2>&1 | LC_ALL=C grep -c '[^ -~]')" 0

# ---- broken off ----
printf 'import sys\nopen(sys.argv[2], "w").write("artifact")\n' >quick.py
env --default-signal=INT caisson arena -c q=quick.py -c s=sleeper.sh x --artifacts int --report int.md --report int.html >int.out 2>&1 &
pid=$!
until_true 20 grep -q '^\[s\]' int.out # whose lines come when those of q are whole
until_true 20 grep -q 'Executing' <(sed '1,/^\[s\]/d' int.out)
kill -INT $pid
wait $pid
is 'broken off: 130' "$?" 130
is 'broken off: no winner, though one was done' "$(json 'd["winner_id"], d["cancelled"], d["candidates"][0]["success"]' <int/results.json)" "(None, True, True)"
like 'broken off: it says so' "$(cat int.out)" '*No winner: the run was cancelled*'
like 'broken off: in the reports, too' "$(cat int.md int.html)" '*No winner: the run was cancelled*No winner:*the run was cancelled*'

# ---- where no sandbox can be made ----
cat >without_namespaces <<'EOF'
#!/usr/bin/env python3
"""without_namespaces COMMAND…: unshare() is refused, as in a container"""
import ctypes, errno, os, struct, sys
libc = ctypes.CDLL(None)
nr = {"x86_64": 272, "aarch64": 97}[os.uname().machine]
code = [(0x20, 0, 0, 0), (0x15, 0, 1, nr), (0x06, 0, 0, 0x50000 | errno.EPERM), (0x06, 0, 0, 0x7fff0000)]
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
class Prog(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("code", ctypes.c_void_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Prog(len(code), ctypes.cast(text, ctypes.c_void_p))), 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
EOF
chmod +x without_namespaces
wrong='*check the key*|*other backend*|*Failed to create Daytona*|*FAIL*'
shopt -s extglob
both ./without_namespaces caisson arena -c a=good.py -c b=good.py x --artifacts none --report none.md --report none.html
is 'no sandbox: status 3' "$status" 3
is 'no sandbox: said once, with the cause' "$(grep -v '^\[' <<<"$err")" 'caisson: no sandbox could be made here: make namespaces: Operation not permitted
  cause: kernel: Operation not permitted: the call unshare is refused: a system call filter (seccomp) is over this process, as in a container
  try: caisson doctor'
like 'no sandbox: it is not said of the candidates' "$out" '*No winner: no sandbox could be made here*'
for file in none.md none.html; do
    like "no sandbox: $file" "$(cat $file)" '*no sandbox could be made here*make namespaces: Operation not permitted*caisson doctor*'
    like "no sandbox: $file has no table of failures" "$(cat $file)" "!($wrong)"
done
like 'no sandbox: the talk has none either' "$out$err" "!($wrong)"
is 'no sandbox: results.json' "$(json 'd["no_sandbox"], d["winner_id"], d["candidates"][0]["error_message"]' <none/results.json)" \
    "('make namespaces: Operation not permitted', None, 'Could not create sandbox: make namespaces: Operation not permitted')"
is 'no sandbox: else there is none' "$(json 'd["no_sandbox"]' <int/results.json)" None
both caisson arena -c b=bad.py x --artifacts none
is 'no candidate passed: status 1' "$status" 1
both ./without_namespaces caisson candidate good.py -o x -q
is 'candidate without a sandbox' "$status $err" '3 caisson: Could not create sandbox: make namespaces: Operation not permitted'
both ./without_namespaces caisson candidate good.py -o x
like 'candidate without a sandbox: what to try' "$err" '*  try: caisson doctor'
printf '```sh\ntrue\n```\n' >b.md
both ./without_namespaces caisson blocks b.md
is 'blocks without a sandbox' "$status $err" '1 caisson: no sandbox could be made here: make namespaces: Operation not permitted
  cause: kernel: Operation not permitted: the call unshare is refused: a system call filter (seccomp) is over this process, as in a container
  try: caisson doctor'
is 'blocks: callers who match on words find them' "$(./without_namespaces caisson blocks --json b.md 2>/dev/null | json 'd["error"]["message"]')" \
    'Failed to create Daytona sandbox: make namespaces: Operation not permitted'
plan
