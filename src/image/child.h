/* A helper program on the engine's loop: started, listened to, reaped. The library never forks without exec. */
#ifndef CSN_IMAGE_CHILD_H
#define CSN_IMAGE_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include <caisson/error.h>

#include "base/buf.h"
#include "base/loop.h"

typedef struct csn_child csn_child;
typedef void csn_child_fn(csn_child *child, void *user);

/* Embedded; CSN_CHILD_INIT is one that never ran. */
struct csn_child {
    pid_t pid; /* 0: none; leader of its own process group */
    int pidfd, out_fd;
    csn_source *pid_src, *out_src;
    csn_buf text;  /* what it wrote, at most TEXT_MAX bytes, then the rest is read and dropped */
    int exit_code; /* 128 + signal for one that was killed */
    csn_child_fn *done;
    void *user;
};

#define CSN_CHILD_INIT \
    { \
        .pidfd = -1, .out_fd = -1, .text = CSN_BUF_INIT \
    }

/* Starts `program` (a path, or a name to be found in PATH) with descriptors 0, 1, 2 … taken from fds (borrowed), the one at
 * index `out` a pipe to us instead; all others closed. `done` runs from the loop once the program has ended and all it
 * said was read. */
int csn_child_start(csn_child *child, csn_loop *loop, const char *program, char *const argv[],
                    const int *fds, size_t n_fds, size_t out, csn_child_fn *done, void *user,
                    csn_error *err);

/* Kills it and all of its process group if it runs, reaps it, frees what it wrote. `done` doesn't run. */
void csn_child_done(csn_child *child);

#endif
