/* Where sandboxes live: one table of functions, filled by local/ (this machine) and by daytona/ (a service elsewhere).
 *
 * Theory of operation. Core checks arguments, composes, collects and counts; a backend does. Whatever may take time takes
 * an operation (core/op.h) and ends it later, from the engine's loop. After a box's connection is lost every request on it
 * ends in CSN_E_LOST. Strings and errors given to callbacks are valid during the call only. */
#ifndef CSN_CORE_BACKEND_H
#define CSN_CORE_BACKEND_H

#include <caisson/files.h>
#include <caisson/process.h>
#include <caisson/sandbox.h>
#include <caisson/volume.h>

#include "base/loop.h"
#include "core/op.h"
#include "core/wish.h"

typedef struct csn_backend csn_backend;
typedef struct csn_box csn_box;
typedef struct csn_exec csn_exec;

/* One place with sandboxes; embedded at the start of the backend's own struct. */
struct csn_backend {
    const struct csn_backend_ops *ops;
    csn_loop *loop;     /* borrowed from the engine */
    csn_engine *engine; /* borrowed; for operations of its own */
};

/* One sandbox as its backend knows it; embedded likewise. Counted: handles and requests hold it. */
struct csn_box {
    const struct csn_backend_ops *ops;
    csn_backend *backend; /* NULL once the engine was closed: handles may live longer */
    csn_wish wish;
    csn_state state;
    int keeper_pid, init_pid;
    csn_receipt facts; /* walls and limits in force, valid while started */
    unsigned n_refs;
};

/* One command; embedded likewise. Owned by whoever started it, until exec_free. */
struct csn_exec {
    csn_box *box; /* counted */
    const struct csn_exec_events *events;
    void *user;
    uint32_t id;
    bool is_started, is_ended;
    csn_receipt receipt; /* whole once is_ended */
};

typedef struct csn_exec_spec {
    const char *const *argv; /* NULL at the end; for is_shell one text */
    char *const *env;        /* complete */
    const char *cwd;
    bool is_shell, is_pty, is_background, has_channel, is_merged, as_root, kill_on_limit, is_last;
    uint16_t rows, cols;
    int64_t timeout_ms, output_bytes; /* < 0: none */
    csn_stdin stdin_kind;
    const void *stdin_data; /* borrowed until the end */
    size_t stdin_len;
    int stdin_fd; /* borrowed until the end */
    int64_t linger_ms; /* <= 0: none */
    const int *own_fds; /* NULL, or the caller's stdin, stdout, stderr; borrowed until the call returns */
} csn_exec_spec;

typedef struct csn_exec_events {
    void (*started)(csn_exec *exec, int result, const csn_error *err);
    int (*output)(csn_exec *exec, csn_stream stream, const void *data, size_t len); /* 1: pause */
    void (*ended)(csn_exec *exec); /* after the last output */
} csn_exec_events;

/* What is known of a background command's log. */
typedef struct csn_log_piece {
    size_t len;
    csn_stream stream;
    int64_t offset; /* of the first byte given: later than asked when the log's head was dropped */
    bool is_end;
} csn_log_piece;

enum { CSN_FILE_OPEN = 100, CSN_FILE_CONNECT }; /* beside csn_file_verb: yield a descriptor */

typedef struct csn_file_call {
    uint32_t verb;
    uint32_t flags; /* CONNECT: the port */
    int32_t mode;
    uint32_t max_results;
    const char *path, *arg, *arg2; /* copied by the call */
    csn_file_fn on_file;
    csn_match_fn on_match;
    void *user;
} csn_file_call;

/* Whole contents: into a file inside, or out of it. */
typedef struct csn_put_call {
    const char *path; /* copied by the call */
    csn_file_source
        from;      /* its data is borrowed until the end; the descriptor until the call returns */
    uint32_t mode; /* 0: as it is, or 0644 */
} csn_put_call;

typedef struct csn_get_call {
    const char *path; /* copied by the call */
    csn_file_sink to; /* max_bytes 0: no bound. The descriptor is borrowed until the call returns */
} csn_get_call;

/* A verb that a backend has not is NULL: core then asks `cannot` for the words. Every function that takes an operation is as
 * core/op.h says; `err` may be NULL. */
