#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "image.h"
#include "record.h"
#include "tree.h"

void csn_images_init(csn_images *images, int state_fd, const char *libexec, csn_loop *loop,
                     csn_workers *workers, csn_remove_tree_fn *remove_tree, void *user)
{
    *images = (csn_images){ .state_fd = state_fd,
                            .libexec = libexec,
                            .loop = loop,
                            .workers = workers,
                            .remove_tree = remove_tree,
                            .user = user };
    csn_list_init(&images->jobs);
}

static void drop(csn_image_job *job)
{
    csn_list_remove(&job->link);
    csn_child_done(&job->child);
    if (job->tmp[0])
        (void) csn_tree_remove(job->layers_fd, job->tmp); /* what stays is taken by a sweep */
    csn_close(&job->tmp_fd);
    csn_close(&job->layers_fd);
    csn_close(&job->source_fd);
    free(job);
}

void csn_image_job_end(csn_image_job *job, int result, const csn_error *err)
{
    csn_op *op = job->op;

    drop(job);
    csn_op_end(op, result, err);
}

static void give_up(csn_op *op)
{
    csn_image_job_end(op->request, CSN_E_CANCELLED, NULL);
}

void csn_images_cancel_all(csn_images *images)
{
    for (csn_list *node; images->jobs.next && (node = csn_list_first(&images->jobs));)
        csn_image_job_end(csn_list_entry(node, csn_image_job, link), CSN_E_CANCELLED, NULL);
}

int csn_image_job_begun(csn_image_job *job, int result)
{
    if (result < 0) {
        drop(job);
        return result;
    }
    job->op->give_up = give_up;
    job->op->request = job;
    return CSN_OK;
}

/* Held meanwhile, so that no sweep comes between the directory and its lock. */
static int make_tmp(csn_image_job *job, csn_error *err)
{
    csn_auto(fd) int hold = -1;
    char id[33];
    int r;

    r = csn_layers_hold(job->state_fd, &hold, err);
    if (r < 0)
        return r;
    job->layers_fd = csn_tree_open_dir(job->state_fd, "layers", 0700);
    r = job->layers_fd < 0 ? job->layers_fd : csn_layer_new_id(id);
    if (r < 0)
        return csn_fail_sys(err, r, "make a layer");
    (void) snprintf(job->tmp, sizeof(job->tmp), ".tmp-%s", id); /* fits */
    job->tmp_fd = csn_tree_open_dir(job->layers_fd, job->tmp, 0700);
    if (job->tmp_fd < 0 || flock(job->tmp_fd, LOCK_EX | LOCK_NB) < 0)
        return csn_fail_sys(err, job->tmp_fd < 0 ? job->tmp_fd : -errno, "make a layer");
    return CSN_OK;
}

int csn_image_job_new(csn_images *images, const char *name, csn_op *op, csn_image_job **ret,
                      csn_error *err)
{
    csn_image_job *job;
    int r = csn_image_check_new_name(images->state_fd, name, err);

    if (r < 0)
        return r;
    job = csn_calloc(1, sizeof(*job));
    if (!job)
        return csn_fail(err, CSN_E_NO_MEMORY, "import image '%s'", name);
    *job = (csn_image_job){ .images = images,
                            .state_fd = images->state_fd,
                            .layers_fd = -1,
                            .tmp_fd = -1,
                            .source_fd = -1,
                            .child = CSN_CHILD_INIT,
                            .op = op };
    (void) csn_str_copy(job->name, sizeof(job->name), csn_str_of(name)); /* checked above */
    csn_list_append(&images->jobs, &job->link);
    r = make_tmp(job, err);
    if (r < 0) {
        drop(job);
        return csn_fail_in(err, r, "import image '%s'", name);
    }
    *ret = job;
    return CSN_OK;
}

/* The helper read foreign bytes, so what it says is foreign too. */
static int read_ids(const csn_json *list, csn_image_ref *ref)
{
    size_t n = csn_json_count(list);

    if (csn_json_type_of(list) != CSN_JSON_ARRAY || n >= CSN_IMAGE_LAYERS_MAX)
        return -EBADMSG;
    for (size_t i = 0; i < n; i++) {
        const char *id = csn_json_str(csn_json_at(list, i), "");

        if (!csn_layer_is_id(id) || csn_layer_is_host(id))
            return -EBADMSG;
        memcpy(ref->layers[i], id, strlen(id) + 1);
    }
    ref->n_layers = (uint32_t) n;
    return 0;
}

