/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that sandboxed code has no business making (section 4 of the requirements). Arguments are chosen so that the
 * kernel, once reached with all capabilities, answers something other than EPERM: the walls-off half needs that. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attack.h"

static enum verdict try_call(const struct attack *self)
{
    errno = 0;
    return refused(call(self->arg[0], self->arg[1], self->arg[2], self->arg[3], 0, 0, 0));
}

/* mount: a tmpfs over /tmp; with a capability in the own user namespace this simply works. */
static enum verdict mount_tmpfs(const struct attack *self)
{
    (void) self;
    return refused(call(SYS_mount, (long) "none", (long) "/tmp", (long) "tmpfs", 0, 0, 0));
}

static enum verdict remount_root(const struct attack *self)
{
    (void) self;
    return refused(
        call(SYS_mount, (long) "none", (long) "/usr", 0, 0x20 /* MS_REMOUNT */ | 0x1000, 0, 0));
}

static enum verdict fsopen_tmpfs(const struct attack *self)
{
    (void) self;
    return refused(call(428 + 2 /* fsopen */, (long) "tmpfs", 0, 0, 0, 0, 0));
}

static enum verdict open_tree_clone(const struct attack *self)
{
    (void) self;
    return refused(
        call(428, AT_FDCWD, (long) "/usr", 1 /* OPEN_TREE_CLONE */ | O_CLOEXEC, 0, 0, 0));
}

static enum verdict chroot_up(const struct attack *self)
{
    (void) self;
    return refused(call(SYS_chroot, (long) "/tmp", 0, 0, 0, 0, 0));
}

static enum verdict pivot(const struct attack *self)
{
    (void) self;
    return refused(call(SYS_pivot_root, (long) "/tmp", (long) "/tmp", 0, 0, 0, 0));
}

static enum verdict set_hostname(const struct attack *self)
{
    return refused(call(self->arg[0], (long) "evil", 4, 0, 0, 0, 0));
}

static enum verdict handle_open(const struct attack *self)
{
    (void) self;
    struct {
        unsigned bytes;
        int type;
        unsigned char handle[64];
    } h = { .bytes = 64 };
    int mount_id;
    if (call(SYS_name_to_handle_at, AT_FDCWD, (long) "/usr/bin", (long) &h, (long) &mount_id, 0,
             0) < 0 &&
        errno == EOPNOTSUPP)
        h.bytes =
            8; /* an overlay without export support: any handle does, the call is what counts */
    return refused(call(SYS_open_by_handle_at, AT_FDCWD, (long) &h, O_RDONLY, 0, 0, 0));
}

static enum verdict trace_a_child(const struct attack *self)
{
    (void) self;
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    long r = call(SYS_ptrace, 0x4206 /* PTRACE_SEIZE */, pid, 0, 0, 0, 0);
    int saved = errno;
    call(SYS_kill, pid, 9, 0, 0, 0, 0);
    errno = saved;
    return refused(r);
}

static enum verdict read_a_childs_memory(const struct attack *self)
{
    static char secret[] = "secret";
    char got[8] = "";
    struct {
        void *base;
        unsigned long len;
    } local = { got, 6 }, remote = { secret, 6 };
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    long r = call(self->arg[0], pid, (long) &local, 1, (long) &remote, 1, 0);
    int saved = errno;
    call(SYS_kill, pid, 9, 0, 0, 0, 0);
    errno = saved;
    return refused(r);
}

static enum verdict steal_a_descriptor(const struct attack *self)
{
    (void) self;
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    long pidfd = call(SYS_pidfd_open, pid, 0, 0, 0, 0, 0);
    long r = call(438 /* pidfd_getfd */, pidfd, 1, 0, 0, 0, 0);
    int saved = errno;
    call(SYS_kill, pid, 9, 0, 0, 0, 0);
    errno = saved;
    return refused(r);
}

static enum verdict compare_objects(const struct attack *self)
{
    (void) self;
    return refused(call(SYS_kcmp, getpid(), getpid(), 1 /* KCMP_VM */, 0, 0, 0));
}

/* No time that could be set is safe to ask for, so this one is refused even to root, and the filter is its only wall.
 * settimeofday can ask for nothing at all, which only root may. */
static enum verdict set_clock(const struct attack *self)
{
    (void) self;
    struct timespec t = { 0, -1 };
    return refused(call(SYS_clock_settime, CLOCK_REALTIME, (long) &t, 0, 0, 0, 0));
}

static enum verdict adjust_clock(const struct attack *self)
{
    struct timex tx;
    memset(&tx, 0, sizeof(tx));
    tx.modes = ADJ_TICK;
    tx.tick = 1; /* out of range: EINVAL once the capability is there */
    if (self->arg[0] == SYS_adjtimex)
        return refused(call(SYS_adjtimex, (long) &tx, 0, 0, 0, 0, 0));
    return refused(call(SYS_clock_adjtime, CLOCK_REALTIME, (long) &tx, 0, 0, 0, 0));
}

