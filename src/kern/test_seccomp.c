/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kern/seccomp.h"

#define CSN_BPF_ALL
#include "csn_test.h"
#include "kern/caps.h"
#include "kern/missing.h"
#include "kern/seccomp_bpf.h"
#include "kern/seccomp_table.h"
#include "kern/test_confined.h"

#define ERR(e) (SECCOMP_RET_ERRNO | (e))

/* ---- a small BPF machine ---- */

static uint32_t load(const struct seccomp_data *d, uint32_t offset)
{
    uint32_t word;

    CHECK(offset % 4 == 0 && offset + 4 <= sizeof(*d));
    memcpy(&word, (const char *) d + offset, 4);
    return word;
}

static bool jumps(const struct sock_filter *f, uint32_t a)
{
    switch (BPF_OP(f->code)) {
    case BPF_JEQ:
        return a == f->k;
    case BPF_JGE:
        return a >= f->k;
    case BPF_JSET:
        return (a & f->k) != 0;
    default:
        FAIL("unexpected jump %#x", f->code);
    }
}

static uint32_t run(const struct sock_filter *code, size_t len, const struct seccomp_data *d)
{
    uint32_t a = 0;

    for (size_t pc = 0; pc < len; pc++) {
        const struct sock_filter *f = &code[pc];
        if (f->code == (BPF_LD | BPF_W | BPF_ABS))
            a = load(d, f->k);
        else if (f->code == (BPF_ALU | BPF_AND | BPF_K))
            a &= f->k;
        else if (f->code == (BPF_RET | BPF_K))
            return f->k;
        else if (f->code == (BPF_JMP | BPF_JA))
            pc += f->k;
        else if (BPF_CLASS(f->code) == BPF_JMP)
            pc += jumps(f, a) ? f->jt : f->jf;
        else
            FAIL("unexpected instruction %#x", f->code);
    }
    FAIL("ran off the end");
}

/* ---- what the table means, in plain words ---- */

static bool is_in(uint32_t value, const uint32_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (values[i] == value)
            return true;
    return false;
}
#define IS_IN(value, values) is_in(value, values, sizeof(values) / sizeof((values)[0]))

static uint32_t socket_means(const uint64_t *args)
{
    uint32_t family = (uint32_t) args[0], type = (uint32_t) args[1] & 0xf,
             proto = (uint32_t) args[2];

    if (family == AF_NETLINK)
        return proto == 0 ? SECCOMP_RET_ALLOW : ERR(EAFNOSUPPORT);
    if (family == AF_UNIX)
        return type == SOCK_RAW ? ERR(EPERM) : SECCOMP_RET_ALLOW;
    if (family != AF_INET && family != AF_INET6)
        return ERR(EAFNOSUPPORT);
    if (type != SOCK_STREAM && type != SOCK_DGRAM)
        return ERR(EPERM);
    return IS_IN(proto, csn_inet_protocols) ? SECCOMP_RET_ALLOW : ERR(EPROTONOSUPPORT);
}

static bool by_argument(enum csn_rule rule, const uint64_t *args)
{
    switch ((int) rule) {
    case CSN_RULE_CLONE:
        return !(args[0] & 0x7E020000);
    case CSN_RULE_UNSHARE:
        return !(args[0] & 0x7E020080);
    case CSN_RULE_PERSONALITY:
        return IS_IN((uint32_t) args[0], csn_personalities);
    case CSN_RULE_IOCTL:
        return !IS_IN((uint32_t) args[1], csn_refused_ioctls);
    case CSN_RULE_MKNOD:
        return !S_ISCHR(args[1] & 0xffff) && !S_ISBLK(args[1] & 0xffff);
    case CSN_RULE_MKNODAT:
        return !S_ISCHR(args[2] & 0xffff) && !S_ISBLK(args[2] & 0xffff);
    case CSN_RULE_PRCTL:
        return !IS_IN((uint32_t) args[0], csn_refused_prctls);
    case CSN_RULE_MADVISE:
        return (uint32_t) args[2] != 12;
    case CSN_RULE_SETSOCKOPT:
        return (uint32_t) args[1] != SOL_SOCKET || !IS_IN((uint32_t) args[2], csn_refused_sockopts);
    case CSN_RULE_PRLIMIT:
        return args[2] == 0 || (uint32_t) args[0] == 0;
    default:
        return rule == CSN_RULE_ALLOW;
    }
}

