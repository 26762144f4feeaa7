/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_INIT_CHILD_H
#define CSN_INIT_CHILD_H

/* From the shepherd's child to the program: the last steps before exec. */

#include <sys/types.h>

#include "wire/spec.h"

typedef struct csn_child {
    const csn_spec *spec; /* two free places stand before its argv[0] */
    uint32_t flags;       /* CSN_SPAWN_… */
    int stdio
        [4]; /* -1: /dev/null, which is already there; the last, if any, becomes descriptor 3 */
    int tty; /* -1: none; else stdin, stdout, stderr and controlling terminal */
    uid_t uid;
    gid_t gid;
    int change_user;
    /* Written by the child: where it failed and why. 0: the program runs. */
    volatile int stage, error;
} csn_child;

/* Runs on memory shared with the waiting shepherd; returns only when it failed. */
int csn_child_run(void *child);

/* exec.c: with PATH lookup and the shell for scripts without #!. Returns the errno that counts. */
int csn_exec(const csn_spec *spec, int is_shell);

/* A terminal of the sandbox's own devpts. 0 or -errno. */
int csn_tty_open(unsigned short rows, unsigned short cols, uid_t owner, int *ret_master,
                 int *ret_slave);

const char *csn_home_of(uid_t uid);

#endif
