/* An import under way: a temporary directory, a helper program, and what to do when it ends. */
#ifndef CSN_IMAGE_JOB_H
#define CSN_IMAGE_JOB_H

#include <caisson/image.h>

#include "child.h"
#include "engine_view.h"

typedef struct csn_image_job {
    csn_job job; /* in the engine's list */
    csn_engine *engine;
    int state_fd; /* borrowed */
    int layers_fd, tmp_fd, source_fd;
    char tmp[48]; /* layers/.tmp-<id>: locked while tmp_fd, or the helper's copy of it, is open */
    char name[65];
    const char *source; /* NULL: as the helper says */
    csn_child child;
    csn_done_fn done;
    void *user;
} csn_image_job;

/* Checks the name and makes the temporary directory. On success the job is in the engine's list. */
int csn_image_job_new(csn_engine *engine, const char *name, csn_done_fn done, void *user,
                      csn_image_job **ret, csn_error *err);

/* Unpacks source_fd into layers and names them. */
int csn_image_job_unpack(csn_image_job *job, csn_error *err);

/* Ends the job: all that is temporary goes, `done` runs (err may be NULL on success). The job is freed. */
void csn_image_job_end(csn_image_job *job, int result, const csn_error *err);

/* The same without `done`: for a start that failed. */
void csn_image_job_drop(csn_image_job *job);

/* The blocking form: starts by `start`, waits, gives up on csn_engine_interrupt(). */
typedef int csn_image_start_fn(csn_engine *engine, void *args, csn_done_fn done, void *user,
                               csn_error *err);
int csn_image_job_wait(csn_engine *engine, csn_image_start_fn *start, void *args, csn_error *err);

#endif
