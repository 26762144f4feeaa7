/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "cause.h"
#include "cgroup.h"
#include "fsname.h"
#include "landlock.h"
#include "lines.h"
#include "missing.h"
#include "net.h"
#include "seccomp.h"
#include "tries.h"
#include "userns.h"
#include "way.h"

/* Who it hurts when it isn't there. */
enum weight {
    WALL,     /* FAILED: no sandbox */
    LIMIT,    /* LIMITED: sandboxes with less */
    OPTIONAL, /* MISSING: one feature less */
};

enum { NOT_FOR_US = 1 }; /* nothing that this user's sandboxes are made of: left out */

struct probe {
    const char *state_dir;
    bool is_privileged;
};

struct check {
    const char *name;
    enum weight weight;
    int (*run)(const struct probe *p,
               csn_probe_item *item); /* 0, -errno or NOT_FOR_US; may fill detail and remedy */
    csn_try what;
    const char *kind;   /* of a namespace */
    const char *needs;  /* the name of an earlier check that this one follows from, */
    const char *needs2; /* and of another */
    const char *remedy; /* when nothing explains the failure */
};

static void say(csn_probe_item *item, const char *detail)
{
    (void) snprintf(item->detail, sizeof(item->detail), "%s", detail);
}

static void advise(csn_probe_item *item, const char *before, const char *remedy)
{
    (void) snprintf(item->remedy, sizeof(item->remedy), "%s%s", before, remedy);
}

/* ---- the kernel ---- */

/* "6.18.1-amd64" as one number to compare. */
static unsigned long version_of(const char *release)
{
    char *end;
    unsigned long major = strtoul(release, &end, 10);

    return major << 16 | (*end == '.' ? strtoul(end + 1, NULL, 10) & 0xffff : 0);
}

static int check_kernel(const struct probe *p, csn_probe_item *item)
{
    const char *name, *since;
    struct utsname host = { .release = "" };
    csn_cause cause;
    int r = csn_try_calls(&name, &since);

    (void) p;
    (void) uname(&host); /* then without a number */
    (void) snprintf(item->detail, sizeof(item->detail), "%.60s", host.release);
    if (r == 0)
        return 0;
    if (version_of(host.release) < version_of(since)) {
        (void) snprintf(item->detail, sizeof(item->detail), "%.60s has no %s", host.release, name);
        (void) snprintf(item->remedy, sizeof(item->remedy),
                        "a kernel from %s on, 5.14 for all of it", since);
        return r;
    }
    if (csn_cause_find(CSN_TRY_CALL, -r, NULL, &cause))
        advise(item, "", cause.remedy);
    (void) snprintf(item->detail, sizeof(item->detail), "the call %s is refused%s%s", name,
                    cause.why[0] ? ": " : "", cause.why);
    return r;
}

static int check_memfd_exec(const struct probe *p, csn_probe_item *item)
{
    char value[8] = "";

    (void) p;
    if (csn_small_read(AT_FDCWD, "/proc/sys/vm/memfd_noexec", value, sizeof(value)) <= 0 ||
        value[0] != '2')
        return 0;
    say(item, "vm.memfd_noexec is 2");
    advise(item, csn_sudo(), "sysctl -w vm.memfd_noexec=1");
    return -EACCES;
}

/* ---- namespaces, mounts, filters ---- */

#define CHECK(name, call) \
    static int check_##name(const struct probe *p, csn_probe_item *item) \
    { \
        (void) p; \
        (void) item; \
        return call; \
    }

CHECK(userns, csn_try_namespaces(0))
CHECK(mount_ns, csn_try_namespaces(CSN_CLONE_NEWNS))
CHECK(pid_ns, csn_try_namespaces(CSN_CLONE_NEWPID))
CHECK(net_ns, csn_try_namespaces(CSN_CLONE_NEWNET))
CHECK(ipc_ns, csn_try_namespaces(CSN_CLONE_NEWIPC))
CHECK(uts_ns, csn_try_namespaces(CSN_CLONE_NEWUTS))
CHECK(cgroup_ns, csn_try_namespaces(CSN_CLONE_NEWCGROUP))
CHECK(time_ns, csn_try_namespaces(CSN_CLONE_NEWTIME))
CHECK(rights, csn_try_rights())
CHECK(nested, csn_try_no_nesting())
CHECK(overlay, csn_try_overlay())
CHECK(proc, csn_try_proc())
CHECK(pivot, csn_try_pivot())
CHECK(signals, csn_try_pidfd_signal())
CHECK(devices, p->is_privileged ? csn_try_devices() : NOT_FOR_US)

