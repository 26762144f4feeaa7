/* SPDX-License-Identifier: Apache-2.0 */
/* Makes BPF of seccomp_table.h: `gen-seccomp OUT.h`. Runs on the machine we are built on.
 *
 * A program looks at the architecture, then finds the number in a balanced tree of ranges (one
 * instruction per range, some seven executed), then returns or looks at arguments. The kernel
 * remembers which numbers are always allowed, so ordinary calls don't even run it. */

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seccomp_table.h"

#define MAX_CODE   512
#define MAX_RANGES 512
#define MAX_NUMBER 600 /* behind the last call of any table */

#define NR          0
#define ARCH        4
#define ARG(i)      (16 + 8 * (i)) /* low half: both architectures are little-endian */
#define ARG_HIGH(i) (ARG(i) + 4)

/* The errnos of both architectures; the build machine's might differ. */
enum { E_PERM = 1, E_NOSYS = 38, E_PROTONOSUPPORT = 93, E_AFNOSUPPORT = 97 };

/* Jump targets: one per rule, some more inside the blocks, and the ends. */
enum label {
    NEXT = -1, /* the following instruction */
    L_RULES = 0,
    L_DEVICE_MODE = CSN_RULE_N,
    L_UNIX,
    L_INET,
    L_INET_PROTOCOL,
    L_NETLINK,
    L_OTHER_PID,
    L_NO_FAMILY,
    L_NO_PROTOCOL,
    L_INNER, /* and further ones for the tree */
    L_MAX = L_INNER + MAX_RANGES,
};

struct range {
    uint32_t first;
    enum csn_rule rule;
};

static struct {
    struct sock_filter code[MAX_CODE];
    int jt[MAX_CODE], jf[MAX_CODE]; /* labels of jumps */
    size_t n;
    int place[L_MAX];
    int n_inner;
} out;

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void) vfprintf(stderr, fmt, args);
    va_end(args);
    (void) fputc('\n', stderr);
    exit(1);
}

static void put(unsigned code, uint32_t k, int jt, int jf)
{
    if (out.n == MAX_CODE)
        fail("program too long");
    out.code[out.n] = (struct sock_filter){ (uint16_t) code, 0, 0, k };
    out.jt[out.n] = jt;
    out.jf[out.n++] = jf;
}

static void here(int label)
{
    out.place[label] = (int) out.n;
}

static void load(uint32_t offset)
{
    put(BPF_LD | BPF_W | BPF_ABS, offset, NEXT, NEXT);
}

static void mask(uint32_t bits)
{
    put(BPF_ALU | BPF_AND | BPF_K, bits, NEXT, NEXT);
}

static void if_equal(uint32_t k, int then, int otherwise)
{
    put(BPF_JMP | BPF_JEQ | BPF_K, k, then, otherwise);
}

static void if_bits(uint32_t k, int then, int otherwise)
{
    put(BPF_JMP | BPF_JSET | BPF_K, k, then, otherwise);
}

static void give(int label, uint32_t action)
{
    here(label);
    put(BPF_RET | BPF_K, action, NEXT, NEXT);
}

static void if_any(const uint32_t *values, size_t n, int then, int otherwise)
{
    for (size_t i = 0; i < n; i++)
        if_equal(values[i], then, i + 1 == n ? otherwise : NEXT);
}

#define IF_ANY(values, then, otherwise) \
    if_any(values, sizeof(values) / sizeof((values)[0]), then, otherwise)

/* ---- arguments ---- */

static void block_flags(enum csn_rule rule, uint32_t bits)
{
    here((int) rule);
    load(ARG(0));
    if_bits(bits, CSN_RULE_REFUSE, CSN_RULE_ALLOW);
}

static void block_personality(void)
{
    here(CSN_RULE_PERSONALITY);
    load(ARG(0));
    IF_ANY(csn_personalities, CSN_RULE_ALLOW, CSN_RULE_REFUSE);
}

static void block_ioctl(void)
{
    here(CSN_RULE_IOCTL);
    load(ARG(1));
    IF_ANY(csn_refused_ioctls, CSN_RULE_REFUSE, CSN_RULE_ALLOW);
}

static void block_mknod(void)
{
    here(CSN_RULE_MKNODAT);
    load(ARG(2));
    put(BPF_JMP | BPF_JA, 0, L_DEVICE_MODE, NEXT);
    here(CSN_RULE_MKNOD);
    load(ARG(1));
    here(L_DEVICE_MODE);
    mask(0xf000);
    if_equal(0x2000, CSN_RULE_REFUSE, NEXT);           /* S_IFCHR */
    if_equal(0x6000, CSN_RULE_REFUSE, CSN_RULE_ALLOW); /* S_IFBLK */
}

