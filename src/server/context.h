/* SPDX-License-Identifier: Apache-2.0 */
/* An interpreter context: a Python process inside that keeps its names from run to run.
 *
 * Theory of operation. The worker (context.py) is an attached command, started when a run needs it. Its stdin is a socket to
 * us for code and ends of runs; its stdout and stderr are pipes to us, read as they fill. Runs wait in a queue and go one at a
 * time. When the worker says that a run is over, all it printed is in the pipes: they are emptied, then the run ends.
 * A run over its time gets SIGINT; if it does not end within two seconds the worker is killed with all its children, and the
 * next run starts another with no memory of the first. */
#ifndef CSN_SERVER_CONTEXT_H
#define CSN_SERVER_CONTEXT_H

#include <caisson/process.h>

#include "base/json.h"
#include "base/list.h"
#include "base/loop.h"
#include "server/tap.h"

enum {
    CSN_CONTEXT_GRACE_MS = 2000,
    CSN_CONTEXT_QUEUE_MAX = 64,
    CSN_CONTEXT_WAITING_MAX = 32 << 20,
    CSN_CONTEXT_CODE_MAX = 16 << 20
};

typedef struct csn_context csn_context;
typedef struct csn_ctxrun csn_ctxrun;

typedef enum csn_ctxrun_end {
    CSN_CTXRUN_COMPLETED, /* also after an error of the code's own */
    CSN_CTXRUN_TIMEOUT,
    CSN_CTXRUN_LOST /* the worker could not be started or went away: `why` says what is known */
} csn_ctxrun_end;

typedef struct csn_ctxrun_events {
    void (*output)(csn_ctxrun *run, csn_stream stream, const char *data, size_t len, void *user);
    void (*error)(csn_ctxrun *run, const char *name, const char *value, const char *traceback,
                  void *user);
    void (*end)(csn_ctxrun *run, csn_ctxrun_end how, const char *why,
                void *user); /* last; the run is gone after */
} csn_ctxrun_events;

/* env, cwd, id: copied. NULL: no memory. */
csn_context *csn_context_new(csn_loop *loop, csn_sandbox *box, const char *id, const char *cwd,
                             const char *const *env);
csn_context *
csn_context_free(csn_context *context); /* its runs end as lost; NULL is fine; always NULL */

/* Queues a run. code: copied; envs: an object of strings or NULL, copied; timeout_ms <= 0: none. */
int csn_context_run(csn_context *context, const char *code, size_t len, const csn_json *envs,
                    int64_t timeout_ms, const csn_ctxrun_events *events, void *user,
                    csn_ctxrun **ret, csn_error *err);
/* Nobody listens any more: waiting runs are forgotten, a running one is interrupted. No event follows. */
void csn_ctxrun_cancel(csn_ctxrun *run);
/* Stops and goes on giving output; a program that prints much waits meanwhile. */
void csn_ctxrun_pause(csn_ctxrun *run, bool is_paused);

struct csn_context {
    csn_list link; /* the owner's */
    csn_loop *loop;
    csn_sandbox *box; /* borrowed */
    char *id, *cwd;
    char **env;
    int64_t created_ms;
    csn_list runs; /* waiting, oldest first */
    size_t n_runs, n_waiting_bytes;
    csn_ctxrun *running;
    int64_t last_id;
    csn_process *worker;
    csn_op *worker_coming;
    int fd; /* our end of the socket; -1: none */
    csn_source *source;
    csn_buf in, out;
    csn_tap stdout_tap, stderr_tap;
    csn_timer deadline, grace;
    bool is_failing; /* being given up: no new worker from inside */
};

#endif
