/* SPDX-License-Identifier: Apache-2.0 */
#include "cause.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "lines.h"

#ifndef CSN_APPARMOR_PROFILE
#define CSN_APPARMOR_PROFILE "/etc/apparmor.d/caisson"
#endif

const char *csn_sudo(void)
{
    return geteuid() == 0 ? "" : "sudo ";
}

bool csn_is_filtered(void)
{
    csn_lines lines;
    csn_str line;
    bool found = false;

    if (csn_lines_open(&lines, AT_FDCWD, "/proc/self/status", 1 << 16) < 0)
        return false;
    while (!found && csn_lines_next(&lines, &line) > 0)
        found = csn_str_is(line, "Seccomp:\t2");
    csn_lines_done(&lines);
    return found;
}

static bool sysctl_is(const char *path, char value)
{
    char text[8] = "";

    return csn_small_read(AT_FDCWD, path, text, sizeof(text)) > 0 && text[0] == value &&
           (text[1] == '\n' || text[1] == '\0');
}

/* The first mount below /proc, which keeps the kernel from giving a user namespace a whole one. */
static bool find_proc_mask(char *out, size_t size)
{
    csn_lines lines;
    csn_str line, at = csn_str_of("");
    bool found = false;

    if (csn_lines_open(&lines, AT_FDCWD, "/proc/self/mountinfo", 1 << 20) < 0)
        return false;
    while (!found && csn_lines_next(&lines, &line) > 0) {
        for (int i = 0; i < 5; i++)
            at = csn_lines_field(&line, ' ');
        found = at.len > 6 && memcmp(at.data, "/proc/", 6) == 0;
        if (found)
            (void) snprintf(out, size, "%.*s", (int) at.len, at.data);
    }
    csn_lines_done(&lines);
    return found;
}

static bool is_forbidden(const char *kind)
{
    char path[64];
    uint64_t limit = 1;

    (void) snprintf(path, sizeof(path), "/proc/sys/user/max_%s_namespaces", kind); /* fits */
    return csn_small_read_u64(AT_FDCWD, path, &limit) == 0 && limit == 0;
}

/* A limit of a user namespace above ours can't be seen: then the number here is not 0. */
static bool explain_limit(const char *kind, csn_cause *c)
{
    static const char *const kinds[] = {
        "user", "pid", "net", "mnt", "ipc", "uts", "cgroup", "time"
    };

    for (size_t i = 0; !kind && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (is_forbidden(kinds[i]))
            kind = kinds[i];
    kind = kind ? kind : "user";
    (void) snprintf(c->why, sizeof(c->why), "user.max_%s_namespaces is %s", kind,
                    is_forbidden(kind) ? "0" : "used up");
    (void) snprintf(c->remedy, sizeof(c->remedy), "%ssysctl -w user.max_%s_namespaces=10000",
                    csn_sudo(), kind);
    return true;
}

static bool explain_sysctl(csn_cause *c)
{
    (void) snprintf(c->why, sizeof(c->why), "kernel.unprivileged_userns_clone is 0");
    (void) snprintf(c->remedy, sizeof(c->remedy), "%ssysctl -w kernel.unprivileged_userns_clone=1",
                    csn_sudo());
    return true;
}

static bool explain_apparmor(csn_cause *c)
{
    (void) snprintf(c->why, sizeof(c->why),
                    "AppArmor takes the rights in it away "
                    "(kernel.apparmor_restrict_unprivileged_userns is 1)");
    (void) snprintf(c->remedy, sizeof(c->remedy),
                    "%sapparmor_parser -r %s (meson install puts it there), or %ssysctl -w "
                    "kernel.apparmor_restrict_unprivileged_userns=0",
                    csn_sudo(), CSN_APPARMOR_PROFILE, csn_sudo());
    return true;
}

/* What a container can be given so that a sandbox starts in it. A weaker kind of wall for containers that can't be given
 * it would be named here. */
static void say_container(csn_cause *c)
{
    (void) snprintf(
        c->remedy, sizeof(c->remedy),
        "start the container as a user, without its filter and with all of /proc: docker run "
        "--user 1000 --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
        "--security-opt systempaths=unconfined (docs/machines.md has podman, Kubernetes, LXC)");
}

static bool explain_filter(csn_cause *c)
{
    (void) snprintf(c->why, sizeof(c->why),
                    "a system call filter (seccomp) is over this process, as in a container");
    say_container(c);
    return true;
}

static bool explain_proc(const char *mask, csn_cause *c)
{
    (void) snprintf(c->why, sizeof(c->why), "'%.64s' is mounted over, as in a container", mask);
    say_container(c);
    return true;
}

static bool explain_landlock(int error, csn_cause *c)
{
    if (error == EPERM && csn_is_filtered())
        (void) explain_filter(c);
    else
        (void) snprintf(c->why, sizeof(c->why), "%s",
                        error == EOPNOTSUPP ? "it is built in, but not in the kernel's lsm= list"
                                            : "this kernel has no Landlock, or a filter hides it");
    (void) snprintf(c->remedy, sizeof(c->remedy),
                    "%s--optional landlock,keeper starts sandboxes without it",
                    error == EOPNOTSUPP ? "boot with landlock in lsm=, or " : "");
    return true;
}

static bool explain_userns(csn_cause *c)
{
    if (geteuid() != 0 && sysctl_is("/proc/sys/kernel/unprivileged_userns_clone", '0'))
        return explain_sysctl(c);
    if (csn_is_filtered())
        return explain_filter(c);
    if (geteuid() != 0 && sysctl_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", '1'))
        return explain_apparmor(c);
    return false;
}

/* A user namespace was made: what takes its rights away comes before what refuses calls. */
static bool explain_rights(csn_cause *c)
{
    if (geteuid() != 0 && sysctl_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", '1'))
        return explain_apparmor(c);
    return csn_is_filtered() && explain_filter(c);
}

static bool explain_namespace(int error, const char *kind, csn_cause *c)
{
    if (error == EINVAL) {
        (void) snprintf(c->why, sizeof(c->why), "this kernel has none");
        (void) snprintf(c->remedy, sizeof(c->remedy), "a kernel that has '%s' in /proc/self/ns",
                        kind);
        return true;
    }
    return explain_userns(c);
}

bool csn_cause_find(csn_try what, int error, const char *kind, csn_cause *ret_cause)
{
    char mask[64] = "";

    *ret_cause = (csn_cause){ .why = "" };
    if (error == EUSERS)
        return explain_limit(kind, ret_cause);
    switch (what) {
    case CSN_TRY_LANDLOCK:
        return explain_landlock(error, ret_cause);
    case CSN_TRY_USERNS:
        return explain_userns(ret_cause);
    case CSN_TRY_NAMESPACE:
        return explain_namespace(error, kind, ret_cause);
    case CSN_TRY_RIGHTS:
        return explain_rights(ret_cause);
    case CSN_TRY_PROC:
        return error == EPERM && find_proc_mask(mask, sizeof(mask)) ? explain_proc(mask, ret_cause)
                                                                    : explain_rights(ret_cause);
    case CSN_TRY_CALL:
    case CSN_TRY_OTHER:
    default:
        return (error == EPERM || error == ENOSYS) && csn_is_filtered() &&
               explain_filter(ret_cause);
    }
}