static void block_prctl(void)
{
    here(CSN_RULE_PRCTL);
    load(ARG(0));
    IF_ANY(csn_refused_prctls, CSN_RULE_REFUSE, CSN_RULE_ALLOW);
}

static void block_madvise(void)
{
    here(CSN_RULE_MADVISE);
    load(ARG(2));
    if_equal(12, CSN_RULE_REFUSE, CSN_RULE_ALLOW); /* MADV_MERGEABLE */
}

static void block_prlimit(void)
{
    here(CSN_RULE_PRLIMIT);
    load(ARG(2));
    if_equal(0, NEXT, L_OTHER_PID);
    load(ARG_HIGH(2));
    if_equal(0, CSN_RULE_ALLOW, L_OTHER_PID);
    here(L_OTHER_PID);
    load(ARG(0));
    if_equal(0, CSN_RULE_ALLOW, CSN_RULE_REFUSE);
}

static void block_socketpair(void)
{
    here(CSN_RULE_SOCKETPAIR);
    load(ARG(0));
    if_equal(1, CSN_RULE_ALLOW, L_NO_FAMILY);
}

static void block_setsockopt(void)
{
    here(CSN_RULE_SETSOCKOPT);
    load(ARG(1));
    if_equal(CSN_SOL_SOCKET, NEXT, CSN_RULE_ALLOW);
    load(ARG(2));
    IF_ANY(csn_refused_sockopts, CSN_RULE_REFUSE, CSN_RULE_ALLOW);
}

/* Raw types give EPERM, as the kernel does to those without CAP_NET_RAW. */
static void block_socket(void)
{
    here(CSN_RULE_SOCKET);
    load(ARG(0));
    if_equal(1, L_UNIX, NEXT);
    if_equal(2, L_INET, NEXT);
    if_equal(10, L_INET, NEXT);
    if_equal(16, L_NETLINK, L_NO_FAMILY);
    here(L_UNIX);
    load(ARG(1));
    mask(0xf);
    if_equal(3, CSN_RULE_REFUSE, CSN_RULE_ALLOW);
    here(L_INET);
    load(ARG(1));
    mask(0xf);
    if_equal(1, L_INET_PROTOCOL, NEXT);
    if_equal(2, L_INET_PROTOCOL, CSN_RULE_REFUSE);
    here(L_INET_PROTOCOL);
    load(ARG(2));
    IF_ANY(csn_inet_protocols, CSN_RULE_ALLOW, L_NO_PROTOCOL);
    here(L_NETLINK);
    load(ARG(2));
    if_equal(0, CSN_RULE_ALLOW, L_NO_FAMILY); /* NETLINK_ROUTE */
}

static void blocks(void)
{
    block_flags(CSN_RULE_CLONE, CSN_NEW_NAMESPACES);
    block_flags(CSN_RULE_UNSHARE, CSN_NEW_NAMESPACES | CSN_NEW_TIME);
    block_personality();
    block_ioctl();
    block_mknod();
    block_prctl();
    block_madvise();
    block_prlimit();
    block_socketpair();
    block_setsockopt();
    block_socket();
}

static void ends(void)
{
    give(CSN_RULE_ALLOW, SECCOMP_RET_ALLOW);
    give(CSN_RULE_ABSENT, SECCOMP_RET_ERRNO | E_NOSYS);
    give(CSN_RULE_REFUSE, SECCOMP_RET_ERRNO | E_PERM);
    give(L_NO_FAMILY, SECCOMP_RET_ERRNO | E_AFNOSUPPORT);
    give(L_NO_PROTOCOL, SECCOMP_RET_ERRNO | E_PROTONOSUPPORT);
    give(CSN_RULE_KILL, SECCOMP_RET_KILL_PROCESS);
}

/* ---- numbers ---- */

enum profile { DEFAULT, DEBUG, KEEPER };

static enum csn_rule rule_in(const struct csn_call *call, enum profile profile)
{
    if (profile == KEEPER && !call->keeper)
        return call->rule == CSN_RULE_ABSENT ? CSN_RULE_ABSENT : CSN_RULE_REFUSE;
    if (profile == KEEPER && call->rule <= CSN_RULE_DEBUG)
        return CSN_RULE_ALLOW;
    if (call->rule == CSN_RULE_DEBUG)
        return profile == DEBUG ? CSN_RULE_ALLOW : CSN_RULE_REFUSE;
    return call->rule;
}

