/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_SECCOMP_H
#define CSN_KERN_SECCOMP_H

#include <stddef.h>
#include <stdint.h>

/* The system call filters. One table (seccomp_table.h) says what each call may do; gen_seccomp
 * turns it into BPF at build time, so nothing is computed when a sandbox starts. */

struct sock_filter;

enum csn_seccomp_profile {
    CSN_SECCOMP_DEFAULT, /* code in a sandbox */
    CSN_SECCOMP_DEBUG,   /* the same, and ptrace among the sandbox's own processes */
    CSN_SECCOMP_KEEPER,  /* the keeper itself once its sandbox stands */
    CSN_SECCOMP_N_PROFILES,
};

#define CSN_SECCOMP_LOG (1u << 0) /* denied calls go to the kernel's audit log */

/* Installs the filter for every thread of this process; it can't be taken off again. Needs
 * no_new_privs (set it first, csn_no_new_privs()) or CAP_SYS_ADMIN. */
int csn_seccomp_install(enum csn_seccomp_profile profile, unsigned flags);

/* The program for this build's architecture, for tests and for `doctor`. */
const struct sock_filter *csn_seccomp_program(enum csn_seccomp_profile profile, size_t *ret_len);

#endif
