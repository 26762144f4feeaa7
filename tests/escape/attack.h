/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_TESTS_ATTACK_H
#define CSN_TESTS_ATTACK_H

/* The attacker's program. `attacks run NAME` makes one attempt from inside a sandbox and says how it went by its exit
 * status; `attacks list` prints the table for the host side (test_escape.c), which runs each attempt with all
 * walls up, where it must be contained; with the walls the row names switched off, where it must succeed (an attempt that
 * cannot succeed even then proves nothing and is a failure of the test itself); and with all of these but one, for each,
 * where it must be contained again: a row names walls that hold alone. Nothing is done to the host even then: calls are
 * made with arguments that the kernel refuses after it has looked at the caller's rights, files are opened, not written. */

#include <stdint.h>

enum verdict {
    CONTAINED = 0,
    BREACH = 10,
    CANNOT_TELL = 20, /* what the attempt needs is absent; the reason is on stdout */
};

/* Walls as bits of CSN_WALL_… in <caisson/engine.h>, repeated as letters so that this program needs no header of ours. */
enum {
    W_USERNS = 1 << 0,
    W_NS = 1 << 1,
    W_NET = 1 << 2,
    W_ROOT = 1 << 3,
    W_PROC = 1 << 4,
    W_DEV = 1 << 5,
    W_CAPS = 1 << 6,
    W_NNP = 1 << 7,
    W_SECCOMP = 1 << 8,
    W_LANDLOCK = 1 << 9,
    W_RLIMITS = 1 << 10,
    W_IDS = 1 << 11,
    W_NESTING = 1 << 12,
};

enum { /* attack.needs */
       NEEDS_ROOT_ENGINE =
           1, /* the walls-off half needs a privileged engine; the walls-on half runs everywhere */
       NEEDS_CANARY = 2,   /* gets the host's canaries as arguments: see `canary` below */
       SPOILS_SANDBOX = 4, /* when it succeeds its sandbox is of no use to the next attempt */
};

struct attack {
    const char *name;
    const char *requirement; /* "R13", with a CVE where there is one */
    /* each stops it by itself; all are switched off for the second half. 0: what stops it can't be switched
     * off, so it counts only as contained */
    uint32_t walls;
    uint32_t needs;
    enum verdict (*run)(const struct attack *self);
    long arg[4]; /* for families of attempts that share one function */
    /* Without this on the host nothing is there to be reached: a path, "limit:RESOURCE:NUMBER" for a hard limit above a
     * number, "interface" for a network, "call:NUMBER" for a call the kernel was built with; NULL: every host has it. */
    const char *host;
};

/* What the host planted before the attempt, from the command line. */
struct canary {
    const char *host_file;   /* absolute path of a file on the host */
    const char *host_text;   /* its content */
    const char *host_socket; /* a UNIX socket in the same directory, on which the host listens */
    const char *abstract;    /* name of an abstract socket on which the host listens */
    int tcp_port;            /* on which the host listens on 127.0.0.1 */
    long shm_key;            /* of memory that the host shares with everybody */
    long host_net, host_ipc, host_uts, host_pid, host_mnt, host_user, host_cgroup,
        host_time; /* namespace inodes */
};
extern struct canary canary;

extern const struct attack attacks_calls[], attacks_nesting[], attacks_sockets[],
    attacks_terminal[], attacks_proc[], attacks_dev[], attacks_root[], attacks_init[],
    attacks_identity[], attacks_limits[], attacks_abi[], attacks_reach[];

/* True when a call with these arguments is answered by the filter or the missing capability: -1 with EPERM, ENOSYS,
 * EACCES or EAFNOSUPPORT. Anything else reached code that sandboxed code must not reach. */
enum verdict refused(long result);
long call(long number, long a, long b, long c, long d, long e, long f);
int read_text(const char *path, char *buf, int size); /* length or -errno */

#endif
