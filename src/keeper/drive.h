/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KEEPER_DRIVE_H
#define CSN_KEEPER_DRIVE_H

/* The keeper as its client sees it, for tests: frames in, frames out. Every function ends the test when something is not
 * as it should be. Works as root and without privilege. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <caisson/engine.h>
#include <caisson/receipt.h>

#include "wire/frame.h"
#include "wire/plan.h"

typedef struct box {
    const char *state;
    char id[33];
    int fd;
    pid_t keeper;
    uint32_t seq;
    csn_plan plan;
    csn_box_state ready;
    char buf[CSN_FRAME_MAX];
    csn_msg msg;
} box;

void make_dir(const char *state, const char *path);
void make_file(const char *state, const char *path, const char *text);
void make_link(const char *state, const char *path, const char *target);
void make_base(const char *state, const char *base);
const char *make_state(void);
bool state_has(const char *state, const char *path);
void start_keeper(box *b);
uint32_t ask(box *b, uint32_t type, const void *fixed, size_t len, const void *rest,
             size_t rest_len, const int *fds, size_t n_fds);
/* The next frame; 0 when the keeper has hung up. */
uint32_t hear(box *b);
void expect(box *b, uint32_t type);
void send_plan(box *b);
void new_box(box *b, const char *state, uint32_t flags);
void end_quietly(void *user);
void start_box(box *b, const char *state, uint32_t flags);
uint32_t spawn_with(box *b, const char *shell, csn_spawn spawn, const int *fds, size_t n_fds);
uint32_t started(box *b);
csn_process_state exited(box *b);
/* Runs a shell text; its output goes to `out`. */
csn_process_state run(box *b, const char *shell, char *out, size_t size);
void stop_box(box *b, int grace_ms, bool delete_too);
void check_gone(box *b);
csn_process_state wait_log(box *b, uint32_t process, int64_t offset);
size_t attach(box *b, uint32_t process, int fds[3]);
void connect_box(box *b);

#endif