typedef struct csn_backend_ops {
    const char *name;
    bool is_remote;                             /* no state directory, no keepers */
    csn_backend *(*free)(csn_backend *backend); /* attached boxes are gone when it returns */
    const char *(*place)(csn_backend *backend); /* the state directory, a URL */
    /* "the remote backend can't fork a sandbox": `box` may be NULL. Returns the code. */
    int (*cannot)(const csn_box *box, const char *what, csn_error *err);
    int (*gc)(csn_backend *backend, csn_op *op, csn_error *err); /* value.n: how many */

    /* These yield a box: they end by csn_op_end_box(). create: `wish` is taken on success. fork: `own` is what is not the
     * parent's (see csn_wish_fork()); NULL: nothing. */
    int (*create)(csn_backend *backend, csn_wish *wish, csn_op *op, csn_error *err);
    int (*fork)(csn_box *box, csn_wish *own, csn_op *op, csn_error *err);
    int (*find)(csn_backend *backend, const char *id_or_name, csn_op *op, csn_error *err);

    int (*list)(csn_backend *backend, csn_sandbox_list_fn fn, void *user, csn_op *op,
                csn_error *err);
    int (*lend)(csn_box *box, int *ret_fd, csn_error *err);
    /* `wish` and `fd` are taken on success. */
    int (*borrow)(csn_backend *backend, csn_wish *wish, int fd, csn_box **ret_box, csn_error *err);
    void (*box_free)(csn_box *box); /* the last reference went */

    int (*refresh)(csn_box *box, csn_op *op, csn_error *err); /* state and wish are true again */
    int (*set_labels)(csn_box *box, const char *const *labels, csn_op *op, csn_error *err);
    int (*resize)(csn_box *box, int64_t memory_bytes, int64_t cpu_milli, int64_t disk_bytes,
                  csn_op *op, csn_error *err);
    int (*set_timers)(csn_box *box, int64_t ttl_ms, int64_t idle_stop_ms, csn_op *op,
                      csn_error *err);
    int (*start)(csn_box *box, csn_op *op, csn_error *err);
    int (*stop)(csn_box *box, int grace_ms, csn_op *op, csn_error *err);
    int (*delete)(csn_box *box, csn_op *op, csn_error *err); /* op may be NULL */
    int (*stat)(csn_box *box, csn_op *op, csn_error *err);   /* value.stat */
    int (*snapshot)(csn_box *box, const char *image, csn_op *op, csn_error *err);

    int (*exec)(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events, void *user,
                csn_exec **ret_exec, csn_error *err);
    int (*attach)(csn_box *box, uint32_t id, const csn_exec_events *events, void *user,
                  csn_exec **ret_exec, csn_error *err);
    int (*list_execs)(csn_box *box, csn_process_list_fn fn, void *user, csn_op *op, csn_error *err);
    csn_exec *(*exec_free)(csn_exec *exec); /* an attached one that runs is killed */
    int (*exec_signal)(csn_exec *exec, int signal, bool whole_tree, csn_ending ending, csn_op *op,
                       csn_error *err); /* op may be NULL */
    int (*exec_write)(csn_exec *exec, const void *data, size_t len, size_t *ret_n, csn_error *err);
    int (*exec_close_stdin)(csn_exec *exec, csn_error *err);
    void (*exec_resume)(csn_exec *exec);
    int (*exec_resize)(csn_exec *exec, uint16_t rows, uint16_t cols, csn_error *err);
    /* Borrowed descriptor, -1: none. which: 0 the channel, else a csn_stream's pipe. */
    int (*exec_channel)(csn_exec *exec, int which);
    int (*exec_read_log)(csn_exec *exec, int64_t offset, void *data, size_t size,
                         csn_log_piece *ret_piece, csn_error *err);
    /* offset < 0: only the end. until_closed: growth after the end as well, until nobody can write any more. */
    int (*exec_wait)(csn_exec *exec, int64_t offset, bool until_closed, csn_op *op, csn_error *err);

    int (*file)(csn_box *box, const csn_file_call *call, csn_op *op,
                csn_error *err); /* value.file */
    int (*put)(csn_box *box, const csn_put_call *call, csn_op *op,
               csn_error *err); /* value.content */
    int (*get)(csn_box *box, const csn_get_call *call, csn_op *op, csn_error *err); /* likewise */

    int (*image_import)(csn_backend *backend, const char *name, const char *path, csn_op *op,
                        csn_error *err);
    int (*image_build_debian)(csn_backend *backend, const char *name, const char *const *packages,
                              csn_op *op, csn_error *err);
    int (*image_list)(csn_backend *backend, csn_image_fn fn, void *user, csn_op *op,
                      csn_error *err);
    int (*image_inspect)(csn_backend *backend, const char *name, csn_image_fn fn, void *user,
                         csn_op *op, csn_error *err);
    int (*image_remove)(csn_backend *backend, const char *name, csn_op *op, csn_error *err);
    int (*volume_create)(csn_backend *backend, const char *name, csn_op *op, csn_error *err);
    int (*volume_list)(csn_backend *backend, csn_volume_fn fn, void *user, csn_op *op,
                       csn_error *err);
    int (*volume_inspect)(csn_backend *backend, const char *name, csn_volume_fn fn, void *user,
                          csn_op *op, csn_error *err);
    int (*volume_remove)(csn_backend *backend, const char *name, csn_op *op, csn_error *err);
} csn_backend_ops;

/* core/sandbox.c: ends a verb that yields a box. `box`: one reference, taken; NULL on failure. `user` is the operation (or NULL). */
void csn_op_end_box(csn_box *box, int result, const csn_error *err, void *user);
/* The same in the next turn of the loop; the box's reference is taken on success only. */
int csn_op_end_box_later(csn_op *op, csn_box *box, csn_error *err);

static inline csn_box *csn_box_ref(csn_box *box)
{
    box->n_refs++;
    return box;
}

static inline csn_box *csn_box_unref(csn_box *box)
{
    if (box && --box->n_refs == 0)
        box->ops->box_free(box);
    return NULL;
}

/* core/content.c: put and get for a backend whose `file` opens files and hands out descriptors. */
int csn_content_put(csn_box *box, const csn_put_call *call, csn_op *op, csn_error *err);
int csn_content_get(csn_box *box, const csn_get_call *call, csn_op *op, csn_error *err);

#endif