static enum verdict change_personality(const struct attack *self)
{
    (void) self;
    return refused(call(SYS_personality, 0x0040000 /* ADDR_NO_RANDOMIZE */, 0, 0, 0, 0, 0));
}

static enum verdict set_mm(const struct attack *self)
{
    (void) self;
    return refused(call(SYS_prctl, 35 /* PR_SET_MM */, 8, 1, 0, 1 /* must be 0 */, 0));
}

/* In a session of its own there is no terminal to hang up, whoever started us. */
static enum verdict hang_up(const struct attack *self)
{
    (void) self;
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(setsid() > 0 ? (int) refused(call(SYS_vhangup, 0, 0, 0, 0, 0, 0)) : CONTAINED);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == BREACH ? BREACH : CONTAINED;
}

static enum verdict make_node(const struct attack *self)
{
    char path[] = "/tmp/node-XXXXXX";
    snprintf(path, sizeof(path), "/tmp/node-%ld", self->arg[1]);
    long r = call(SYS_mknodat, AT_FDCWD, (long) path, self->arg[0] | 0600, self->arg[1], 0, 0);
    if (r == 0)
        unlink(path);
    return refused(r);
}

static enum verdict limit_another(const struct attack *self)
{
    (void) self;
    unsigned long limit[2] = { 64, 64 };
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    long r = call(SYS_prlimit64, pid, 7 /* NOFILE */, (long) limit, 0, 0, 0);
    int saved = errno;
    call(SYS_kill, pid, 9, 0, 0, 0, 0);
    errno = saved;
    return refused(r);
}

#define PLAIN(name, number, a, b, c) \
    { \
        name, "R14", W_SECCOMP, 0, try_call, { number, a, b, c }, NULL \
    }
#define CAPABLE(name, number, a, b, c) \
    { \
        name, "R14", W_SECCOMP | W_CAPS, 0, try_call, { number, a, b, c }, NULL \
    }
/* The kernel wants the capability in the initial user namespace: only a wall-less root engine gets past it. */
#define OF_HOST W_SECCOMP | W_CAPS | W_USERNS, NEEDS_ROOT_ENGINE
#define HOSTROOT(name, number, a, b, c, host) \
    { \
        name, "R14", OF_HOST, try_call, { number, a, b, c }, host \
    }
#define NODE(name, type, major, minor) \
    { \
        "mknod_" name, "R9", W_LANDLOCK | OF_HOST, make_node, { type, ((major) << 8) | (minor) }, \
            NULL \
    }

