/* SPDX-License-Identifier: Apache-2.0 */
/* The reading end of a pipe whose other end is given to a command: bytes as they come, then the end once. */
#ifndef CSN_SERVER_TAP_H
#define CSN_SERVER_TAP_H

#include "base/loop.h"

typedef struct csn_tap csn_tap;

/* len 0: nobody holds the other end any more; the tap is closed already. May close the tap, and free what holds it. */
typedef void csn_tap_fn(csn_tap *tap, const char *data, size_t len, void *user);

struct csn_tap {
    int fd; /* -1: closed */
    csn_source *source;
    csn_loop *loop;
    csn_tap_fn *fn;
    void *user;
    /* while fn runs with bytes: becomes true when the tap is closed, and maybe freed, in it */
    bool *is_gone;
};

#define CSN_TAP_INIT \
    { \
        .fd = -1 \
    }

/* Makes the pipe; the writing end is the caller's to hand on and close. 0 or -errno. */
int csn_tap_open(csn_tap *tap, csn_loop *loop, csn_tap_fn *fn, void *user, int *ret_far_fd);
/* Everything that is there now, at most a full pipe twice over. False: the tap was closed in fn, and may be gone. */
bool csn_tap_drain(csn_tap *tap);
/* Stops and goes on reading; a writer blocks once the pipe is full. */
void csn_tap_pause(csn_tap *tap, bool is_paused);
void csn_tap_close(csn_tap *tap);

#endif
