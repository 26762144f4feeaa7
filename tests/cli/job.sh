#!/bin/bash
# Inside somebody else's limits: a job's cgroups with less memory, processor time and processes than are asked for. Whatever
# happens, the job can be removed afterwards: nothing of ours stays in a group that we did not make.
# shellcheck disable=SC1091,SC2154,SC2016 # lib.sh; the quotes are for the shell inside
. "${CSN_SOURCE:?}/tests/cli/lib.sh"

kinds=(memory pids cpu)
job=csn-job-$$
groups=("${kinds[@]/#//sys/fs/cgroup/}")
groups=("${groups[@]/%//$job}")
if [ "$(id -u)" -ne 0 ]; then
    skip "a job's limits" "user: only root makes groups; as root both users are tried"
    plan
    exit
fi
for kind in "${kinds[@]}"; do
    if [ ! -e "/sys/fs/cgroup/$kind/cgroup.procs" ] || ! mkdir "/sys/fs/cgroup/$kind/$job"; then
        skip "a job's limits" "kernel: no cgroup v1 for $kind here; for v2 see test_cgroup"
        plan
        exit
    fi
done
need_sandboxes

# What is below the job's groups.
left() { find "${groups[@]}" -mindepth 1 -type d 2>/dev/null; }
is_left_alone() { [ -z "$(left)" ]; }
is_dead() { ! left | sed 's|$|/cgroup.procs|' | xargs -r cat 2>/dev/null | grep -q .; }

clean()
{
    left | sort -r | while read -r dir; do rmdir "$dir"; done 2>/dev/null
    rmdir "${groups[@]}" 2>/dev/null
    rm -rf "$work/nobody"
    finish
}
trap clean EXIT

# in_job COMMAND…: as the user $who, in the job
in_job()
{
    (
        for kind in "${kinds[@]}"; do echo "$BASHPID" >"/sys/fs/cgroup/$kind/$job/cgroup.procs" || exit 99; done
        if [ "$who" = nobody ]; then
            exec setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups "$@"
        fi
        exec "$@"
    )
}

echo $((40 << 20)) >"/sys/fs/cgroup/memory/$job/memory.limit_in_bytes"
echo 50000 >"/sys/fs/cgroup/cpu/$job/cpu.cfs_quota_us"
echo 40 >"/sys/fs/cgroup/pids/$job/pids.max"
eater='x = bytearray(1 << 28)'
bomb='i=0; while [ $i -lt 80 ]; do sleep 9 & i=$((i+1)); done; wait'

try()
{
    both in_job caisson run -q --cpu 2 -- true
    is "$who: more processors than the job has are no error" "$status $err" "0 "
    both in_job caisson run --receipt --cpu 2 -- true
    like "$who: … and the receipt says so" "$err" "*· 0.5 of 2 cores (the job's limit) ·*"
    is "$who: … in JSON, too" "$(in_job caisson run --json -q --cpu 2 -- true |
        json '[d["receipt"]["limits"][k] for k in ("cpu_milli", "cpu_asked_milli")]')" "[500, 2000]"
    is "$who: fewer are as asked" "$(in_job caisson run --json -q --cpu 0.2 -- true |
        json '[d["receipt"]["limits"].get(k) for k in ("cpu_milli", "cpu_asked_milli")]')" "[200, None]"
    both in_job caisson run -m 512m -- python3 -c "$eater"
    like "$who: the job's memory is not ours" "$status $err" "137 *killed: the job's limit of 40 MiB was reached*"
    is "$who: … nor in JSON" "$(in_job caisson run --json -q -m 512m -- python3 -c "$eater" |
        json '[d["receipt"]["ended"], d["receipt"]["limits"]["job_memory_bytes"]]')" "['oom', 41943040]"
    both in_job caisson run -m 20m -- python3 -c "$eater"
    like "$who: ours is ours" "$status $err" "137 *killed: the memory limit of 20 MiB was reached (--memory)"
    both in_job caisson run --pids 200 -- sh -c "$bomb"
    like "$who: the job's processes are not ours" "$status $err" "137 *the job's limit of 40 processes was reached*"
    both in_job caisson run --pids 20 -- sh -c "$bomb"
    like "$who: ours are ours" "$status $err" "137 *killed: the limit of 20 processes was reached (--pids)"
    is "$who: nothing stays in the job's groups" "$(left)" ""

    in_job caisson create --ephemeral --ttl 1s short >/dev/null
    is "$who: a sandbox that stays is below the job" "$(left | grep -c /caisson/)" 3
    is "$who: one that ends by itself leaves nothing" "$(until_true 20 is_left_alone && echo gone)" gone

    in_job caisson create long >/dev/null
    keeper=$(in_job caisson inspect --json long | json 'd["keeper_pid"]')
    kill -KILL "$keeper"
    is "$who: a keeper that was killed leaves its groups" "$(left | grep -c /caisson/)" 3
    # … which the next command of the same user removes, wherever it runs, once all that was inside has died with it
    until_true 20 is_dead
    outside caisson ls -q >/dev/null
    is "$who: … until the next command, which need not be in the job" "$(until_true 20 is_left_alone && echo gone)" gone
    outside caisson rm -q long
    for _ in 1 2 3 4 5 6; do in_job caisson run -q -- true & done
    wait
    is "$who: six at once leave nothing" "$(left)" ""
}

outside()
{
    if [ "$who" = nobody ]; then
        setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups "$@"
    else
        "$@"
    fi
}

who=root
try
# Groups that were handed to an ordinary user.
chmod 755 "$work"
mkdir -m 700 "$work/nobody"
chown nobody "$work/nobody"
export CAISSON_STATE=$work/nobody/state HOME=$work/nobody
for kind in "${kinds[@]}"; do chown -R nobody "/sys/fs/cgroup/$kind/$job"; done
who=nobody
if outside caisson run -q -- true >/dev/null 2>&1; then
    try
    outside caisson rm --all -q >/dev/null 2>&1
else
    skip "groups handed to nobody" "user: $(outside caisson run -q -- true 2>&1 | head -n 1)"
fi
run=$(readlink "$CAISSON_STATE/run" 2>/dev/null) && rm -rf "$run"
export CAISSON_STATE=$work/state HOME=$work
until_true 10 rmdir "${groups[@]}" 2>/dev/null
is "the job can be removed" "$(ls -d "${groups[@]}" 2>/dev/null)" ""
plan