static uint32_t rule_means(enum csn_rule rule, const uint64_t *args)
{
    if (rule == CSN_RULE_ABSENT)
        return ERR(ENOSYS);
    if (rule == CSN_RULE_KILL)
        return SECCOMP_RET_KILL_PROCESS;
    if (rule == CSN_RULE_SOCKET)
        return socket_means(args);
    if (rule == CSN_RULE_SOCKETPAIR)
        return (uint32_t) args[0] == AF_UNIX ? SECCOMP_RET_ALLOW : ERR(EAFNOSUPPORT);
    return by_argument(rule, args) ? SECCOMP_RET_ALLOW : ERR(EPERM);
}

static const struct csn_call *call_of(uint32_t nr, bool is_x86)
{
    for (size_t i = 0; i < CSN_N_CALLS; i++) {
        int number = is_x86 ? csn_calls[i].x86_64 : csn_calls[i].aarch64;
        if (number >= 0 && (uint32_t) number == nr)
            return &csn_calls[i];
    }
    return NULL;
}

static uint32_t table_means(enum csn_seccomp_profile profile, bool is_x86,
                            const struct seccomp_data *d)
{
    uint32_t nr = (uint32_t) d->nr;
    uint64_t args[6];

    memcpy(args, d->args, sizeof(args));
    if (d->arch != (is_x86 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64))
        return SECCOMP_RET_KILL_PROCESS;
    if (is_x86 && nr >= CSN_X32_BIT && nr != 0xffffffff) /* no native number is there either */
        return SECCOMP_RET_KILL_PROCESS;
    const struct csn_call *call = call_of(nr, is_x86);
    if (!call)
        return ERR(ENOSYS);
    if (profile == CSN_SECCOMP_KEEPER && !call->keeper)
        return call->rule == CSN_RULE_ABSENT ? ERR(ENOSYS) : ERR(EPERM);
    if (profile == CSN_SECCOMP_KEEPER && call->rule < CSN_RULE_CLONE)
        return SECCOMP_RET_ALLOW;
    if (profile == CSN_SECCOMP_DEBUG && call->rule == CSN_RULE_DEBUG)
        return SECCOMP_RET_ALLOW;
    return rule_means(call->rule, args);
}

/* ---- the sweep ---- */

static const uint64_t interesting[] = {
    0,
    1,
    2,
    3,
    5,
    6,
    8,
    10,
    12,
    16,
    17,
    26,
    35,
    40,
    50,
    51,
    52,
    58,
    67,
    132,
    262,
    0x2000,
    0x2180,
    0x6000,
    0x61b6,
    0x8180,
    0x12000,
    0x5412,
    0x541c,
    0x541d,
    0x5423,
    0x5401,
    0x20000,
    0x20008,
    0x40000,
    0x80,
    0x10000000,
    0x02000000,
    0x04000000,
    0x08000000,
    0x20000000,
    0x40000000,
    0x003d0f00,
    0xffffffff,
    0x80803,
    0x100005412,
    0x100000000,
    0x1002000000000,
    0xffffffffffffffff,
};
#define N_INTERESTING (sizeof(interesting) / sizeof(interesting[0]))

