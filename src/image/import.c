/* Image imports: where the bytes come from. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "job.h"

static int open_source(csn_image_job *job, const char *path, csn_error *err)
{
    struct stat st;

    if (!path || !*path)
        return csn_fail(err, CSN_E_INVALID, "no file or directory was named");
    job->source_fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (job->source_fd < 0 || fstat(job->source_fd, &st) < 0)
        return csn_fail_sys(err, -errno, "open '%s'", path);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return csn_fail(err, CSN_E_INVALID, "'%s' is neither a file nor a directory", path);
    return CSN_OK;
}

int csn_images_import(csn_images *images, const char *name, const char *path, csn_op *op,
                      csn_error *err)
{
    csn_image_job *job = NULL;
    int r = csn_image_job_new(images, name, op, &job, err);

    if (r < 0)
        return r;
    r = open_source(job, path, err);
    if (r == CSN_OK)
        r = csn_image_job_unpack(job, err);
    if (r < 0)
        r = csn_fail_in(err, r, "import image '%s'", name);
    return csn_image_job_begun(job, r);
}
