/* Where sandboxes come from: one table of functions, filled once per backend. Everything is started and answered
 * later from inside dispatch(), on the same thread; `done` is never called from inside the call that starts it. */
#ifndef CSN_ARENA_BACKEND_H
#define CSN_ARENA_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include <caisson/arena.h>
#include <caisson/process.h>

typedef struct csn_box csn_box; /* a sandbox of some backend */

typedef struct csn_box_options {
    const char *image;
    csn_network network;
    int64_t memory_bytes, cpu_milli, pids, disk_bytes;
    uint32_t strict;
} csn_box_options;

/* Bytes to put inside: from memory, or from a local file when host_path is set. Borrowed until `done`. */
typedef struct csn_upload {
    const char *path;
    const void *data;
    size_t len;
    const char *host_path;
    uint32_t mode;
} csn_upload;

typedef struct csn_exec_request {
    const char *const *argv; /* or */
    const char *shell;
    const char *const *env;
    const char *cwd;
    int64_t timeout_ms;
    bool only_stdout; /* the second stream is not wanted: with argv only */
} csn_exec_request;

typedef void csn_box_done(csn_box *box, int result, const csn_error *err, void *user);
typedef void csn_box_output(csn_stream stream, const void *data, size_t len, void *user);
/* receipt is NULL when the command could not be started; result and err say why. */
typedef void csn_box_exit(const csn_receipt *receipt, int result, const csn_error *err, void *user);
/* data is malloc()ed and the callee's; NULL on failure. */
typedef void csn_box_data(char *data, size_t len, int result, const csn_error *err, void *user);

typedef struct csn_backend_ops {
    const char *mode; /* "local", "daytona" */
    const char *tag;  /* of log lines: "Sandbox", "Daytona" */
    int (*create)(void *context, const csn_box_options *opts, csn_box_done *done, void *user,
                  csn_error *err);
    const char *(*id)(const csn_box *box);
    int (*put)(csn_box *box, const csn_upload *upload, csn_done_fn done, void *user,
               csn_error *err);
    int (*exec)(csn_box *box, const csn_exec_request *request, csn_box_output *output,
                csn_box_exit *done, void *user, csn_error *err);
    /* A regular file of at most max_bytes; larger: CSN_E_TOO_LARGE with the size in the message. */
    int (*get)(csn_box *box, const char *path, size_t max_bytes, csn_box_data *done, void *user,
               csn_error *err);
    /* Whatever was started and not answered never will be. */
    void (*abandon)(csn_box *box);
    int (*remove)(csn_box *box, csn_done_fn done, void *user, csn_error *err);
    void (*free)(csn_box *box); /* lets go of the handle */
    int (*fd)(void *context);
    int (*dispatch)(void *context, csn_error *err);
} csn_backend_ops;

typedef struct csn_backend {
    const csn_backend_ops *ops;
    void *context; /* of create, fd and dispatch: the engine */
} csn_backend;

extern const csn_backend_ops csn_backend_local, csn_backend_daytona;

#endif