static const struct {
    const char *name;
    enum csn_seccomp_profile profile;
    bool is_x86;
    const struct sock_filter *code;
    size_t len;
} programs[] = {
#define P(arch, x86, name, profile) \
    { \
#arch " " #name, profile, x86, csn_bpf_##arch##_##name, \
            sizeof(csn_bpf_##arch##_##name) / sizeof(struct sock_filter) \
    }
    P(x86_64, true, default, CSN_SECCOMP_DEFAULT), P(aarch64, false, default, CSN_SECCOMP_DEFAULT),
    P(x86_64, true, debug, CSN_SECCOMP_DEBUG),     P(aarch64, false, debug, CSN_SECCOMP_DEBUG),
    P(x86_64, true, keeper, CSN_SECCOMP_KEEPER),   P(aarch64, false, keeper, CSN_SECCOMP_KEEPER),
};

static void compare(size_t p, const struct seccomp_data *d)
{
    uint32_t got = run(programs[p].code, programs[p].len, d);
    uint32_t want = table_means(programs[p].profile, programs[p].is_x86, d);

    if (got != want)
        FAIL("%s: arch %#x nr %#x (%#llx, %#llx, %#llx): filter %#x, table %#x", programs[p].name,
             d->arch, (unsigned) d->nr, (unsigned long long) d->args[0],
             (unsigned long long) d->args[1], (unsigned long long) d->args[2], got, want);
}

/* Every pair of interesting values in each two of the first three arguments, for calls whose
 * arguments matter; a few for the others, to see that they don't. */
static void sweep_args(size_t p, uint32_t arch, uint32_t nr)
{
    struct seccomp_data d = { .nr = (int) nr, .arch = arch };
    const struct csn_call *call = call_of(nr, programs[p].is_x86);

    for (size_t i = 0; i < N_INTERESTING; i++) {
        d.args[0] = d.args[1] = d.args[2] = interesting[i];
        compare(p, &d);
    }
    if (!call || call->rule < CSN_RULE_CLONE)
        return;
    for (size_t i = 0; i < N_INTERESTING; i++)
        for (size_t k = 0; k < N_INTERESTING; k++)
            for (int fixed = 0; fixed < 3; fixed++) {
                d.args[(fixed + 1) % 3] = interesting[i];
                d.args[(fixed + 2) % 3] = interesting[k];
                for (uint64_t third = 0; third < 3; third++) {
                    d.args[fixed] = third;
                    compare(p, &d);
                }
            }
}

TEST(the_filters_say_what_the_table_says)
{
    for (size_t p = 0; p < sizeof(programs) / sizeof(programs[0]); p++) {
        uint32_t own = programs[p].is_x86 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;
        for (uint32_t nr = 0; nr <= 600; nr++)
            sweep_args(p, own, nr);
    }
}

TEST(other_architectures_and_x32_numbers_are_killed)
{
    static const uint32_t archs[] = {
        AUDIT_ARCH_I386, AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64, AUDIT_ARCH_ARM, 0, 0xffffffff
    };
    static const uint32_t odd[] = { 0x3fffffff, 0x40000000, 0x40000200, 0x40000221, 0x7fffffff,
                                    0x80000000, 0xc0000000, 0xfffffffe, 0xffffffff };

    for (size_t p = 0; p < sizeof(programs) / sizeof(programs[0]); p++)
        for (size_t a = 0; a < sizeof(archs) / sizeof(archs[0]); a++) {
            struct seccomp_data d = { .arch = archs[a] };
            for (uint32_t nr = 0; nr <= 600; nr++) {
                d.nr = (int) nr;
                compare(p, &d);
                d.nr = (int) (nr | CSN_X32_BIT);
                compare(p, &d);
            }
            for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
                d.nr = (int) odd[i];
                compare(p, &d);
            }
        }
}

TEST(every_family_type_and_protocol_of_sockets)
{
    for (size_t p = 0; p < 2; p++) {
        const struct csn_call *call = NULL;
        for (size_t i = 0; i < CSN_N_CALLS; i++)
            if (!strcmp(csn_calls[i].name, "socket"))
                call = &csn_calls[i];
        CHECK(call);
        struct seccomp_data d = { .nr = programs[p].is_x86 ? call->x86_64 : call->aarch64 };
        d.arch = programs[p].is_x86 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;
        for (d.args[0] = 0; d.args[0] < 48; d.args[0]++)
            for (d.args[1] = 0; d.args[1] < 16; d.args[1]++)
                for (d.args[2] = 0; d.args[2] < 300; d.args[2]++)
                    compare(p, &d);
    }
}

