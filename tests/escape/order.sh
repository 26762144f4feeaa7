#!/bin/bash
# R1: walls go up in one order, whatever the table in src/keeper/inside.c looks like: one start is traced, and what the
# kernel was asked for is compared with the list. Most escapes of the past were mistakes of order.
# shellcheck disable=SC1091,SC2154 # lib.sh
. "${CSN_SOURCE:?}/tests/cli/lib.sh"
need_sandboxes

calls=close_range,setsid,unshare,mount,pivot_root,umount2,sethostname,prlimit64,landlock_restrict_self
calls+=,setresuid,capset,prctl,seccomp,execveat

# The child that pivots, from its birth to its exec of init; what is done more often counts where it is done last. Each
# process has a file of its own: in one for all, lines of those that run side by side are cut.
words()
{
    local child
    child=$(grep -l '^pivot_root(' trace.* | head -n 1)
    sed 's/^/ /' "$child" | awk '
        function say(word) { at[word] = ++step }
        over { next }
        / close_range\(/ && !at["setsid"] { say("no descriptors") }
        / setsid\(\)/ { say("setsid") }
        / mount\(NULL, "\/", NULL, MS_REC\|MS_PRIVATE/ { say("private") }
        / sethostname\(/ { say("hostname") }
        / unshare\(CLONE_NEWCGROUP\)/ { say("in its cgroups") }
        / pivot_root\(/ { say("pivot") }
        / umount2\(".", MNT_DETACH\)/ { say("detach") }
        / prlimit64\(0, RLIMIT_[A-Z]+, \{/ { say("rlimits") }
        / landlock_restrict_self\(/ { say("landlock") }
        / setresuid\(1000/ { say("user") }
        / prctl\(PR_CAPBSET_DROP/ { say("bounding set") }
        / capset\(.*effective=0, permitted=0, inheritable=0/ { say("capabilities") }
        / prctl\(PR_SET_NO_NEW_PRIVS/ { say("no_new_privs") }
        / close_range\(/ && at["no_new_privs"] { say("no descriptors again") }
        / seccomp\(SECCOMP_SET_MODE_FILTER/ { say("seccomp") }
        / execveat\(/ { say("init"); over = 1 }
        END { for (i = 1; i <= step; i++) for (w in at) if (at[w] == i) printf "%s%s", k++ ? ", " : "", w; print "" }'
}

if ! command -v strace >/dev/null || ! strace -ff -o trace -e trace="$calls" caisson run -q -- /bin/true; then
    skip "walls go up in their order" "build: nothing can be traced here"
else
    user=", user"
    [ "$(id -u)" -eq 0 ] || user="" # there is only one
    is "walls go up in their order" "$(words)" \
        "no descriptors, setsid, private, hostname, in its cgroups, pivot, detach, rlimits, landlock$user, bounding set, capabilities, no_new_privs, no descriptors again, seccomp, init"
fi
plan
