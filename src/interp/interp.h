/* The interpreter's inside, shared by the files of this room. */
#ifndef CSN_INTERP_H
#define CSN_INTERP_H

#include <pthread.h>
#include <stdatomic.h>

#include <caisson/interp.h>
#include <caisson/process.h>
#include <caisson/sandbox.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/str.h"
#include "base/time.h"
#include "frame.h"
#include "model.h"
#include "relay.h"
#include "result.h"

#define CSN_MEMORY_ROOT "/home/daytona/memory"
#define CSN_WORK_ROOT   "/home/daytona/workspace"

enum {
    CSN_GRACE_MS = 2000,
    CSN_LOCK_WAIT_MS = 60000,
    CSN_MAX_CALLS = 64,
    CSN_MAX_CHILDREN_TOLD = 100,
    CSN_MAX_TURNS = 200
};

/* What a session is made from; two that are equal can share one. */
typedef struct csn_sources {
    char *repo_url, *repo_ref, *volume_name;
    char **context_paths; /* NULL at the end; never NULL */
} csn_sources;

typedef struct csn_tool {
    csn_list link;
    csn_tool_fn fn;
    void *user;
    char *signature; /* NULL: any */
    char name[];
} csn_tool;

/* One execute, from its call to its result. */
typedef struct csn_job {
    csn_list link;
    int64_t id;
    csn_buf frame; /* the exec message, until it is sent */
    csn_buf code;
    char *profile;
    csn_exec_result *result;
    csn_execute_done_fn done;
    void *user;
    int64_t start_ns;
    int64_t limit_s;
    bool is_lifetime; /* the limit is the sandbox's */
    bool is_timed_out, is_cancelled, is_error_code;
    csn_timer timer;
} csn_job;

/* One host callback under way. Freed by whoever lets go of it last: the interpreter or the thread. */
typedef struct csn_call {
    csn_list link;
    csn_interp *interp;
    int64_t number;
    char *name, *args, *kwargs;
    csn_timer timer;
    csn_buf value;      /* the answer: JSON text, or an error's words */
    const char *raised; /* NULL: value; else the name of the exception */
    bool is_done, is_abandoned;
} csn_call;

/* Something a call's thread needs done on the interpreter's own, which the engine belongs to. */
typedef struct csn_errand {
    csn_list link;
    void (*run)(void *user);
    void *user;
    bool is_done;
} csn_errand;

struct csn_interp {
    csn_engine *engine; /* borrowed */
    csn_interp_options o;
    char **pool; /* strings of `o` */
    size_t n_pool;
    csn_loop *loop;
    csn_source *engine_source;

    csn_sources sources;  /* wished */
    csn_sources in_place; /* what the session has */
    csn_sandbox *box;
    char *workspace;      /* path inside; NULL: none yet */
    csn_buf context_json; /* context_sources as a JSON list */
    csn_buf last_words;   /* on stderr, before it was ready */
    int64_t expires_ns;
    bool is_expired;
    const char *transition; /* "created", "reused" … static */
    bool is_reconfigured, is_degraded, used_fallback;
    const char *failure_category, *failure_phase;
    char *remembered_box, *remembered_workspace; /* imported */
    int64_t remembered_process;
    char *remembered_volume;
    int64_t ms_create, ms_clone, ms_context,
        ms_driver;    /* how long the steps of the last start took */
    bool has_slot;    /* counts among the sandboxes alive at once */
    bool borrows_box; /* it is the parent's: only the interpreter process is ours to end */
    int lock_fd;      /* of a kept session: one program at a time */

    csn_process *process; /* the driver's, or NULL: then */
    csn_relay *relay;     /* the way to it, where the backend hands out no descriptors; or NULL */
    csn_op *watch;             /* for the end of the driver's process; NULL: none */
    int channel_fd, out_fd[2]; /* borrowed from the process or the relay */
    csn_source *channel_source, *out_source[2];
    csn_frame_in in;
    csn_str
        behind_frame; /* what follows the object of the frame being handled; borrowed from `in` */
    csn_list out; /* csn_frame_out */
    int64_t epoch;
    bool is_ready, was_lost, tools_changed;
    bool is_ensuring; /* its session is being looked for */
    int64_t busy_id; /* of an execute that another client left behind */
    int probed;      /* answer to the last probe; 2: none yet */

    char *turns[CSN_MAX_TURNS]; /* JSON objects, the newest last; only with a session_id */
    size_t n_turns;
    char history_since[CSN_ISO8601_SIZE];
    bool has_history, is_history_changed;

    csn_list jobs; /* the first runs once it was sent */
    csn_job *running;
    int64_t next_id;

    csn_list tools;
    csn_buf outputs_json; /* declared fields; empty: any */
    csn_list calls;
    size_t n_calls;
    pthread_mutex_t mutex; /* of calls' is_done and is_abandoned, and n_threads */
    pthread_cond_t idle;
    unsigned n_threads;
    csn_list errands;
    _Atomic(pthread_t) thread; /* the one that runs the loop */
    csn_list evidence;

    size_t n_delegated; /* by the host, since the last execute */
    /* what became of them: JSON objects with commas between; under the mutex */
    csn_buf children_json;
    size_t n_children;

