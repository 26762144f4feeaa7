/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal with a shell, and those who look at it (WIRE 9.4). What it printed last is kept, so that a client that comes
 * later sees the screen's recent past. A client that does not keep up holds the others up, as on a real terminal. */
#ifndef CSN_SERVER_PTY_H
#define CSN_SERVER_PTY_H

#include <caisson/process.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/loop.h"

enum { CSN_PTY_PAST = 64 << 10, CSN_PTY_INPUT_MAX = 1 << 20, CSN_PTY_SIZE_MAX = 1000 };

typedef struct csn_pty csn_pty;

/* One who looks; embedded, zero before use. Callbacks may remove the viewer. */
typedef struct csn_pty_viewer csn_pty_viewer;
struct csn_pty_viewer {
    csn_list link;
    bool is_full; /* output returned false; csn_pty_drained() clears it */
    bool (*output)(csn_pty_viewer *viewer, const char *data, size_t len);
    /* The end; reason "" for exit 0. The viewer has been removed. */
    void (*ended)(csn_pty_viewer *viewer, int exit_code, const char *reason);
    void (*failed)(csn_pty_viewer *viewer, const char *why); /* it could not be started; likewise */
};

struct csn_pty {
    csn_list link; /* the owner's */
    csn_loop *loop;
    csn_sandbox *box; /* borrowed */
    char *id, *cwd;
    char **env;
    uint16_t cols, rows;
    bool is_lazy, is_killed;
    int64_t created_ms;
    csn_process *process;
    csn_op *coming;
    csn_list viewers;
    csn_buf past, input;
    csn_timer input_timer;
    void (*gone)(csn_pty *pty, void *user); /* it has ended, and is freed after */
    void *gone_user;
    /* it runs, or is about to be freed; NULL: nobody notes it */
    void (*note)(const csn_pty *pty, bool is_there, void *user);
    void *note_user;
};

csn_pty *csn_pty_new(csn_loop *loop, csn_sandbox *box, const char *id, const char *cwd,
                     const char *const *env, uint16_t cols, uint16_t rows); /* NULL: no memory */
int csn_pty_start(csn_pty *pty, csn_error *err);                            /* no-op when it runs */
void csn_pty_kill(csn_pty *pty);     /* viewers hear of its end */
csn_pty *csn_pty_free(csn_pty *pty); /* killed too; viewers hear of it; NULL is fine; always NULL */

void csn_pty_view(csn_pty *pty, csn_pty_viewer *viewer); /* the past is given at once */
void csn_pty_unview(csn_pty *pty, csn_pty_viewer *viewer);
void csn_pty_drained(csn_pty *pty, csn_pty_viewer *viewer);
/* 0, or -E2BIG: the program reads none of it. */
int csn_pty_write(csn_pty *pty, const char *data, size_t len);
int csn_pty_resize(csn_pty *pty, uint16_t cols, uint16_t rows, csn_error *err);

#endif
