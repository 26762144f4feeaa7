#!/bin/bash
# Sandboxes that stay: create, exec, ls, inspect, logs, stats, stop, start, fork, snapshot, rm, gc, doctor.
# shellcheck disable=SC1091,SC2154,SC2016,SC2015,SC2035,SC2094 # lib.sh; the quotes are for the shell inside
. "${CSN_SOURCE:?}/tests/cli/lib.sh"
need_sandboxes

id=$(caisson create --name alpha -l team=a -l tier=1 -m 256m --pids 64)
like "create prints the id" "$id" "$(printf '?%.0s' {1..32})"
is "the id is hex" "${id//[0-9a-f]/}" ""
is "exec by name" "$(caisson exec alpha echo hi)" hi
is "exec by id" "$(caisson exec "$id" echo hi)" hi
is "exec by prefix" "$(caisson exec "${id:0:8}" echo hi)" hi
is "exec --" "$(caisson exec alpha -- echo -n --hi)" "--hi"
is "exec: options between" "$(caisson exec alpha -w /tmp pwd)" /tmp
is "exec: the command keeps its options" "$(caisson exec alpha ls -d /)" /
is "exec: its status" "$(status caisson exec alpha sh -c 'exit 9')" 9
is "exec: not found" "$(status caisson exec alpha no-such)" 127
is "exec -e -w" "$(caisson exec -e K=v -w / alpha sh -c 'echo $K $PWD')" "v /"
is "exec -i" "$(echo in | caisson exec -i alpha cat)" in
is "exec --timeout" "$(status caisson exec --timeout 300ms alpha sleep 60)" 124
is "exec --json" "$(caisson exec --json alpha echo j | json 'd["stdout"], d["sandbox"]')" "('j\\n', '$id')"
both caisson exec nobody true
is "no such sandbox: 125" "$status" 125
is "… and where to look" "${err##*$'\n'}" "  try: caisson ls"
both caisson create --name alpha
is "a name taken: 125" "$status" 125
like "… is said" "$err" "caisson: *alpha*"

# ---- ls and inspect
caisson create beta -l team=b >/dev/null
both caisson ls
is "ls: a heading and two lines" "$(printf '%s\n' "$out" | wc -l)" 3
like "ls: aligned" "$out" "ID            NAME   IMAGE  STATE    AGE*"
is "ls -q" "$(caisson ls -q | grep -c "$id")" 1
is "ls --names" "$(caisson ls --names | sort | tr '\n' ' ')" "alpha beta "
is "ls --label key=value" "$(caisson ls --names -l team=b)" beta
is "ls --label key" "$(caisson ls --names -l tier)" alpha
is "ls: labels must all fit" "$(caisson ls --names -l team=b -l tier)" ""
is "ls --json" "$(caisson ls --json | json 'sorted((b["name"], b["state"], b["labels"]["team"]) for b in d)')" \
    "[('alpha', 'started', 'a'), ('beta', 'started', 'b')]"
is "inspect --json" "$(caisson inspect --json alpha | json 'd["id"], d["limits"]["memory_bytes"], d["limits"]["pids"]')" \
    "('$id', 268435456, 64)"
like "inspect" "$(caisson inspect alpha)" "id         $id*state      started*limits     memory 256 MiB, cpu 1, pids 64*"
is "inspect: walls" "$(caisson inspect --json alpha | json '"seccomp" in str(d["receipt"]["walls"])')" True

# ---- background commands
number=$(caisson exec -d alpha sh -c 'echo one; echo two >&2; cat /etc/hostname >/dev/null; echo three')
is "exec -d prints a number" "${number//[0-9]/}" ""
is "logs -f waits for the end" "$(caisson logs -f alpha 2>/dev/null | tr '\n' ' ')" "one three "
is "logs: the other stream" "$(caisson logs alpha "$number" 2>&1 >/dev/null)" two
is "logs --stream" "$(caisson logs --stream stderr alpha 2>&1)" two
is "logs --offset" "$(caisson logs --stream stdout --offset 4 alpha 2>/dev/null | tail -n 1)" three
is "inspect lists it" "$(caisson inspect --json alpha | json "[c['receipt']['ended'] for c in d['commands'] if c['number'] == $number]")" "['exit']"
is "logs of a command that isn't there" "$(status caisson logs alpha 9999)" 125
is "logs without any" "$(caisson logs beta 2>&1 | head -n 1)" "caisson: logs of sandbox 'beta': no background command"
caisson exec -d alpha sh -c 'echo begun; exec sleep 600' >/dev/null
: > follow.out
caisson logs -f alpha > follow.out 2>&1 &
follower=$!
until_true 10 grep -q begun follow.out && ok "logs -f shows what is there" || not_ok "logs -f shows what is there"
kill -INT "$follower" 2>/dev/null || kill "$follower"
kill -TERM "$follower" 2>/dev/null
wait "$follower"
like "logs -f leaves on a signal" "$?" "1[34]*"

