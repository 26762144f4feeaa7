/* SPDX-License-Identifier: Apache-2.0 */
/* One command for one request: run to its end, its output collected; the client that leaves takes it along. */
#ifndef CSN_SERVER_JOB_H
#define CSN_SERVER_JOB_H

#include <caisson/process.h>

#include "base/buf.h"
#include "base/loop.h"
#include "server/boxes.h"
#include "server/req.h"

enum {
    CSN_JOB_OUTPUT_MAX = 16 << 20,   /* kept of each stream; the rest is cut, and the cut is told */
    CSN_JOBS_OUTPUT_MAX = 256 << 20, /* kept by all jobs together */
    CSN_JOB_LINGER_MS = 500          /* for children that still hold its output when it has ended */
};

typedef struct csn_job csn_job;

/* The command has ended, or could not be started (result < 0, err). The request must be answered: by one of csn_job_answer…(),
 * which take the job, or in another way and then csn_job_free(). */
typedef void csn_job_fn(csn_job *job, int result, const csn_error *err);

struct csn_job {
    csn_req *req;
    csn_box_hold *hold;
    csn_op *starting; /* NULL: it runs, or not yet */
    csn_process *process;
    csn_process_options o;
    csn_job_fn *done;
    /* the start failed: asked first, once; it may change argv and call csn_job_start() again */
    csn_job_fn *retry;
    csn_timer again;        /* the sandbox was frozen for a copy: another try is due */
    int64_t again_until_ns; /* 0: no try yet */
    csn_receipt receipt;
    bool is_split; /* stdout and stderr apart */
    bool is_cut;
    size_t n_kept; /* counted among all jobs' */
    /* Owned; what `o` points to. */
    char **env;
    char **argv; /* each and the list */
    csn_buf cwd, input;
    csn_buf output;     /* both streams in arrival order */
    csn_buf streams[2]; /* apart */
    csn_buf head, tail; /* of the answer */
};

/* A job that has the sandbox's environment, with envs, and the directory; NULL after an answer. Fill argv (csn_job_arg) and
 * input, then start it. */
csn_job *csn_job_new(csn_req *req, const csn_json *envs, const char *cwd, double timeout_s,
                     csn_job_fn *done);
/* Seconds of the body's "timeout"; 0: none. False: it is none, and a 400 was answered. A limit that is misread is none. */
bool csn_job_timeout(csn_req *req, const csn_json *body, double *ret_s);
int csn_job_arg(csn_job *job, const char *arg); /* appends one, copied; 0 or -ENOMEM */
void csn_job_no_args(csn_job *job);
/* The request is answered from here on, by `done`. */
void csn_job_start(csn_job *job);
csn_job *csn_job_free(csn_job *job); /* always NULL */

/* 200 with exitCode and result (job->output), and, when the streams are apart, stdout and stderr. A death by a limit is said in
 * a last line and, but for strict clients, in "ended". more: members to add, ",\"key\":…", or "". Takes the job. */
void csn_job_answer(csn_job *job, const char *more);
/* 200 for a command that could not be started: its text is the result. Takes the job. */
void csn_job_answer_failed(csn_job *job, int exit_code, const char *text);
/* 408 with what was printed. Takes the job. */
void csn_job_answer_timeout(csn_job *job);

#endif
