/* One fresh sandbox, from its creation to its end: put files in, set up, run one command, read one file, clean up. A
 * candidate's run is one, and so is a scorer's. */
#ifndef CSN_ARENA_JOB_H
#define CSN_ARENA_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include <caisson/arena.h>
#include <caisson/files.h>

#include "base/buf.h"
#include "base/list.h"

typedef struct csn_box_options {
    const char *image;
    csn_network network;
    int64_t memory_bytes, cpu_milli, pids, disk_bytes;
    uint32_t strict;
} csn_box_options;

/* Bytes to put inside: from memory, or from a local file when host_path is set. Borrowed until they are there. */
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

/* What to do; prepared once, shared by every trial. Borrowed while a job uses it. */
typedef struct csn_job_plan {
    const char *id;
    csn_box_options box;
    const csn_upload *uploads; /* the script is the last one */
    size_t n_uploads;
    const csn_exec_request *setups; /* timeout_ms is each one's own */
    size_t n_setups;
    csn_exec_request exec;
    const char *output_path; /* NULL: nothing is read back */
    int64_t upload_timeout_ms, artifact_timeout_ms;
    size_t output_max, artifact_max;
    bool only_stdout; /* `output` without the second stream */
} csn_job_plan;

typedef struct csn_job csn_job;

typedef struct csn_job_watch {
    void (*log)(csn_job *job, const char *message);   /* NULL: none */
    void (*state)(csn_job *job, csn_run_state state); /* NULL: none */
    void (*done)(csn_job *job);                       /* the result is complete */
    void (*output)(csn_job *job, csn_stream stream, const void *data, size_t len); /* NULL: none */
} csn_job_watch;

struct csn_job {
    csn_list link; /* the owner's */
    const csn_job_plan *plan;
    csn_engine *engine; /* borrowed */
    const csn_job_watch *watch;
    void *owner;
    size_t index; /* the owner's: which candidate */
    unsigned trial;
    csn_candidate_result *result; /* taken by whoever `done` tells */
    csn_run_state state;
    csn_sandbox *sandbox;
    csn_process *process; /* while a command runs */
    csn_op *op;           /* what is under way; NULL: nothing */
    size_t n_put, n_set_up;
    int64_t origin_ns, started_ns, exec_ns, deadline_ns;
    csn_buf output, errors, setup_output;
    csn_receipt receipt;
    bool has_failed, is_cancelled;
};

/* A result with an id and nothing else; NULL: no memory. */
csn_candidate_result *csn_result_new(const char *candidate_id);
/* Records a failure; the first one stays. */
void csn_result_fail(csn_candidate_result *result, const char *message);

csn_job *csn_job_new(const csn_job_plan *plan, csn_engine *engine, const csn_job_watch *watch,
                     void *owner);
csn_job *csn_job_free(csn_job *job); /* only before it began or once it is done; always NULL */

/* origin_ns: the zero of the result's moments. `done` comes later, in any case. */
void csn_job_begin(csn_job *job, int64_t origin_ns);

/* A job that never begins: its result says `message`; done is called at once. */
void csn_job_refuse(csn_job *job, const char *message);

void csn_job_cancel(csn_job *job);

/* The engine is broken: lets go of everything at once. */
void csn_job_abort(csn_job *job, const char *reason);

#endif