const struct attack attacks_calls[] = {
    { "mount_tmpfs", "R14", W_SECCOMP | W_CAPS | W_LANDLOCK, 0, mount_tmpfs, { 0 }, NULL },
    { "remount_usr_writable", "R6", W_SECCOMP | W_CAPS | W_LANDLOCK, 0, remount_root, { 0 }, NULL },
    { "pivot_root", "R14", W_SECCOMP | W_CAPS | W_LANDLOCK, SPOILS_SANDBOX, pivot, { 0 }, NULL },
    /* MNT_EXPIRE: marks, takes nothing away */
    { "umount2",
      "R14",
      W_SECCOMP | W_CAPS | W_LANDLOCK,
      0,
      try_call,
      { SYS_umount2, (long) "/tmp", 4 },
      NULL },
    { "fsopen", "R14", W_SECCOMP | W_CAPS, 0, fsopen_tmpfs, { 0 }, NULL },
    { "open_tree_clone", "R14", W_SECCOMP | W_CAPS, 0, open_tree_clone, { 0 }, NULL },
    { "chroot", "R14", W_SECCOMP | W_CAPS, 0, chroot_up, { 0 }, NULL },
    PLAIN("fsconfig", 431, -1, 0, 0),
    CAPABLE("fsmount", 432, -1, 0, 0),
    CAPABLE("fspick", 433, AT_FDCWD, (long) "/nowhere", 0),
    CAPABLE("move_mount", 429, -1, (long) "", -1),
    PLAIN("mount_setattr", 442, -1, (long) "", 0),
    { "sethostname", "R14", W_SECCOMP | W_CAPS, 0, set_hostname, { SYS_sethostname }, NULL },
    { "setdomainname", "R14", W_SECCOMP | W_CAPS, 0, set_hostname, { SYS_setdomainname }, NULL },
    { "open_by_handle_at", "R14 (shocker)", OF_HOST, handle_open, { 0 }, NULL },
    { "ptrace_a_child", "R15", W_SECCOMP, 0, trace_a_child, { 0 }, NULL },
    { "process_vm_readv",
      "R15",
      W_SECCOMP,
      0,
      read_a_childs_memory,
      { SYS_process_vm_readv },
      NULL },
    { "process_vm_writev",
      "R15",
      W_SECCOMP,
      0,
      read_a_childs_memory,
      { SYS_process_vm_writev },
      NULL },
    { "pidfd_getfd", "R15", W_SECCOMP, 0, steal_a_descriptor, { 0 }, NULL },
    { "kcmp", "R15", W_SECCOMP, 0, compare_objects, { 0 }, NULL },
    PLAIN("process_madvise", 440, -1, 0, 0),
    PLAIN("move_pages", SYS_move_pages, 0, 0, 0),
    PLAIN("migrate_pages", SYS_migrate_pages, 0, 0, 0),
    HOSTROOT("init_module", SYS_init_module, 0, 0, 0, "/proc/modules"),
    HOSTROOT("finit_module", SYS_finit_module, -1, 0, 0, "/proc/modules"),
    HOSTROOT("delete_module", SYS_delete_module, 0, 0, 0, "/proc/modules"),
    HOSTROOT("kexec_load", SYS_kexec_load, 0, 999999, 0, "/sys/kernel/kexec_loaded"),
    PLAIN("bpf", SYS_bpf, 7 /* BPF_OBJ_GET of no name */, 0, 0),
    PLAIN("perf_event_open", SYS_perf_event_open, 0, 0, -1),
    PLAIN("userfaultfd", SYS_userfaultfd, 1 /* user mode only: for everybody */, 0, 0),
    PLAIN("io_uring_setup", 425, 1, 0, 0),
    PLAIN("io_uring_enter", 426, -1, 0, 0),
    PLAIN("io_uring_register", 427, -1, 0, 0),
    /* the host counts requests of all together: one sandbox could take them from everybody */
    PLAIN("io_setup", SYS_io_setup, 1, 0, 0),
    PLAIN("merge_memory", SYS_prctl, 67 /* PR_SET_MEMORY_MERGE */, 0, 1 /* must be 0 */),
    PLAIN("merge_pages", SYS_madvise, 1 /* no page */, 4096, 12 /* MADV_MERGEABLE */),
    PLAIN("fanotify_init", SYS_fanotify_init, 0x200 /* FAN_REPORT_FID: for everybody */, 0, 0),
    PLAIN("quotactl", SYS_quotactl, -1, 0, 0),
    HOSTROOT("swapon", SYS_swapon, 0, 0, 0, "/proc/swaps"),
    HOSTROOT("swapoff", SYS_swapoff, 0, 0, 0, "/proc/swaps"),
    CAPABLE("reboot", SYS_reboot, 0 /* no magic number */, 0, 0),
    HOSTROOT("syslog", SYS_syslog, 2, 0 /* nowhere to read to */, 0, NULL),
    { "vhangup", "R14", OF_HOST, hang_up, { 0 }, NULL },
    HOSTROOT("acct", SYS_acct, (long) "/nowhere/at/all", 0, 0, "/proc/sys/kernel/acct"),
    PLAIN("keyctl", SYS_keyctl, 0, -3, 0),
    PLAIN("add_key", SYS_add_key, 0, 0, 0),
    PLAIN("request_key", SYS_request_key, 0, 0, 0),
    HOSTROOT("settimeofday", SYS_settimeofday, 0, 0, 0, NULL),
    { "clock_settime", "R14", W_SECCOMP, 0, set_clock, { 0 }, NULL },
    /* What it asks for lies in memory, where no filter can look: reading the clock's state is for everybody. */
    { "adjtimex", "R14", W_CAPS | W_USERNS, 0, adjust_clock, { SYS_adjtimex }, NULL },
    { "clock_adjtime", "R14", W_CAPS | W_USERNS, 0, adjust_clock, { SYS_clock_adjtime }, NULL },
    { "personality", "R14", W_SECCOMP, 0, change_personality, { 0 }, NULL },
    { "prctl_set_mm", "R14", W_SECCOMP, 0, set_mm, { 0 }, NULL },
    NODE("mem", 0020000, 1, 1),
    NODE("kmsg", 0020000, 1, 11),
    NODE("disk", 0060000, 254, 0),
    NODE("loop", 0060000, 7, 0),
    { "prlimit_another_process", "R15", W_SECCOMP, 0, limit_another, { 0 }, NULL },
#ifdef __x86_64__
    HOSTROOT("ioperm", SYS_ioperm, 0x70, 4, 1,
             "call:173"), /* gives this process a right that it doesn't use */
    HOSTROOT("iopl", SYS_iopl, 3, 0, 0, "call:172"),
    PLAIN("modify_ldt", SYS_modify_ldt, 0, 0, 0),
    HOSTROOT("kexec_file_load", SYS_kexec_file_load, -1, -1, 0, "/sys/kernel/kexec_loaded"),
#endif
    { 0 },
};