/* A layer that came into being elsewhere meanwhile is as good: equal names mean equal content. */
static int place_layer(csn_image_job *job, const char *id)
{
    csn_auto(fd) int fd = -1;
    int r;

    fd = openat(job->tmp_fd, id, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    r = csn_tree_rename(job->tmp_fd, id, job->layers_fd, id);
    return r == -EEXIST ? 0 : r;
}

static int read_result(const csn_json *doc, csn_image_ref *ref, csn_image_ref *fresh)
{
    int r;

    r = read_ids(csn_json_get(doc, "layers"), ref);
    if (r == 0)
        r = read_ids(csn_json_get(doc, "fresh"), fresh);
    if (r < 0 || ref->n_layers == 0)
        return r < 0 ? r : -EBADMSG;
    return csn_image_config_parse(doc, ref);
}

static const char *source_of(const csn_image_job *job, const csn_json *doc)
{
    static const char *const known[] = { "directory", "tar", "oci", "docker-archive" };
    const char *said = csn_json_get_str(doc, "source", "");

    if (job->source)
        return job->source;
    for (size_t i = 0; i < CSN_COUNT(known); i++)
        if (csn_streq(said, known[i]))
            return known[i];
    return "tar";
}

/* Layers get their names, then the image gets its own; held, so that no sweep comes between. */
static int take_over(csn_image_job *job, const csn_json *doc, csn_error *err)
{
    csn_auto(image_ref) csn_image_ref ref = CSN_IMAGE_REF_INIT;
    csn_auto(image_ref) csn_image_ref fresh = CSN_IMAGE_REF_INIT;
    csn_auto(fd) int hold = -1;
    int r;

    r = read_result(doc, &ref, &fresh);
    if (r < 0)
        return csn_fail_sys(err, r, "understand caisson-unpack");
    r = csn_layers_hold(job->state_fd, &hold, err);
    for (uint32_t i = 0; r == CSN_OK && i < fresh.n_layers; i++) {
        int e = place_layer(job, fresh.layers[i]);

        if (e < 0)
            r = csn_fail_sys(err, e, "place layer '%s'", fresh.layers[i]);
    }
    return r < 0 ? r : csn_image_put(job->state_fd, job->name, &ref, source_of(job, doc), err);
}

static int read_failure(const csn_json *doc, int result, csn_error *err)
{
    char message[160];

    (void) snprintf(message, sizeof(message), "%s", csn_json_get_str(doc, "message", "")); /* cut */
    if (result > CSN_E_INVALID || result < CSN_E_NOT_REGULAR)
        result = CSN_E_SYSTEM;
    csn_fail(err, result, "%s", message);
    if (err)
        err->sys_errno = (int) csn_json_get_int(doc, "errno", 0);
    return result;
}

static int judge(csn_image_job *job, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    const csn_buf *text = &job->child.text;
    int64_t result;

    if (job->child.exit_code >= 128)
        return csn_fail(err, CSN_E_SYSTEM, "caisson-unpack was killed by signal %d",
                        job->child.exit_code - 128);
    if (text->error < 0 || csn_json_parse(text->data, text->len, &doc, NULL) < 0)
        return csn_fail(err, CSN_E_SYSTEM, "caisson-unpack ended with %d and without a result",
                        job->child.exit_code);
    result = csn_json_get_int(doc, "result", CSN_E_SYSTEM);
    if (result != CSN_OK)
        return read_failure(doc, (int) result, err);
    return take_over(job, doc, err);
}

static void on_unpacked(csn_child *child, void *user)
{
    csn_image_job *job = user;
    csn_error err = { 0 };
    int r;

    (void) child;
    r = judge(job, &err);
    if (r < 0)
        csn_fail_in(&err, r, "import image '%s'", job->name);
    csn_image_job_end(job, r, &err);
}

int csn_image_job_unpack(csn_image_job *job, csn_error *err)
{
    csn_auto(buf) csn_buf program = CSN_BUF_INIT;
    csn_auto(fd) int null_fd = -1;
    char name[] = "caisson-unpack";
    char *argv[] = { name, NULL };

    csn_buf_printf(&program, "%s/caisson-unpack", job->images->libexec);
    if (program.error < 0)
        return csn_fail_sys(err, program.error, "name caisson-unpack");
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0)
        return csn_fail_sys(err, -errno, "open '/dev/null'");
    csn_child_done(&job->child);
    job->child = (csn_child) CSN_CHILD_INIT;
    return csn_child_start(&job->child, job->images->loop, program.data, argv,
                           (int[]){ job->source_fd, -1, null_fd, job->tmp_fd, job->layers_fd }, 5,
                           1, on_unpacked, job, err);
}
