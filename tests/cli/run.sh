#!/bin/bash
# caisson run: what it runs, what it passes on, how it ends, and that nothing stays.
# shellcheck disable=SC1091,SC2154,SC2016,SC2015,SC2035,SC2094 # lib.sh; the quotes are for the shell inside
. "${CSN_SOURCE:?}/tests/cli/lib.sh"
need_sandboxes

# ---- exit statuses
is "exit 0" "$(status caisson run -- true)" 0
is "the command's own status" "$(status caisson run -- sh -c 'exit 42')" 42
is "status 2 is the command's" "$(status caisson run -- sh -c 'exit 2')" 2
is "a signal: 128+N" "$(status caisson run -- sh -c 'kill -USR1 $$')" 138
both caisson run -- no-such-program
is "not found: 127" "$status" 127
like "… is said, with its name" "$err" "caisson: *no-such-program*"
is "not executable: 126" "$(status caisson run -- /etc/passwd)" 126
both caisson run --timeout 300ms -- sleep 60
is "the time limit: 124" "$status" 124
like "… is said" "$err" "caisson: killed: the time limit of 300 ms was reached (--timeout)*"
both caisson run -m 64m -- python3 -c 'x = bytearray(1 << 30)'
is "the memory limit: 137" "$status" 137
like "… is said" "$err" *"caisson: killed: the memory limit of 64 MiB was reached (--memory)"*
both caisson run --quiet --timeout 300ms -- sleep 60
is "--quiet says nothing" "$err" ""

# ---- root inside
echo 'import os; print(os.getuid(), os.getcwd())' > who.py
if caisson run -u root -- true 2>/dev/null; then
    is "a file as root inside" "$(caisson run -u root who.py)" "0 /root"
else
    both caisson run -u root who.py
    like "root inside wants ids" "$err" "caisson: root inside needs *"
fi

# ---- output
both caisson run -- sh -c 'echo out; echo err >&2'
is "stdout to stdout" "$out" out
is "stderr to stderr, and no receipt in a pipe" "$err" err
both caisson run --receipt -- true
like "--receipt" "$err" "caisson: exit 0 · * · all walls · *"
head -c 300000 /dev/urandom > noise
caisson run -i -- cat < noise | cmp - noise && ok "bytes pass exactly" || not_ok "bytes pass exactly"
is "live: the first line comes before the end" \
    "$(caisson run -- sh -c 'echo first; sleep 30' 2>/dev/null | head -n 1)" first
both caisson run --output-limit 1k -- sh -c 'yes | head -c 100000'
is "output beyond the limit is cut" "${#out}" 1023
like "… and said so" "$err" "caisson: output cut: * were produced, 1 KiB of each stream are kept (--output-limit)"
is "… and is no failure" "$status" 0
is "unlimited" "$(caisson run --output-limit unlimited -- head -c 12000000 /dev/zero | wc -c)" 12000000
is "--merge keeps the order" "$(caisson run --merge -- sh -c 'echo 1; echo 2 >&2; echo 3; echo 4 >&2' 2>/dev/null | tr '\n' ' ')" "1 2 3 4 "
is "a reader that leaves ends it" "$(caisson run -- yes 2>/dev/null | head -n 1)" y

# ---- JSON
both caisson run --json -- sh -c 'printf "a\nb"; sleep 0.1; printf E >&2; exit 7'
is "--json: exits with the command's status" "$status" 7
is "--json: the streams" "$(printf '%s' "$out" | json 'd["stdout"], d["stderr"], d["output"], d["status"]')" \
    "('a\\nb', 'E', 'a\\nbE', 7)"
is "--json: the receipt" "$(printf '%s' "$out" | json 'd["receipt"]["ended"], d["receipt"]["exit_code"]')" "('exit', 7)"
is "--json: nothing on stderr" "$err" ""
is "--json: bytes that are not UTF-8" \
    "$(caisson run --json -- printf 'a\377\000b' | json 'ascii(d["stdout"]), d["stdout_base64"]')" "(\"'a\\\\ufffd\\\\x00b'\", 'Yf8AYg==')"
is "--json: a document is not faked by output" \
    "$(caisson run --json -- printf '"}\n{"status": 9}' | json 'd["status"], len(d["stdout"])')" "(0, 16)"
is "--json: timeout" "$(caisson run --json -q --timeout 300ms -- sleep 9 | json 'd["receipt"]["ended"], d["status"]')" "('timeout', 124)"
is "--json: not found is a document" "$(caisson run --json -- no-such 2>/dev/null | json 'd["error"]["code"]')" not_found
is "--json: oom" "$(caisson run --json -q -m 64m -- python3 -c 'x = bytearray(1 << 30)' | json 'd["receipt"]["ended"]')" oom

# ---- files
printf 'import sys\nprint("py", sys.argv)\n' > a.py
is ".py" "$(caisson run a.py 1 '2 3' --json)" "py ['/home/daytona/a.py', '1', '2 3', '--json']"
echo 'echo "sh $0 $# $1"' > a.sh
is ".sh" "$(caisson run a.sh 'x  y')" "sh /home/daytona/a.sh 1 x  y"
printf '#!/bin/sh\necho "hash-bang $1"\n' > bang
is "#!, though not executable here" "$(caisson run bang z)" "hash-bang z"
mkdir sub && cp a.sh 'sub/b c.sh'
is "a path with a space" "$(caisson run 'sub/b c.sh')" "sh /home/daytona/b c.sh 0 "
cp a.sh ./-n.sh
is "a name with a dash" "$(caisson run ./-n.sh)" "sh /home/daytona/-n.sh 0 "
if command -v node >/dev/null; then
    echo 'console.log("js", process.argv.slice(2))' > a.js
    is ".js" "$(caisson run a.js q)" "js [ 'q' ]"
