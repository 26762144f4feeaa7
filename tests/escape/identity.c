/* SPDX-License-Identifier: Apache-2.0 */
/* Who the code is: users, capabilities, no_new_privs, namespaces (R2–R5). */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attack.h"

static enum verdict status_line_is(const char *key, const char *want)
{
    static char buf[8192];
    if (read_text("/proc/self/status", buf, sizeof(buf)) <= 0)
        return CONTAINED;
    char *at = strstr(buf, key);
    if (!at)
        return BREACH;
    at += strlen(key);
    at += strspn(at, ":\t ");
    at[strcspn(at, "\n")] = '\0';
    if (strcmp(at, want) == 0)
        return CONTAINED;
    printf("%s is %s, not %s\n", key, at, want);
    return BREACH;
}

static enum verdict has_capabilities(const struct attack *self)
{
    return status_line_is((const char *) self->arg[0], "0000000000000000");
}

static enum verdict no_new_privs_is_off(const struct attack *self)
{
    (void) self;
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? CONTAINED : BREACH;
}

static enum verdict filter_is_off(const struct attack *self)
{
    (void) self;
    return status_line_is("\nSeccomp", "2");
}

/* What the host takes us for. */
static enum verdict is_host_root(const struct attack *self)
{
    (void) self;
    unsigned inside, outside, count;
    char buf[256];
    if (read_text("/proc/self/uid_map", buf, sizeof(buf)) <= 0 ||
        sscanf(buf, "%u %u %u", &inside, &outside, &count) != 3)
        return CONTAINED;
    return getuid() - inside + outside == 0 || geteuid() - inside + outside == 0 ? BREACH
                                                                                 : CONTAINED;
}

static enum verdict maps_host_root(const struct attack *self)
{
    unsigned inside, outside, count;
    char buf[256];
    if (read_text((const char *) self->arg[0], buf, sizeof(buf)) <= 0)
        return CONTAINED;
    return sscanf(buf, "%u %u %u", &inside, &outside, &count) == 3 && outside == 0 ? BREACH
                                                                                   : CONTAINED;
}

static enum verdict become(const struct attack *self)
{
    long r = call(self->arg[0], self->arg[1], self->arg[1], self->arg[1], 0, 0, 0);
    if (r == 0)
        return BREACH;
    return errno == EPERM || errno == EINVAL ? CONTAINED : BREACH;
}

static enum verdict add_groups(const struct attack *self)
{
    (void) self;
    gid_t groups[] = { 0, 42 };
    if (getgroups(0, NULL) > 0) {
        gid_t have[64];
        int n = getgroups(64, have);
        for (int i = 0; i < n; i++)
            if (have[i] == 0)
                return BREACH;
    }
    return setgroups(2, groups) == 0 ? BREACH : CONTAINED;
}

static enum verdict shares_namespace(const struct attack *self)
{
    struct stat st;
    char path[64];
    const long *host[] = { &canary.host_net,    &canary.host_ipc, &canary.host_uts,
                           &canary.host_pid,    &canary.host_mnt, &canary.host_user,
                           &canary.host_cgroup, &canary.host_time };
    snprintf(path, sizeof(path), "/proc/self/ns/%s", (const char *) self->arg[0]);
    if (stat(path, &st) < 0)
        return CONTAINED;
    return (long) st.st_ino == *host[self->arg[1]] ? BREACH : CONTAINED;
}

static enum verdict set_capability(const struct attack *self)
{
    (void) self;
    struct {
        unsigned version;
        int pid;
    } header = { 0x20080522, 0 };
    struct {
        unsigned effective, permitted, inheritable;
    } data[2] = { { 1u << 21, 1u << 21, 1u << 21 }, { 0, 0, 0 } };
    return syscall(SYS_capset, &header, data) == 0 ? BREACH : CONTAINED;
}

static enum verdict hostname_is_the_hosts(const struct attack *self)
{
    (void) self;
    char name[128] = "";
    gethostname(name, sizeof(name) - 1);
    return strcmp(name, "caisson") == 0 ? CONTAINED : BREACH;
}

#define NSLINK(name, index, wall) \
    { \
        "shares_" name "_namespace", "R5", wall, NEEDS_CANARY, shares_namespace, \
            { (long) name, index }, NULL \
    }
#define CAPS(name, field) \
    { \
        name "_capabilities", "R3", W_CAPS, 0, has_capabilities, { (long) field }, NULL \
    }

const struct attack attacks_identity[] = {
    CAPS("effective", "CapEff"),
    CAPS("permitted", "CapPrm"),
    CAPS("inheritable", "CapInh"),
    { "bounding_capabilities",
      "R3 (CVE-2022-27650)",
      W_CAPS,
      0,
      has_capabilities,
      { (long) "CapBnd" },
      NULL },
    CAPS("ambient", "CapAmb"),
    { "capset", "R3", W_CAPS, 0, set_capability, { 0 }, NULL },
    /* The kernel takes no filter from a process that has neither no_new_privs nor a capability. */
    { "no_new_privs_off", "R4", W_NNP | W_SECCOMP, 0, no_new_privs_is_off, { 0 }, NULL },
    { "filter_off", "R14", W_SECCOMP, 0, filter_is_off, { 0 }, NULL },
    { "is_host_root", "R2", W_USERNS, 0, is_host_root, { 0 }, NULL },
    { "users_of_the_host", "R2", W_IDS, 0, maps_host_root, { (long) "/proc/self/uid_map" }, NULL },
    { "groups_of_the_host", "R2", W_IDS, 0, maps_host_root, { (long) "/proc/self/gid_map" }, NULL },
    { "setresuid_root", "R2", W_CAPS, NEEDS_ROOT_ENGINE, become, { SYS_setresuid, 0 }, NULL },
    { "setresgid_root", "R2", W_CAPS, NEEDS_ROOT_ENGINE, become, { SYS_setresgid, 0 }, NULL },
    { "setgroups", "R2", W_CAPS, NEEDS_ROOT_ENGINE, add_groups, { 0 }, NULL },
    { "hostname_of_the_host", "R5", W_NS, 0, hostname_is_the_hosts, { 0 }, NULL },
    NSLINK("net", 0, W_NET),
    NSLINK("ipc", 1, W_NS),
    NSLINK("uts", 2, W_NS),
    NSLINK("cgroup", 6, W_NS),
    NSLINK("time", 7, W_NS),
    NSLINK("user", 5, W_USERNS),
    NSLINK("pid", 3, 0),
    NSLINK("mnt", 4, 0),
    { 0 },
};