# ---- stats
both caisson stats
like "stats in a pipe: one table" "$out" "ID            NAME   *CPU*MEMORY*PROCESSES*DISK*alpha*beta*"
is "stats --json" "$(caisson stats --json alpha | json 'd[0]["name"], d[0]["memory_limit_bytes"], d[0]["processes"] >= 1, len(d)')" \
    "('alpha', 268435456, True, 1)"

is "stats of nobody: 125" "$(status caisson stats alpha nobody)" 125

# ---- stop and start keep files
caisson exec alpha sh -c 'echo durable > note'
is "stop prints what it stopped" "$(caisson stop alpha)" alpha
is "stopped" "$(caisson inspect --json alpha | json 'd["state"], d["keeper_pid"]')" "('stopped', 0)"
is "exec in a stopped one: 125" "$(status caisson exec alpha true)" 125
is "… and the way on" "$(caisson exec alpha true 2>&1 | tail -n 1)" "  try: caisson start BOX"
is "stop again is fine" "$(status caisson stop alpha)" 0
is "start" "$(caisson start alpha)" alpha
is "files are there" "$(caisson exec alpha cat note)" durable
is "start again is fine" "$(status caisson start alpha)" 0

# ---- fork and snapshot
copy=$(caisson fork alpha gamma)
is "fork prints the id" "${#copy}" 32
is "the copy has the files" "$(caisson exec gamma cat note)" durable
caisson exec gamma sh -c 'echo changed > note'
is "the original keeps its own" "$(caisson exec alpha cat note)" durable
is "fork --json" "$(caisson fork --json --name delta alpha | json 'd["name"]')" delta
is "snapshot" "$(caisson snapshot alpha saved)" saved
is "run from it" "$(caisson run --image saved -- cat /home/daytona/note)" durable
is "a snapshot's name is taken once" "$(status caisson snapshot alpha saved)" 125
is "no such image" "$(caisson run --image nope -- true 2>&1 | tail -n 1)" "  try: caisson image ls"

# ---- end
is "rm several" "$(caisson rm gamma delta | tr '\n' ' ')" "gamma delta "
is "rm one that isn't there: 125, the others go" "$(status caisson rm nobody beta; caisson ls --names)" $'125\nalpha'
is "rm -f is content" "$(status caisson rm -f nobody)" 0
is "rm by prefix" "$(status caisson rm "${id:0:6}")" 0
is "none is left" "$(caisson ls -q)" ""
like "gc" "$(caisson gc)" "* removed"
is "gc again: nothing" "$(caisson gc)" "0 removed"
is "gc --json" "$(caisson gc --json | json 'd["removed"]')" 0

# ---- kill -9 of a client leaves nothing
: > doomed.out
caisson run --name doomed -- sh -c 'echo ready; sleep 600' > doomed.out 2>&1 &
client=$!
until_true 10 grep -q ready doomed.out
kill -KILL "$client"
wait "$client" 2>/dev/null
is "the sandbox of a killed client goes" "$(until_true 10 sh -c '[ -z "$(caisson ls -q)" ]' && echo gone)" gone

# ---- doctor
both caisson doctor
is "doctor" "$status" 0
like "… with marks" "$out" *"✓ seccomp"*"A sandbox with all walls starts here"*
is "doctor: what fails has a way on" "$(caisson doctor --json | json '[c["name"] for c in d["checks"] if not c["ok"] and not c["remedy"]]')" "[]"
is "doctor --json" "$(caisson doctor --json | json 'd["ok"], all(set(c) == {"name", "kind", "ok", "detail", "remedy", "errno", "follows"} for c in d["checks"])')" "(True, True)"
plan