else
    skip ".js" "node is missing"
fi
if command -v node >/dev/null && command -v esbuild >/dev/null; then
    printf 'import fs from "fs";\nenum E { A = 3 }\nconst x: number = E.A;\nconsole.log("ts", x, typeof fs.readFileSync, process.argv[2]);\n' > a.ts
    is ".ts" "$(caisson run a.ts w)" "ts 3 function w"
    echo 'const = ;' > bad.ts
    is ".ts that doesn't compile" "$(status caisson run bad.ts)" 1
else
    skip ".ts" "node or esbuild is missing"
fi
if command -v cc >/dev/null; then
    printf '#include <stdio.h>\nint main(int n, char **v) { printf("c %%d %%s\\n", n, v[1]); return 5; }\n' > a.c
    both caisson run a.c arg
    is ".c" "$status $out" "5 c 2 arg"
    echo 'int main(void) { return }' > bad.c
    both caisson run bad.c
    like ".c that doesn't compile" "$status $err" "1 *error*"
else
    skip ".c" "cc is missing"
fi

# ---- surroundings
is "home" "$(caisson run -- sh -c 'echo $HOME; pwd; whoami; id -u' | tr '\n' ' ')" "/home/daytona /home/daytona daytona 1000 "
is "--cwd" "$(caisson run -w /tmp -- pwd)" /tmp
is "--env" "$(FROM=here caisson run -e A=b -e FROM -e UNSET_HERE -- sh -c 'echo $A $FROM ${UNSET_HERE-none}')" "b here none"
printf '# comment\n\nX=1\nY=a b=c\n' > env.list
is "--env-file" "$(caisson run --env-file env.list -- sh -c 'echo "$X|$Y"')" "1|a b=c"
is "our environment stays out" "$(CANARY=secret caisson run -- env | grep -c CANARY)" 0
is "no input by default" "$(echo text | caisson run -- cat)" ""
is "-i" "$(echo text | caisson run -i -- cat)" text
is "--stdin -" "$(echo text | caisson run --stdin - -- cat)" text
is "--stdin without a value" "$(echo text | caisson run --stdin -- cat)" text
is "--stdin FILE" "$(caisson run --stdin a.sh -- cat)" "$(cat a.sh)"
is "a while loop keeps its input" \
    "$(printf '1\n2\n3\n' | while read -r i; do caisson run -- echo "$i"; done | tr '\n' ' ')" "1 2 3 "

# ---- signals: the command is told, the sandbox is gone, the status says which
: > sig.out
caisson run --name sig -- sh -c 'trap "echo got TERM; exit 9" TERM; echo ready; while :; do sleep 0.1; done' > sig.out 2>&1 &
child=$!
until_true 10 grep -q ready sig.out
kill -TERM "$child"
wait "$child"
is "SIGTERM is passed on, the command may leave in its own way" "$? $(tail -n 1 sig.out)" "9 got TERM"
: > sig.out
caisson run --name sig -- sh -c 'trap "" INT TERM; echo ready; while :; do sleep 0.1; done' > sig.out 2>&1 &
child=$!
until_true 10 grep -q ready sig.out
kill -TERM "$child"
kill -TERM "$child"
wait "$child"
is "one that ignores it is killed" "$?" 137
is "nothing stays" "$(caisson ls -q)" ""

# ---- what stays when asked for
both caisson run --keep --name kept -- sh -c 'echo x > file'
like "--keep names the sandbox on stderr" "$err" "caisson: kept sandbox ????????????????????????????????"
is "… whose files are there" "$(caisson exec kept cat file)" x
caisson rm -q kept
box=$(caisson run -d -- sh -c 'echo bg; echo e >&2')
is "--detach prints the id" "${#box}" 32
is "… and leaves a log" "$(caisson logs -f "$box" 2>/dev/null)" bg
is "… with both streams" "$(caisson logs "$box" 2>&1 >/dev/null)" e
caisson rm -q "$box"
gone=$(caisson run -d --rm -- true)
is "--detach --rm goes by itself" "$(until_true 20 sh -c "! caisson ls -q | grep -q $gone" && echo gone)" gone
is "--label" "$(caisson run -l a=b --name lab --keep -q -- true; caisson ls --names -l a=b; caisson rm -q lab)" lab
is "a name in use" "$(caisson create one >/dev/null; caisson run -n one -- true >/dev/null 2>&1; echo $?; caisson rm -q one)" 125
# As under a program that is process 1 of a container and reaps nobody: what we started ends before we do.
is "no process is left to whoever adopts it" "$(python3 -c '
import ctypes, os, subprocess
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
for _ in range(5):
    subprocess.run(["caisson", "run", "-q", "--", "true"], check=True)
print(open(f"/proc/self/task/{os.getpid()}/children").read().split())')" "[]"
# A command is sent while its sandbox is being built. If that can't be built, this is why, whatever became of the command.
is "why no sandbox could be built comes first" "$(python3 -c '
import ctypes, errno, os, struct, sys
libc = ctypes.CDLL(None)
calls = {"x86_64": (272, 293), "aarch64": (97, 59)}[os.uname().machine]  # unshare, pipe2
code = [(0x20, 0, 0, 0)]
for nr, e in zip(calls, (errno.ENOSPC, errno.EACCES)):
    code += [(0x15, 0, 1, nr), (0x06, 0, 0, 0x50000 | e)]
code.append((0x06, 0, 0, 0x7fff0000))
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
class Prog(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("code", ctypes.c_void_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Prog(len(code), ctypes.cast(text, ctypes.c_void_p))), 0, 0) == 0
os.execvp("caisson", ["caisson", "run", "--", "true"])' 2>&1 </dev/null | head -n 1)" \
    "caisson: make namespaces: a limit on namespaces is reached"
plan