static size_t make_ranges(enum profile profile, bool is_x86, struct range ranges[MAX_RANGES])
{
    enum csn_rule by_number[MAX_NUMBER] = { CSN_RULE_ABSENT };
    bool seen[MAX_NUMBER] = { false };
    size_t n = 0;

    for (size_t i = 0; i < CSN_N_CALLS; i++) {
        int number = is_x86 ? csn_calls[i].x86_64 : csn_calls[i].aarch64;
        if (number < 0)
            continue;
        if (number >= MAX_NUMBER - 1 || seen[number])
            fail("%s: number %d is too large or used twice", csn_calls[i].name, number);
        seen[number] = true;
        by_number[number] = rule_in(&csn_calls[i], profile);
    }
    for (uint32_t i = 0; i < MAX_NUMBER; i++) /* the last is free, so the tail is ABSENT */
        if (n == 0 || ranges[n - 1].rule != by_number[i])
            ranges[n++] = (struct range){ i, by_number[i] };
    if (is_x86) { /* -1 is a cancelled call, not an x32 one */
        ranges[n++] = (struct range){ CSN_X32_BIT, CSN_RULE_KILL };
        ranges[n++] = (struct range){ 0xffffffff, CSN_RULE_ABSENT };
    }
    return n;
}

/* Halves until one range is left; that is a jump to its rule. */
static void tree(const struct range *ranges, size_t n)
{
    size_t half = n / 2;
    int right = n - half == 1 ? (int) ranges[half].rule : L_INNER + out.n_inner++;
    int left = half == 1 ? (int) ranges[0].rule : NEXT;

    put(BPF_JMP | BPF_JGE | BPF_K, ranges[half].first, right, left);
    if (half > 1)
        tree(ranges, half);
    if (n - half > 1) {
        here(right);
        tree(ranges + half, n - half);
    }
}

static int distance(size_t from, int label)
{
    int d = label == NEXT ? 0 : out.place[label] - (int) from - 1;

    if (d < 0 || (label != NEXT && out.place[label] == 0))
        fail("jump at %zu to label %d: backwards or nowhere", from, label);
    return d;
}

static void resolve(void)
{
    for (size_t i = 0; i < out.n; i++) {
        struct sock_filter *f = &out.code[i];
        if (f->code == (BPF_JMP | BPF_JA)) {
            f->k = (uint32_t) distance(i, out.jt[i]);
        } else if (BPF_CLASS(f->code) == BPF_JMP) {
            int t = distance(i, out.jt[i]), e = distance(i, out.jf[i]);
            if (t > 255 || e > 255)
                fail("jump at %zu is too far", i);
            f->jt = (uint8_t) t;
            f->jf = (uint8_t) e;
        }
    }
}

static void compile(enum profile profile, bool is_x86)
{
    static struct range ranges[MAX_RANGES];
    size_t n = make_ranges(profile, is_x86, ranges);

    memset(&out, 0, sizeof(out));
    load(ARCH);
    if_equal(is_x86 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64, NEXT, CSN_RULE_KILL);
    load(NR);
    tree(ranges, n);
    blocks();
    ends();
    resolve();
}

static void print(FILE *f, const char *arch, const char *profile)
{
    (void) fprintf(f,
                   "/* %zu instructions */\nstatic const struct sock_filter csn_bpf_%s_%s[] = {\n",
                   out.n, arch, profile);
    for (size_t i = 0; i < out.n; i++)
        (void) fprintf(f, "    { 0x%02x, %u, %u, 0x%08x },\n", out.code[i].code, out.code[i].jt,
                       out.code[i].jf, out.code[i].k);
    (void) fprintf(f, "};\n");
}

int main(int argc, char **argv)
{
    static const char *const profiles[] = { "default", "debug", "keeper" };
    FILE *f = argc == 2 ? fopen(argv[1], "w") : NULL;

    if (!f)
        fail("usage: gen-seccomp OUT.h");
    (void) fprintf(f, "/* Made by gen_seccomp from seccomp_table.h. */\n");
    for (int arch = 0; arch < 2; arch++) {
        const char *name = arch ? "aarch64" : "x86_64";
        (void) fprintf(f, "#if defined(__%s__) || defined(CSN_BPF_ALL)\n", name);
        for (int p = 0; p < 3; p++) {
            compile((enum profile) p, arch == 0);
            print(f, name, profiles[p]);
        }
        (void) fprintf(f, "#endif\n");
    }
    if (fclose(f) != 0)
        fail("can't write %s", argv[1]);
    return 0;
}