/* The tree that sandboxes on the host's image take: each file system learns it in a kernel of its own, tmpfs in 6.3. */
static int check_idmap(const struct probe *p, csn_probe_item *item)
{
    int r = p->is_privileged ? csn_try_idmap("/usr") : NOT_FOR_US;

    if (r < 0)
        say(item, "the files of '/usr' belong to nobody inside");
    return r;
}

static int check_seccomp(const struct probe *p, csn_probe_item *item)
{
    size_t len = 0;

    (void) p;
    (void) csn_seccomp_program(CSN_SECCOMP_DEFAULT, &len);
    (void) snprintf(item->detail, sizeof(item->detail), "%zu instructions", len);
    return csn_try_filter();
}

static int check_landlock(const struct probe *p, csn_probe_item *item)
{
    int abi = csn_landlock_abi();

    (void) p;
    if (abi < 0)
        return abi;
    /* namespaces are the first wall for both, so that sandboxes start with all walls */
    (void) snprintf(item->detail, sizeof(item->detail), "ABI %d%s", abi,
                    abi < 6 ? ", no second wall for signals and abstract sockets (Linux 6.12)"
                            : "");
    return 0;
}

/* ---- where sandboxes are kept ---- */

static int check_state(const struct probe *p, csn_probe_item *item)
{
    csn_auto(fd) int fd = -1;
    char name[CSN_FS_NAME_SIZE];
    int r;

    if (!p->state_dir)
        return NOT_FOR_US;
    fd = open(p->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    (void) snprintf(item->detail, sizeof(item->detail), "'%.120s' on %s", p->state_dir,
                    csn_fs_name(fd, name));
    r = csn_try_write(p->state_dir);
    if (r < 0)
        advise(item, "",
               r == -ENOSPC || r == -EDQUOT
                   ? "free space there, or CAISSON_STATE=/another/directory"
                   : "CAISSON_STATE=/another/directory");
    return r;
}

/* ---- ids and limits ---- */

static int check_ids(const struct probe *p, csn_probe_item *item)
{
    const char *why = csn_way_why_ordinary();

    if (p->is_privileged) {
        say(item, "65536 ids for each sandbox");
        return csn_try_id_range();
    }
    (void) snprintf(item->detail, sizeof(item->detail),
                    "one id, shared by all sandboxes of this user%s%s", why ? ": " : "",
                    why ? why : "");
    advise(item, "", why ? "start it as the machine's own root" : "sudo caisson …");
    item->state = CSN_PROBE_LIMITED;
    return 0;
}

/* A range nobody else is likely to have: useradd gives them out from 100000 on, by and by. */
static const char *subid_remedy(void)
{
    static char text[192];
    unsigned uid = (unsigned) geteuid(), first = 0x10000000u + (uid % 0x1000u) * 65536u;

    (void) snprintf(text, sizeof(text), /* fits */
                    "%ssudo usermod --add-subuids %u-%u --add-subgids %u-%u \"$(id -un)\"",
                    csn_userns_have_helpers() ? "" : "sudo apt install uidmap && ", first,
                    first + 65535, first, first + 65535);
    return text;
}

static int check_subids(const struct probe *p, csn_probe_item *item)
{
    const char *user = getenv("USER");
    uint32_t start = 0, count = 0;

    (void) p;
    if (geteuid() == 0)
        return NOT_FOR_US; /* takes ranges as it likes, or is not the one that /etc/subuid speaks of */
    int r = csn_subid_find("/etc/subuid", geteuid(), user, 65536, &start, &count);
    if (r == 0)
        r = csn_subid_find("/etc/subgid", geteuid(), user, 65536, &start, &count);
    if (r == 0 && csn_userns_have_helpers()) {
        (void) snprintf(item->detail, sizeof(item->detail), "%u ids from %u", count, start);
        return 0;
    }
    say(item, r == 0 ? "without newuidmap and newgidmap" : "none in /etc/subuid and /etc/subgid");
    advise(item, "", subid_remedy());
    item->state = CSN_PROBE_MISSING;
    return r == -ENOENT ? 0 : r;
}

static int try_group(const csn_cgroup_host *host)
{
    char id[32];
    csn_cgroup cg;

    (void) snprintf(id, sizeof(id), "probe-%d", (int) getpid()); /* always fits */
    csn_cgroup_limits limits = { .controllers = host->controllers & CSN_CG_LIMITS,
                                 .memory_bytes = 64 << 20,
                                 .n_processes = 16,
                                 .cpu_milli = 1000 };
    int r = csn_cgroup_create(host, id, &limits, &cg);
    if (r < 0)
        return r;
    r = csn_cgroup_finish(&cg, &limits);
    int gone = csn_cgroup_remove(&cg);
    csn_cgroup_done(&cg);
    (void) csn_cgroup_tidy(host); /* others may use it */
    return r < 0 ? r : gone;
}

static int check_cgroup(const struct probe *p, csn_probe_item *item)
{
    csn_cgroup_host host;
    int r = csn_cgroup_probe(&host);

    (void) p;
    advise(item, geteuid() == 0 ? "" : "sudo caisson …, or ", "start it below a delegated cgroup");
    if (r < 0)
        return r;
    if (host.rung == CSN_CGROUP_NONE) {
        say(item, "none: rlimits, watching, whole processors");
        if (host.can_delegate)
            advise(item, "", "systemd-run --user --scope caisson …");
        item->state = CSN_PROBE_LIMITED;
        return 0;
    }
    (void) snprintf(
        item->detail, sizeof(item->detail), "%s:%s%s%s", host.rung == CSN_CGROUP_V2 ? "v2" : "v1",
        host.controllers & CSN_CG_MEMORY ? " memory" : "",
        host.controllers & CSN_CG_PIDS ? " pids" : "", host.controllers & CSN_CG_CPU ? " cpu" : "");
    if ((host.controllers & CSN_CG_LIMITS) != CSN_CG_LIMITS)
        item->state = CSN_PROBE_LIMITED;
    return try_group(&host);
}

/* ---- features ---- */

static int check_slirp(const struct probe *p, csn_probe_item *item)
{
    const char *path = csn_slirp_find(), *missing, *remedy = NULL;
    int r = csn_slirp_check(&missing, &remedy);

    (void) p;
    if (r == 0 && (r = csn_try_net_filter()) < 0) {
        missing = "nftables in a network namespace";
        remedy = "modprobe nf_tables";
    }
    (void) snprintf(item->detail, sizeof(item->detail), "%s%s", r < 0 ? "without " : "",
                    r < 0 ? missing : path);
    if (remedy)
        advise(item, "", remedy);
    return r;
}

static int check_loop(const struct probe *p, csn_probe_item *item)
{
    csn_auto(fd) int fd = -1;

    (void) item;
    if (!p->is_privileged)
        return NOT_FOR_US;
    fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    return fd < 0 ? -errno : 0;
}

#define USERNS "user namespace"
#define MNTNS  "mount namespace"
#define PIDNS  "pid namespace"
#define RIGHTS "rights in a user namespace"
#define PROC   "own procfs"

static const struct check checks[] = {
    { "kernel", WALL, check_kernel, CSN_TRY_CALL, .remedy = "see docs/machines.md" },
    { USERNS, WALL, check_userns, CSN_TRY_USERNS, .kind = "user", .needs = "kernel" },
    { MNTNS, WALL, check_mount_ns, CSN_TRY_NAMESPACE, .kind = "mnt", .needs = USERNS },
    { RIGHTS, WALL, check_rights, CSN_TRY_RIGHTS, .needs = MNTNS },
    { PIDNS, WALL, check_pid_ns, CSN_TRY_NAMESPACE, .kind = "pid", .needs = USERNS },
    { "network namespace", WALL, check_net_ns, CSN_TRY_NAMESPACE, .kind = "net", .needs = USERNS },
    { "ipc namespace", WALL, check_ipc_ns, CSN_TRY_NAMESPACE, .kind = "ipc", .needs = USERNS },
    { "uts namespace", WALL, check_uts_ns, CSN_TRY_NAMESPACE, .kind = "uts", .needs = USERNS },
    { "cgroup namespace", WALL, check_cgroup_ns, CSN_TRY_NAMESPACE, .kind = "cgroup",
      .needs = USERNS },
    { "time namespace", WALL, check_time_ns, CSN_TRY_NAMESPACE, .kind = "time", .needs = USERNS },
    { "overlay in a user namespace", WALL, check_overlay, CSN_TRY_RIGHTS, .needs = RIGHTS,
      .remedy = "a kernel with overlayfs" },
    { PROC, WALL, check_proc, CSN_TRY_PROC, .needs = RIGHTS, .needs2 = PIDNS },
    { "no nested namespaces", WALL, check_nested, CSN_TRY_RIGHTS, .needs = PROC,
      .remedy = "a kernel with /proc/sys/user" },
    { "pivot_root", WALL, check_pivot, CSN_TRY_RIGHTS, .needs = RIGHTS,
      .remedy = "a root that is not the initramfs" },
    { "landlock", WALL, check_landlock, CSN_TRY_LANDLOCK, .needs = NULL },
    { "seccomp", WALL, check_seccomp, CSN_TRY_OTHER,
      .remedy = "a kernel with CONFIG_SECCOMP_FILTER" },
    { "programs from memory", WALL, check_memfd_exec, CSN_TRY_OTHER, .needs = "kernel" },
    { "device nodes", WALL, check_devices, CSN_TRY_OTHER, .needs = RIGHTS,
      .remedy = "a device cgroup that allows mknod" },
    { "state directory", WALL, check_state, CSN_TRY_OTHER,
      .remedy = "CAISSON_STATE=/another/directory" },
    { "own ids", LIMIT, check_ids, CSN_TRY_OTHER, .needs = USERNS },
    { "idmapped mounts", LIMIT, check_idmap, CSN_TRY_OTHER, .needs = USERNS, .needs2 = MNTNS,
      .remedy = "a root on ext4, xfs or btrfs, or tmpfs from Linux 6.3 on" },
    { "signals by descriptor", LIMIT, check_signals, CSN_TRY_CALL,
      .remedy = "a kernel or a filter with pidfd_send_signal" },
    { "cgroup", LIMIT, check_cgroup, CSN_TRY_OTHER, .needs = NULL },
    { "subordinate ids", OPTIONAL, check_subids, CSN_TRY_OTHER, .needs = NULL },
    { "outbound network", OPTIONAL, check_slirp, CSN_TRY_OTHER, .needs = NULL },
    { "loop devices", OPTIONAL, check_loop, CSN_TRY_OTHER, .remedy = "modprobe loop" },
};

static enum csn_probe_state state_of(enum weight weight)
{
    return weight == WALL    ? CSN_PROBE_FAILED
           : weight == LIMIT ? CSN_PROBE_LIMITED
                             : CSN_PROBE_MISSING;
}

/* The cause stands behind what was found; a check that knows its remedy has said its cause, too. */
static void explain(const struct check *c, csn_probe_item *item)
{
    csn_cause cause;

    if (item->remedy[0] || !csn_cause_find(c->what, item->error, c->kind, &cause)) {
        if (!item->remedy[0])
            advise(item, "", c->remedy ? c->remedy : "see docs/machines.md");
        return;
    }
    say(item, cause.why);
    advise(item, "", cause.remedy);
}

static void try_one(const struct probe *p, const struct check *c, csn_probe_item *item, int *ret)
{
    *ret = c->run(p, item);
    if (*ret < 0) {
        item->state = state_of(c->weight);
        item->error = -*ret;
        explain(c, item);
    } else if (item->state == CSN_PROBE_OK) {
        item->remedy[0] = '\0';
    }
}

/* The failed item that this check follows from: a wall that is itself not tried passes its own on. */
static const char *find_failed(const char *name, const csn_probe_item *items, size_t n)
{
    for (size_t i = 0; name && i < n; i++)
        if (strcmp(items[i].name, name) == 0)
            return items[i].state == CSN_PROBE_FAILED      ? items[i].name
                   : items[i].state == CSN_PROBE_NOT_TRIED ? items[i].follows
                                                           : NULL;
    return NULL;
}

static const char *find_reason(const struct check *c, const csn_probe_item *items, size_t n)
{
    const char *first = find_failed(c->needs, items, n);

    return first ? first : find_failed(c->needs2, items, n);
}

static csn_probe_item new_item(const struct check *c)
{
    static const char *const kinds[] = { [WALL] = "wall", [LIMIT] = "limit", [OPTIONAL] = "extra" };

    return (csn_probe_item){ .name = c->name, .kind = kinds[c->weight], .state = CSN_PROBE_OK };
}

int csn_probe_run(const char *state_dir, csn_probe_item *items, size_t max, size_t *ret_n)
{
    const struct probe p = { state_dir, csn_way_find() == CSN_WAY_PRIVILEGED };
    size_t n = 0;

    for (const struct check *c = checks; c < checks + CSN_COUNT(checks) && n < max; c++) {
        csn_probe_item *item = &items[n];
        const char *reason = find_reason(c, items, n);
        int r = 0;

        *item = new_item(c);
        if (reason) {
            item->state = CSN_PROBE_NOT_TRIED;
            item->follows = reason;
        } else {
            try_one(&p, c, item, &r);
        }
        n += r != NOT_FOR_US;
    }
    *ret_n = n;
    return 0;
}

int csn_probe_first_failed(const char *state_dir, bool without_landlock, csn_probe_item *ret_item)
{
    const struct probe p = { state_dir, csn_way_find() == CSN_WAY_PRIVILEGED };

    for (const struct check *c = checks; c < checks + CSN_COUNT(checks); c++) {
        int r = 0;

        if (c->weight != WALL || (without_landlock && c->what == CSN_TRY_LANDLOCK))
            continue;
        *ret_item = new_item(c);
        try_one(&p, c, ret_item, &r);
        if (r < 0)
            return 1;
    }
    return 0;
}