TEST(the_table_matches_the_headers_of_this_system)
{
#define SAME(call) \
    for (size_t i = 0; i < CSN_N_CALLS; i++) \
        if (!strcmp(csn_calls[i].name, #call)) \
    CHECK_INT(IS_X86 ? csn_calls[i].x86_64 : csn_calls[i].aarch64, SYS_##call)
#ifdef __x86_64__
#define IS_X86 true
#else
#define IS_X86 false
#endif
    SAME(clone);
    SAME(mount);
    SAME(ptrace);
    SAME(socket);
    SAME(prlimit64);
    SAME(ioctl);
    SAME(mknodat);
    SAME(openat2);
    SAME(setns);
    SAME(unshare);
    SAME(keyctl);
    SAME(personality);
}

/* ---- for real ---- */

/* What the call gives in a child behind the filter: 0 or errno; 1000 + signal when it died. */
static int tried(enum csn_seccomp_profile profile, const long call[7])
{
    pid_t pid = fork();
    int status = 0;

    CHECK(pid >= 0);
    if (pid == 0) {
        (void) setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        if (csn_no_new_privs() < 0 || csn_seccomp_install(profile, 0) < 0)
            _exit(255);
        long r = syscall(call[0], call[1], call[2], call[3], call[4], call[5], call[6]);
        _exit(r < 0 ? errno : 0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

#define TRY(...) tried(CSN_SECCOMP_DEFAULT, (const long[7]){ __VA_ARGS__ })

TEST(refused_calls_are_refused_by_the_kernel)
{
    for (size_t i = 0; i < CSN_N_CALLS; i++) {
        int nr = IS_X86 ? csn_calls[i].x86_64 : csn_calls[i].aarch64;
        enum csn_rule rule = csn_calls[i].rule;
        if (nr < 0 ||
            (rule != CSN_RULE_REFUSE && rule != CSN_RULE_ABSENT && rule != CSN_RULE_DEBUG))
            continue;
        int got = TRY(nr, -1, -1, -1, -1, -1, -1);
        if (got != (rule == CSN_RULE_ABSENT ? ENOSYS : EPERM))
            FAIL("%s gave %d", csn_calls[i].name, got);
    }
    CHECK_INT(TRY(599), ENOSYS);
    CHECK_INT(TRY(-1), ENOSYS);
}

TEST(arguments_decide_for_real)
{
    struct rlimit limit = { 0, 0 };

    CHECK_INT(TRY(SYS_unshare, CLONE_NEWUSER), EPERM);
    CHECK_INT(TRY(SYS_unshare, 0x80), EPERM);
    CHECK_INT(TRY(SYS_unshare, CLONE_FILES), 0);
    CHECK_INT(TRY(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), EPERM);
    CHECK_INT(TRY(SYS_clone3, 0, 0), ENOSYS);
    CHECK_INT(TRY(SYS_personality, 0xffffffff), 0);
    CHECK_INT(TRY(SYS_personality, 0x0040000), EPERM);
    CHECK_INT(TRY(SYS_socket, AF_UNIX, SOCK_STREAM, 0), 0);
    CHECK_INT(TRY(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), 0);
    CHECK_INT(TRY(SYS_socket, AF_INET, SOCK_RAW, 1), EPERM);
    CHECK_INT(TRY(SYS_socket, AF_NETLINK, SOCK_RAW, 0), 0);
    CHECK_INT(TRY(SYS_socket, AF_NETLINK, SOCK_RAW, 12), EAFNOSUPPORT);
    CHECK_INT(TRY(SYS_socket, 40 /* VSOCK */, SOCK_STREAM, 0), EAFNOSUPPORT);
    CHECK_INT(TRY(SYS_socket, 38 /* ALG */, SOCK_SEQPACKET, 0), EAFNOSUPPORT);
    CHECK_INT(TRY(SYS_socketpair, AF_INET, SOCK_STREAM, 0, 0), EAFNOSUPPORT);
    CHECK_INT(TRY(SYS_setsockopt, -1, SOL_SOCKET, 26 /* SO_ATTACH_FILTER */, 0, 0), EPERM);
    CHECK_INT(TRY(SYS_setsockopt, -1, SOL_SOCKET, 52 /* SO_ATTACH_REUSEPORT_EBPF */, 0, 0), EPERM);
    CHECK_INT(TRY(SYS_setsockopt, -1, SOL_SOCKET, 27 /* SO_DETACH_FILTER */, 0, 0), EBADF);
    CHECK_INT(TRY(SYS_setsockopt, -1, 6 /* TCP */, 26, 0, 0), EBADF);
    CHECK_INT(TRY(SYS_ioctl, 0, 0x5412, 0), EPERM);
    CHECK_INT(TRY(SYS_ioctl, 0, 0x100005412, 0), EPERM);
    CHECK_INT(TRY(SYS_mknodat, -1, (long) "x", S_IFCHR | 0600, 0), EPERM);
    CHECK_INT(TRY(SYS_mknodat, -1, (long) "x", S_IFIFO | 0600, 0), EBADF);
    CHECK_INT(TRY(SYS_prctl, 35, 0, 0, 0, 0), EPERM);
    CHECK_INT(TRY(SYS_prctl, 67, 1, 0, 0, 0), EPERM);
    CHECK_INT(TRY(SYS_madvise, 0, 0, 12, 0, 0), EPERM);
    CHECK_INT(TRY(SYS_prlimit64, 0, RLIMIT_CORE, (long) &limit, 0), 0);
    CHECK_INT(TRY(SYS_prlimit64, 1, RLIMIT_CORE, (long) &limit, 0), EPERM);
}

TEST(debugging_allows_ptrace_and_nothing_else)
{
    CHECK_INT(tried(CSN_SECCOMP_DEBUG, (const long[7]){ SYS_ptrace, 0 /* TRACEME */ }), 0);
    CHECK_INT(tried(CSN_SECCOMP_DEBUG, (const long[7]){ SYS_mount }), EPERM);
    CHECK_INT(tried(CSN_SECCOMP_DEBUG, (const long[7]){ SYS_pidfd_getfd, -1 }), EPERM);
}

#ifdef __x86_64__
static int by_int80(void)
{
    long r;

    __asm__ volatile("int $0x80" : "=a"(r) : "a"(20L /* getpid */) : "memory");
    return r > 0 ? 1 : 0;
}

TEST(the_32_bit_entry_and_x32_numbers_kill_the_process)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        (void) setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        if (csn_no_new_privs() < 0 || csn_seccomp_install(CSN_SECCOMP_DEFAULT, 0) < 0)
            _exit(255);
        _exit(by_int80());
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    CHECK_INT(TRY(SYS_getpid | 0x40000000), 1000 + SIGSYS);
}
#endif

TEST(ordinary_programs_work_behind_the_filter)
{
    static const char script[] =
        "set -e; d=$(mktemp -d); cd $d; echo hi >a; ln a b; ln -s a c; mkfifo f; chmod 600 a; "
        "cat a | sort | uniq >o; (sleep 0.01 & wait); rm -r $d";
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        if (csn_no_new_privs() < 0 || csn_seccomp_install(CSN_SECCOMP_DEFAULT, 0) < 0)
            _exit(255);
        (void) execl("/bin/sh", "sh", "-c", script, (char *) NULL);
        _exit(127);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

TEST(a_filter_needs_no_new_privs_or_privilege_and_can_be_stacked)
{
    CHECK_INT(csn_seccomp_install(CSN_SECCOMP_N_PROFILES, 0), -EINVAL);
    CHECK_INT(csn_no_new_privs(), 0);
    CHECK_INT(csn_seccomp_install(CSN_SECCOMP_DEFAULT, 0), 0);
    CHECK_INT(csn_seccomp_install(CSN_SECCOMP_DEFAULT, 0), 0);
}
