/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/time.h"
#include "csn_test.h"
#include "kern/caps.h"
#include "kern/cgroup.h"
#include "kern/cgroup_impl.h"
#include "kern/landlock.h"
#include "kern/pidfd.h"
#include "kern/seccomp.h"
#include "kern/spawn.h"
#include "kern/test_confined.h"

#define MIB (1ll << 20)

static csn_cgroup_host a_host(void)
{
    csn_cgroup_host host;

    CHECK_INT(csn_cgroup_probe(&host), 0);
    if (host.rung == CSN_CGROUP_NONE)
        SKIP("kernel: no cgroup here that this user may divide");
    if ((host.controllers & CSN_CG_LIMITS) != CSN_CG_LIMITS)
        SKIP("kernel: not all of memory, pids and cpu are usable");
    return host;
}

static const char *an_id(void)
{
    static char id[40];

    (void) snprintf(id, sizeof(id), "test-%d", (int) getpid());
    return id;
}

static void sweep(void *user)
{
    (void) csn_cgroup_sweep(user, an_id());
    (void) csn_cgroup_tidy(user);
}

/* The test's own copy is gone by then. */
static void sweep_later(const csn_cgroup_host *host)
{
    static csn_cgroup_host kept;

    kept = *host;
    csn_test_defer(sweep, &kept);
}

static bool exists(const csn_cgroup_host *host, uint32_t i)
{
    char path[CSN_CGROUP_PATH_MAX + 64];

    (void) snprintf(path, sizeof(path), "%s/caisson/%s", host->hierarchies[i].path, an_id());
    return access(path, F_OK) == 0;
}

/* A child that is in the group when this returns, runs `body` and exits with what that returns. */
static pid_t in_group(csn_cgroup *cg, int (*body)(void), int *ret_pidfd)
{
    char byte;
    int joined[2];

    CHECK_INT(pipe2(joined, O_CLOEXEC), 0);
    pid_t pid = csn_clone(0, csn_cgroup_clone_fd(cg), ret_pidfd);

    CHECK(pid >= 0);
    if (pid == 0) {
        if (csn_cgroup_join(cg) < 0)
            _exit(99);
        (void) close(joined[0]);
        (void) close(joined[1]);
        _exit(body());
    }
    (void) close(joined[1]);
    CHECK_INT(csn_read(joined[0], &byte, 1), 0);
    (void) close(joined[0]);
    return pid;
}

