/* An import under way: a temporary directory, a helper program, and what to do when it ends. */
#ifndef CSN_IMAGE_JOB_H
#define CSN_IMAGE_JOB_H

#include "child.h"
#include "images.h"

typedef struct csn_image_job {
    csn_list link; /* in csn_images.jobs */
    csn_images *images;
    int state_fd; /* borrowed */
    int layers_fd, tmp_fd, source_fd;
    char tmp[48]; /* layers/.tmp-<id>: locked while tmp_fd, or the helper's copy of it, is open */
    char name[65];
    const char *source; /* NULL: as the helper says */
    csn_child child;
    csn_op *op;
} csn_image_job;

/* Checks the name and makes the temporary directory. On success the job is in the list. */
int csn_image_job_new(csn_images *images, const char *name, csn_op *op, csn_image_job **ret,
                      csn_error *err);

/* Unpacks source_fd into layers and names them. */
int csn_image_job_unpack(csn_image_job *job, csn_error *err);

/* The job is under way: `result` of its first step. On failure it is dropped. */
int csn_image_job_begun(csn_image_job *job, int result);

/* Ends the job: all that is temporary goes, and so does the operation. The job is freed. */
void csn_image_job_end(csn_image_job *job, int result, const csn_error *err);

#endif
