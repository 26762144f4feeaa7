/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_INIT_TEST_BOX_H
#define CSN_INIT_TEST_BOX_H

/* An init in a PID namespace of its own, without the other walls, and a keeper's end of its socket to talk to it. */

#include <stdbool.h>
#include <sys/types.h>

#include "wire/filereq.h"
#include "wire/frame.h"

typedef struct box {
    int sock;        /* the keeper's end */
    pid_t outer;     /* PID 1 of the namespace, seen from here */
    const char *dir; /* a directory that user 1000 may write, the same inside and outside */
} box;

typedef struct box_options {
    bool as_root;     /* init runs as root, as in the profile "root inside"; else as 1000 */
    bool real_binary; /* the program that is shipped, not the sources in this test */
    /* dir is on a tmpfs, if there is one: a disk may make thousands of changes wait */
    bool in_memory;
} box_options;

box box_start(box_options options); /* skips the test when it can't */
void box_end(box *b);

typedef struct command {
    const char *const *argv, *const *env;
    const char *cwd;
    uint32_t process, flags, fds, uid;
    int stdio[3];
    uint16_t rows, cols;
} command;

void box_spawn(box *b, command c);
void box_kill(box *b, uint32_t process, int sig, bool whole_tree);
/* Waits for the next frame, at most thirty seconds; fails the test when there is none. */
csn_msg box_hear(box *b);
csn_init_started box_hear_started(box *b, int *ret_master);
csn_init_exited box_hear_exited(box *b);
csn_init_failed box_hear_failed(box *b);

/* Spawns with stdout and stderr on one pipe, reads it to the end, hears STARTED and EXITED. Output lives until the next. */
const char *box_output(box *b, command c, csn_init_exited *ret_exited);
/* Reads until `text` was seen on fd or thirty seconds passed. */
void wait_for_text(int fd, const char *text);

/* A file request as the given user: the channel's near end. */
int box_ask(box *b, const csn_filereq *req, uint32_t uid);
csn_msg hear_on(int sock, uint32_t said, char *buf);
/* Asks, ignores entries, returns the final word. */
csn_file_done box_do(box *b, const csn_filereq *req);

int run_outside(const char *const *argv); /* a program of the host: 0 when it exits with 0 */
int count_processes(box *b);              /* in the namespace, init included */

void wait_for_processes(box *b, int n); /* until there are n of them */

#define ARGV(...) ((const char *const[]){ __VA_ARGS__, NULL })

#endif