static int eat_memory(void)
{
    volatile char *p =
        mmap(NULL, 256 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (size_t i = 0; i < 256 * MIB; i += 4096)
        p[i] = 1;
    return 0;
}

TEST(memory_beyond_the_limit_kills_and_is_counted)
{
    csn_cgroup_host host = a_host();
    csn_cgroup_usage usage;
    csn_child_end ending;
    csn_cgroup cg;
    int pidfd;

    sweep_later(&host);
    CHECK_INT(
        csn_cgroup_create(&host, an_id(), &(csn_cgroup_limits){ .memory_bytes = 32 * MIB }, &cg),
        0);
    CHECK_INT(csn_cgroup_finish(&cg, &(csn_cgroup_limits){ .memory_bytes = 32 * MIB }), 0);
    in_group(&cg, eat_memory, &pidfd);
    CHECK_INT(csn_pidfd_reap(pidfd, false, &ending), 0);
    CHECK(ending.by_signal);
    CHECK_INT(ending.status, SIGKILL);
    CHECK_INT(csn_cgroup_usage_read(&cg, &usage), 0);
    CHECK_INT(usage.n_oom_kills, 1);
    CHECK(usage.memory_peak_bytes > 16 * MIB && usage.memory_peak_bytes <= 32 * MIB);
    CHECK_INT(csn_cgroup_remove(&cg), 0);
    for (uint32_t i = 0; i < host.n_hierarchies; i++)
        CHECK(!exists(&host, i));
}

static int fork_many(void)
{
    int n = 0;

    for (int i = 0; i < 32; i++) {
        pid_t pid = fork();
        if (pid == 0)
            for (;;)
                (void) pause();
        n += pid > 0;
    }
    return n;
}

TEST(a_fork_bomb_ends_at_the_limit_and_all_of_it_can_be_killed)
{
    csn_cgroup_host host = a_host();
    csn_cgroup_usage usage;
    csn_child_end ending;
    csn_cgroup cg;
    int pidfd;

    sweep_later(&host);
    CHECK_INT(csn_cgroup_create(&host, an_id(), &(csn_cgroup_limits){ .n_processes = 8 }, &cg), 0);
    in_group(&cg, fork_many, &pidfd);
    CHECK_INT(csn_pidfd_reap(pidfd, false, &ending), 0);
    CHECK_INT(ending.status, 7);
    CHECK_INT(csn_cgroup_usage_read(&cg, &usage), 0);
    CHECK_INT(usage.n_processes, 7);
    CHECK(usage.n_fork_denied >= 1);
    CHECK_INT(csn_cgroup_kill(&cg), 0);
    CHECK_INT(csn_cgroup_remove(&cg), 0);
}

static int stay(void)
{
    for (;;)
        (void) pause();
    return 0;
}

static int fork_300(void)
{
    for (int i = 0; i < 300; i++)
        if (fork() == 0)
            for (;;)
                (void) pause();
    return 0;
}

TEST(hundreds_are_killed_in_little_time)
{
    csn_cgroup_host host = a_host();
    csn_cgroup cg;
    int pidfd;

    sweep_later(&host);
    CHECK_INT(csn_cgroup_create(&host, an_id(), &(csn_cgroup_limits){ .n_processes = 400 }, &cg),
              0);
    in_group(&cg, fork_300, &pidfd);
    CHECK_INT(csn_pidfd_reap(pidfd, false, NULL), 0);
    CHECK_INT(csn_cg_signal_all(cg.in[0].dir_fd, 0), 300);
    int64_t t = csn_now_ns();
    CHECK_INT(csn_cgroup_kill(&cg), 0);
    csn_test_note("300 processes gone after %lld ms", (long long) (csn_now_ns() - t) / 1000000);
    CHECK_INT(csn_cgroup_remove(&cg), 0);
}

TEST(what_a_dead_keeper_left_is_swept_by_its_id)
{
    csn_cgroup_host host = a_host();
    csn_cgroup_limits limits = { .controllers = host.controllers, .n_processes = 10 };
    csn_child_end ending;
    csn_cgroup cg;
    int pidfd;

    CHECK_INT(csn_cgroup_create(&host, an_id(), &limits, &cg), 0);
    CHECK_INT(csn_cgroup_create(&host, an_id(), &limits, &(csn_cgroup){ .n = 0 }), -EEXIST);
    CHECK(exists(&host, 0));
    in_group(&cg, stay, &pidfd);
    csn_cgroup_done(&cg);
    CHECK_INT(csn_cgroup_sweep(&host, an_id()), 0);
    CHECK_INT(csn_pidfd_reap(pidfd, false, &ending), 0);
    CHECK_INT(ending.status, SIGKILL);
    for (uint32_t i = 0; i < host.n_hierarchies; i++)
        CHECK(!exists(&host, i));
    CHECK_INT(csn_cgroup_sweep(&host, an_id()), 0); /* nothing left: fine */
}

TEST(a_name_that_is_a_path_is_refused)
{
    csn_cgroup_host host = a_host();
    csn_cgroup cg;

    CHECK_INT(csn_cgroup_create(&host, "../x", &(csn_cgroup_limits){ .n_processes = 1 }, &cg),
              -EINVAL);
    CHECK_INT(csn_cgroup_create(&host, "", &(csn_cgroup_limits){ .n_processes = 1 }, &cg), -EINVAL);
}

/* The keeper's case: uid 0 with no capability, behind landlock. */
TEST(groups_can_be_removed_without_capabilities)
{
    csn_cgroup_host host = a_host();
    csn_landlock rs = CSN_LANDLOCK_INIT;
    csn_cgroup cg;
    int r = csn_landlock_begin(&rs, 0);

    CHECK_INT(csn_cgroup_create(&host, an_id(), &(csn_cgroup_limits){ .n_processes = 4 }, &cg), 0);
    for (uint32_t i = 0; r == 0 && i < cg.n; i++) {
        CHECK_INT(csn_landlock_allow(&rs, cg.in[i].dir_fd, CSN_LANDLOCK_READ | CSN_LANDLOCK_WFILE),
                  0);
        CHECK_INT(csn_landlock_allow(&rs, cg.in[i].parent_fd, CSN_LANDLOCK_RMDIR), 0);
    }
    CHECK_INT(csn_caps_clear(), 0);
    CHECK_INT(csn_no_new_privs(), 0);
    CHECK_INT(r == 0 ? csn_landlock_restrict(&rs) : 0, 0);
    CHECK_INT(csn_seccomp_install(CSN_SECCOMP_KEEPER, 0), 0);
    CHECK_INT(csn_cgroup_update(&cg, &(csn_cgroup_limits){ .n_processes = 8 }), 0);
    CHECK_INT(csn_cgroup_usage_read(&cg, &(csn_cgroup_usage){ .n_processes = 0 }), 0);
    CHECK_INT(csn_cgroup_kill(&cg), 0);
    CHECK_INT(csn_cgroup_remove(&cg), 0);
}

static int64_t cpu_ns(void)
{
    struct timespec used;

    (void) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * CSN_NS_PER_S + used.tv_nsec;
}

/* 70 ms of CPU time in the group, what came before it not counted: at a fifth of a core that takes three pauses. */
static int burn(void)
{
    const int64_t until = cpu_ns() + 70 * CSN_NS_PER_MS;

    while (cpu_ns() < until)
        ;
    return 0;
}

TEST(the_cpu_quota_holds)
{
    csn_cgroup_host host = a_host();
    csn_cgroup_limits limits = { .controllers = CSN_CG_LIMITS | CSN_CG_CPUACCT, .cpu_milli = 200 };
    csn_cgroup_usage usage;
    int64_t began, took;
    csn_cgroup cg;
    int pidfd;

    if (!(host.controllers & CSN_CG_CPUACCT))
        SKIP("kernel: no cpu accounting");
    sweep_later(&host);
    CHECK_INT(csn_cgroup_create(&host, an_id(), &limits, &cg), 0);
    CHECK_INT(csn_cgroup_finish(&cg, &limits), 0);
    began = csn_now_ns();
    in_group(&cg, burn, &pidfd);
    CHECK_INT(csn_pidfd_reap(pidfd, false, NULL), 0);
    took = csn_now_ns() - began;
    CHECK_INT(csn_cgroup_usage_read(&cg, &usage), 0);
    CHECK(usage.cpu_usec >= 70000);
    CHECK(took >= 200 * CSN_NS_PER_MS); /* two whole periods lie between the first 20 ms and the last 10 */
    CHECK_INT(
        csn_cgroup_update(&cg, &(csn_cgroup_limits){ .cpu_milli = 500, .memory_bytes = 64 * MIB }),
        0);
    CHECK_INT(csn_cgroup_remove(&cg), 0);
}

static int open_devices(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int kmsg = open("/dev/kmsg", O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    return (null >= 0 ? 1 : 0) | (kmsg >= 0 ? 2 : 0);
}

TEST(only_harmless_devices_open_in_the_group)
{
    csn_cgroup_host host = a_host();
    csn_cgroup_limits limits = { .controllers = CSN_CG_DEVICES, .n_processes = 4 };
    csn_child_end ending;
    csn_cgroup cg;
    int pidfd;

    if (!(host.controllers & CSN_CG_DEVICES) || open_devices() != 3)
        SKIP("kernel: no devices controller, or no /dev/kmsg to try");
    sweep_later(&host);
    CHECK_INT(csn_cgroup_create(&host, an_id(), &limits, &cg), 0);
    CHECK_INT(csn_cgroup_deny_devices(&cg), 0);
    in_group(&cg, open_devices, &pidfd);
    CHECK_INT(csn_pidfd_reap(pidfd, false, &ending), 0);
    CHECK_INT(ending.status, 1);
    CHECK_INT(csn_cgroup_remove(&cg), 0);
}

/* The v2 part of a hybrid host has no controllers, but groups, birth inside, freezing and killing. */
static csn_cgroup_host a_v2_host(void)
{
    csn_cgroup_host host = { .rung = CSN_CGROUP_V2,
                             .controllers = CSN_CG_FREEZER,
                             .n_hierarchies = 1 };
    csn_cgroup_hierarchy *h = &host.hierarchies[0];

    h->controllers = CSN_CG_FREEZER;
    (void) snprintf(h->path, sizeof(h->path), "/sys/fs/cgroup/unified");
    if (access("/sys/fs/cgroup/unified/cgroup.procs", W_OK) == 0)
        return host;
    (void) snprintf(h->path, sizeof(h->path), "/sys/fs/cgroup");
    if (access("/sys/fs/cgroup/cgroup.subtree_control", W_OK) < 0)
        SKIP("kernel: no writable cgroup v2 tree");
    return host;
}

TEST(on_v2_a_child_is_born_in_the_group_frozen_and_killed)
{
    csn_cgroup_host host = a_v2_host();
    csn_child_end ending;
    csn_cgroup cg;
    int pidfd;

    sweep_later(&host);
    CHECK_INT(csn_cgroup_create(&host, an_id(),
                                &(csn_cgroup_limits){ .controllers = CSN_CG_FREEZER }, &cg),
              0);
    in_group(&cg, stay, &pidfd);
    CHECK_INT(csn_cg_signal_all(cg.in[0].dir_fd, 0), 1);
    CHECK_INT(csn_cgroup_freeze(&cg), 0);
    CHECK_INT(csn_cgroup_kill(&cg), 0);
    CHECK_INT(csn_pidfd_reap(pidfd, false, &ending), 0);
    CHECK_INT(ending.status, SIGKILL);
    CHECK_INT(csn_cgroup_remove(&cg), 0);
}

/* The rule that processes live in leaves only: the engine moves aside. */
TEST(on_v2_our_own_group_can_be_emptied)
{
    csn_cgroup_host host = a_v2_host();
    csn_cgroup own;
    int pidfd;

    sweep_later(&host);
    CHECK_INT(csn_cgroup_create(&host, an_id(),
                                &(csn_cgroup_limits){ .controllers = CSN_CG_FREEZER }, &own),
              0);
    in_group(&own, stay, &pidfd);
    CHECK_INT(csn_cg_v2_empty(own.in[0].dir_fd), 0);
    CHECK_INT(csn_cg_signal_all(own.in[0].dir_fd, 0), 0);
    csn_auto(fd) int leaf =
        openat(own.in[0].dir_fd, CSN_CGROUP_ENGINE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_INT(csn_cg_signal_all(leaf, SIGKILL), 1);
    CHECK_INT(csn_pidfd_reap(pidfd, false, NULL), 0);
    CHECK_INT(unlinkat(own.in[0].dir_fd, CSN_CGROUP_ENGINE, AT_REMOVEDIR), 0);
    CHECK_INT(csn_cgroup_remove(&own), 0);
}

static void make_file(int dir, const char *name)
{
    csn_auto(fd) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
}

static const char *content(int dir, const char *name)
{
    static char text[64];
    csn_auto(fd) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = csn_read_all(fd, text, sizeof(text) - 1);

    CHECK(n >= 0);
    text[n] = '\0';
    return text;
}

TEST(v2_limits_are_written_as_the_kernel_reads_them)
{
    csn_cgroup_limits limits = {
        .memory_bytes = 64 * MIB,
        .n_processes = 20,
        .cpu_milli = 1500,
        .cpu_weight = 50,
    };
    csn_auto(fd) int dir = open(csn_test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    static const char *const files[] = { "memory.max", "memory.swap.max", "memory.oom.group",
                                         "pids.max",   "cpu.max",         "cpu.weight" };

    for (size_t i = 0; i < CSN_COUNT(files); i++)
        make_file(dir, files[i]);
    CHECK_INT(csn_cg_v2_limit(dir, CSN_CG_LIMITS, &limits), 0);
    CHECK_INT(csn_cg_v2_finish(dir, CSN_CG_LIMITS, &limits), 0);
    CHECK_STR(content(dir, "memory.max"), "67108864");
    CHECK_STR(content(dir, "memory.swap.max"), "0");
    CHECK_STR(content(dir, "memory.oom.group"), "0");
    CHECK_STR(content(dir, "pids.max"), "20");
    CHECK_STR(content(dir, "cpu.max"), "150000 100000");
    CHECK_STR(content(dir, "cpu.weight"), "50");
}

#ifdef CSN_TEST_HOOKS
static int open_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

TEST(whatever_fails_while_creating_nothing_is_left)
{
    csn_cgroup_host host = a_host();
    csn_cgroup_limits limits = { .controllers = host.controllers,
                                 .memory_bytes = 64 * MIB,
                                 .n_processes = 20 };
    int before = open_descriptors(), r = -1;
    csn_cgroup cg;
    long k;

    sweep_later(&host);
    for (k = 1; r != 0 && k < 1000; k++) {
        csn_fault_arm(k);
        r = csn_cgroup_create(&host, an_id(), &limits, &cg);
        csn_fault_arm(0);
        for (uint32_t i = 0; r < 0 && i < host.n_hierarchies; i++)
            CHECK(!exists(&host, i));
        CHECK(r == 0 || open_descriptors() == before);
    }
    csn_test_note("%ld places to fail", k - 2);
    CHECK_INT(r, 0);
    CHECK_INT(csn_cgroup_remove(&cg), 0);
    CHECK_INT(open_descriptors(), before);
}
#endif

/* ---- whose group is divided: a tree of plain files looks like a v2 hierarchy to the one who chooses ---- */

static const char *tree_path(const char *group, const char *file)
{
    return csn_test_path("top%s%s%s", group, *file ? "/" : "", file);
}

static void put(const char *group, const char *file, const char *text)
{
    int fd = open(tree_path(group, file), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    CHECK(fd >= 0);
    CHECK_INT(csn_write_all(fd, text, strlen(text)), 0);
    csn_close(&fd);
}

static void make_group_dir(const char *group)
{
    CHECK(mkdir(tree_path(group, ""), 0755) == 0);
    put(group, "cgroup.procs", "");
    put(group, "cgroup.subtree_control", "memory pids\n");
    put(group, "cgroup.controllers", "cpuset cpu io memory pids\n");
    if (*group) {
        put(group, "memory.max", "max\n");
        put(group, "cpu.max", "max 100000\n");
        put(group, "pids.max", "4915\n"); /* systemd's default for every unit */
    }
}

/* A desktop: a terminal's scope below the user's manager, whose group was handed over. */
#define MANAGER  "/user.slice/user-1000.slice/user@1000.service"
#define TERMINAL MANAGER "/app.slice/vte-1.scope"
#define SESSION  "/user.slice/user-1000.slice/session-2.scope"
#define SERVICE  "/system.slice/x.service"

static void make_tree(void)
{
    static const char *const groups[] = { "", "/user.slice", "/user.slice/user-1000.slice", MANAGER,
                                          MANAGER "/app.slice", TERMINAL, SESSION, "/system.slice", SERVICE };

    for (size_t i = 0; i < CSN_COUNT(groups); i++)
        make_group_dir(groups[i]);
}

static void mark(const char *group)
{
    if (setxattr(tree_path(group, ""), "user.delegate", "1", 1, 0) < 0)
        SKIP("kernel: no user attributes on the file system of TMPDIR");
}

/* The group that is divided, below the top; "none". */
static const char *chosen(const char *own, bool is_root, bool has_systemd)
{
    static csn_cgroup_hierarchy h;
    const char *top = csn_test_path("top");

    if (!csn_cgroup_v2_choose(top, csn_test_path("top%s", own), is_root, has_systemd, &h))
        return "none";
    CHECK_INT(h.controllers & CSN_CG_LIMITS, CSN_CG_LIMITS); /* cpu is there, though nobody switched it on */
    CHECK_INT(h.is_top, strlen(h.path) == strlen(top));
    return h.path + strlen(top);
}

TEST(a_users_unit_is_divided_in_the_group_of_his_manager)
{
    make_tree();
    mark(MANAGER);
    CHECK_STR(chosen(TERMINAL, false, true), MANAGER);
    CHECK_STR(chosen(MANAGER "/app.slice", false, true), MANAGER);
    CHECK_STR(chosen(MANAGER, false, true), MANAGER);
}

TEST(a_group_that_is_only_writable_is_not_divided)
{
    make_tree();
    CHECK_STR(chosen(TERMINAL, false, true), "none");
    mark(MANAGER);
    CHECK_STR(chosen(SESSION, false, true), "none"); /* the manager's group is no ancestor */
    CHECK_STR(chosen(TERMINAL, false, false), TERMINAL); /* without systemd writable means ours */
}

TEST(root_divides_the_top_but_not_past_a_limit)
{
    make_tree();
    CHECK_STR(chosen(SERVICE, true, true), "");
    CHECK_STR(chosen(SERVICE, false, true), "none");
    put("/system.slice", "memory.max", "41943040\n");
    CHECK_STR(chosen(SERVICE, true, true), "none");
    put("/system.slice", "memory.max", "max\n");
    put(SERVICE, "cpu.max", "50000 100000\n");
    CHECK_STR(chosen(SERVICE, true, true), "none");
    mark(SERVICE);
    CHECK_STR(chosen(SERVICE, true, true), SERVICE);
}

/* Slurm: its scope was handed over, the job's groups below it have the limits, the task's has the processes. */
#define SLURM "/system.slice/slurmstepd.scope"
#define TASK  SLURM "/job_7/step_0/task_0"

static void make_job(void)
{
    static const char *const groups[] = { SLURM, SLURM "/job_7", SLURM "/job_7/step_0", TASK };

    make_tree();
    for (size_t i = 0; i < CSN_COUNT(groups); i++) {
        make_group_dir(groups[i]);
        put(groups[i], "cpuset.cpus", "\n");
    }
    mark(SLURM);
}

TEST(nobody_leaves_a_job_that_has_limits)
{
    static const char *const limits[][2] = { { "memory.max", "41943040\n" },
                                             { "cpu.max", "50000 100000\n" },
                                             { "cpuset.cpus", "0-1\n" } };
    static const char *const unset[] = { "max\n", "max 100000\n", "\n" };

    make_job();
    CHECK_STR(chosen(TASK, true, true), SLURM); /* no limit: nothing is left behind */
    for (size_t i = 0; i < CSN_COUNT(limits); i++) {
        put(SLURM "/job_7", limits[i][0], limits[i][1]);
        CHECK_STR(chosen(TASK, true, true), "none");
        CHECK_STR(chosen(TASK, false, true), "none");
        put(SLURM "/job_7", limits[i][0], unset[i]);
    }
}

TEST(a_limit_of_processes_that_is_left_behind_is_taken_along)
{
    static csn_cgroup_hierarchy h;

    make_job();
    put(SLURM "/job_7", "pids.max", "40\n");
    put(SLURM, "pids.max", "7\n"); /* still around us: the kernel counts it */
    CHECK(csn_cgroup_v2_choose(csn_test_path("top"), csn_test_path("top" TASK), true, true, &h));
    CHECK_INT(h.left_pids, 40);
    CHECK(csn_cgroup_v2_choose(csn_test_path("top"), csn_test_path("top" SLURM), true, true, &h));
    CHECK_INT(h.left_pids, 0);
}

TEST(the_limits_around_us_are_the_smallest_on_the_way_up)
{
    static csn_cgroup_host host = { .rung = CSN_CGROUP_V2,
                                    .controllers = CSN_CG_LIMITS,
                                    .n_hierarchies = 1 };
    csn_cgroup_outer outer;

    make_job();
    host.hierarchies[0].controllers = CSN_CG_LIMITS;
    snprintf(host.hierarchies[0].path, sizeof(host.hierarchies[0].path), "%s",
             csn_test_path("top" TASK));
    csn_cgroup_outer_read(&host, &outer);
    CHECK_INT(outer.memory_bytes, 0);
    CHECK_INT(outer.cpu_milli, 0);
    CHECK_INT(outer.n_processes, 4915);
    put(SLURM "/job_7", "memory.max", "41943040\n");
    put(SLURM, "memory.max", "83886080\n");
    put(TASK, "cpu.max", "150000 100000\n");
    put("/system.slice", "cpu.max", "99999 100000\n");
    put(SLURM "/job_7/step_0", "pids.max", "40\n");
    csn_cgroup_outer_read(&host, &outer);
    CHECK_INT(outer.memory_bytes, 41943040);
    CHECK_INT(outer.cpu_milli, 999);
    CHECK_INT(outer.n_processes, 40);
}

TEST(where_the_groups_are_is_written_down_and_believed_only_of_cgroups)
{
    csn_cgroup_host host = a_host(), again;
    int dir = open(csn_test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    CHECK_INT(csn_cgroup_host_read(dir, "cgroups", &again), -ENOENT);
    CHECK_INT(csn_cgroup_host_write(&host, dir, "cgroups"), 0);
    CHECK_INT(csn_cgroup_host_read(dir, "cgroups", &again), 0);
    CHECK_INT(again.rung, host.rung);
    CHECK_INT(again.controllers, host.controllers);
    CHECK_INT(again.n_hierarchies, host.n_hierarchies);
    for (uint32_t i = 0; i < host.n_hierarchies; i++) {
        CHECK_STR(again.hierarchies[i].path, host.hierarchies[i].path);
        CHECK_INT(again.hierarchies[i].is_top, host.hierarchies[i].is_top);
    }
    snprintf(host.hierarchies[0].path, sizeof(host.hierarchies[0].path), "/tmp");
    CHECK_INT(csn_cgroup_host_write(&host, dir, "cgroups"), 0);
    CHECK_INT(csn_cgroup_host_read(dir, "cgroups", &again), -EBADMSG);
    snprintf(host.hierarchies[0].path, sizeof(host.hierarchies[0].path), "/sys/fs/cgroup/gone");
    CHECK_INT(csn_cgroup_host_write(&host, dir, "cgroups"), 0);
    CHECK_INT(csn_cgroup_host_read(dir, "cgroups", &again), 0);
    CHECK_INT(again.n_hierarchies, host.n_hierarchies - 1);
    csn_close(&dir);
}

TEST(how_long_it_takes)
{
    csn_cgroup_host host = a_host();
    csn_cgroup_limits limits = { .memory_bytes = 64 * MIB, .n_processes = 20, .cpu_milli = 1000 };
    int64_t probe = csn_now_ns(), create = 0, finish = 0, gone = 0;
    csn_cgroup cg;

    sweep_later(&host);
    CHECK_INT(csn_cgroup_probe(&host), 0);
    probe = csn_now_ns() - probe;
    for (int i = 0; i < 50; i++) {
        int64_t t = csn_now_ns();
        CHECK_INT(csn_cgroup_create(&host, an_id(), &limits, &cg), 0);
        int64_t u = csn_now_ns();
        CHECK_INT(csn_cgroup_finish(&cg, &limits), 0);
        int64_t v = csn_now_ns();
        CHECK_INT(csn_cgroup_remove(&cg), 0);
        gone += csn_now_ns() - v;
        finish += v - u;
        create += u - t;
    }
    csn_test_note("probe %lld us, create %lld us, finish %lld us, remove %lld us",
                  (long long) probe / 1000, (long long) create / 50000, (long long) finish / 50000,
                  (long long) gone / 50000);
}