    csn_model *model; /* a child's is its parent's */
    bool owns_model;
    csn_budget *budget;
    csn_budget own_budget;
    int depth;
    atomic_bool is_closing;
};

/* interp.c */
const char *csn_interp_keep(csn_interp *i, const char *text);
int csn_interp_turn(csn_interp *i, int64_t deadline_ns); /* one turn of the loop: 0 or CSN_E_… */
char *csn_libexec(const char *program);                  /* its path; malloc()ed */
bool csn_is_identifier(const char *name);                /* for Python, as far as ASCII goes */
bool csn_is_keyword(const char *name);                   /* of any Python 3 */
void csn_sources_done(csn_sources *s);
int csn_sources_set(csn_sources *s, const char *url, const char *ref, const char *const *paths,
                    const char *volume);
bool csn_sources_equal(const csn_sources *a, const csn_sources *b);
void csn_note_failure(csn_interp *i, const char *category, const char *phase);

/* session.c */
int csn_session_ensure(csn_interp *i, csn_error *err);
void csn_session_drop(csn_interp *i, bool delete_box);
int csn_session_lock(csn_interp *i, csn_error *err);
int csn_session_in_use(csn_error *err); /* CSN_E_BUSY */
/* What another session has in place, for one that gets a copy of its box or the box itself; on the other's thread. */
int csn_session_take(csn_interp *i, const csn_interp *from, csn_error *err);
/* Then the box, which is taken. Starts the interpreter. */
int csn_session_adopt(csn_interp *i, csn_sandbox *box, csn_error *err);

/* slots.c: how many sandboxes this program may have alive at once. Waits up to a minute. */
int csn_slot_take(csn_interp *i, csn_error *err);
void csn_slot_give_back(csn_interp *i);

/* history.c: what was executed, kept on the volume; all are best effort */
void csn_history_load(csn_interp *i);
void csn_history_note(csn_interp *i, const csn_job *job);
void csn_history_save(csn_interp *i);
void csn_history_free(csn_interp *i);

/* sources.c */
char *csn_workspace_of(const char *repo_url); /* malloc()ed path */
int csn_stage_repo(csn_interp *i, csn_error *err);
int csn_stage_context(csn_interp *i, csn_error *err);

/* documents.c: the texts of documents, told inside the sandbox */
const char *csn_documents_program(void); /* Python source */
bool csn_is_document(const char *name);
/* Writes PATH.extracted.txt beside each of `paths` (inside, NULL at the end). For each that has no text: fn. */
int csn_documents_extract(csn_sandbox *box, const char *const *paths,
                          void (*fn)(const char *path, const char *why, void *user), void *user,
                          csn_error *err);

/* worker.c */
int csn_worker_start(csn_interp *i, csn_error *err);
int csn_worker_attach(csn_interp *i, uint32_t process, csn_error *err);
void csn_worker_drop(csn_interp *i);
bool csn_worker_is_there(const csn_interp *i);
uint32_t csn_worker_number(const csn_interp *i); /* for csn_worker_attach(); 0: there is none */
void csn_worker_interrupt(csn_interp *i);
void csn_worker_kill(csn_interp *i); /* with all it started; its end is told elsewhere */
int csn_worker_hello(csn_interp *i, bool enter, csn_error *err);
int csn_worker_send(csn_interp *i, const csn_buf *frame); /* 0 or -errno */
void csn_worker_lost(csn_interp *i, const char *category, const char *why);
void csn_worker_drain(csn_interp *i); /* what the pipes hold now */

/* execute.c */
void csn_jobs_next(csn_interp *i);
void csn_jobs_revive(csn_interp *i);        /* those whose process is gone get another */
void csn_jobs_cancel_queued(csn_interp *i); /* all but the running one */
void csn_job_take_output(csn_interp *i, int stream, const char *data, size_t len);
int csn_job_final(csn_interp *i, const csn_json *frame);
int csn_job_done(csn_interp *i, const csn_json *frame);
void csn_job_end(csn_interp *i, csn_job *job);
void csn_jobs_fail_all(csn_interp *i, int code, const char *category, const char *why);

/* calls.c */
int csn_call_begin(csn_interp *i, const csn_json *frame);
void csn_calls_collect(csn_interp *i);
void csn_calls_abandon(csn_interp *i);
void csn_calls_wait_threads(csn_interp *i);
/* Runs fn on the interpreter's thread and returns when it did; false: it is about to be freed and nothing was done. */
bool csn_errand_run(csn_interp *i, void (*fn)(void *user), void *user);

/* hostcalls.c: answers one call; on any thread. */
void csn_call_answer(csn_call *call);
void csn_call_raise(csn_call *call, const char *type, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void csn_evidence_free(csn_interp *i);

/* delegate.c */
int csn_delegate_run(csn_interp *i, const char *prompt, const char *context, int64_t lease,
                     csn_buf *ret_answer, csn_buf *ret_why);

/* events.c */
void csn_event_start(csn_interp *i, const csn_job *job);
void csn_event_complete(csn_interp *i, const csn_job *job);
void csn_event_write(csn_interp *i, const char *kind, const char *path, size_t total,
                     size_t written);

#endif
