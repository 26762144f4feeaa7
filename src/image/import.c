/* Image imports: the public verbs. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <caisson/image.h>

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

int csn_image_import_start(csn_engine *engine, const char *name, const char *path, csn_done_fn done,
                           void *user, csn_error *err)
{
    csn_image_job *job = NULL;
    int r;

    r = csn_image_job_new(engine, name, done, user, &job, err);
    if (r < 0)
        return r;
    r = open_source(job, path, err);
    if (r == CSN_OK)
        r = csn_image_job_unpack(job, err);
    if (r < 0) {
        csn_image_job_drop(job);
        return csn_fail_in(err, r, "import image '%s'", name);
    }
    return CSN_OK;
}

typedef struct import_args {
    const char *name, *path;
} import_args;

static int start(csn_engine *engine, void *args, csn_done_fn done, void *user, csn_error *err)
{
    const import_args *a = args;

    return csn_image_import_start(engine, a->name, a->path, done, user, err);
}

int csn_image_import(csn_engine *engine, const char *name, const char *path, csn_error *err)
{
    import_args args = { name, path };

    return csn_image_job_wait(engine, start, &args, err);
}
