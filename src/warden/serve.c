/* SPDX-License-Identifier: Apache-2.0 */
/* What each ask means to the engine. Verbs are started, their completion answers; nothing here waits for a sandbox. */
#include <stdio.h>
#include <stdlib.h>

#include <caisson/image.h>
#include <caisson/sandbox.h>
#include <caisson/volume.h>

#include "base/err.h"
#include "warden/warden.h"

/* An ask under way. */
typedef struct job {
    csn_wd *wd;
    uint64_t serial;
    csn_sandbox *sandbox; /* what it is about; NULL while it is being made or looked for */
    csn_ask ask;          /* of a verb on a sandbox */
} job;

static job *job_new(csn_wd *wd, const csn_ask *ask, csn_error *err)
{
    job *j = calloc(1, sizeof(*j));

    if (!j) {
        csn_fail(err, CSN_E_NO_MEMORY, "start a request");
        return NULL;
    }
    j->wd = wd;
    j->serial = ask->serial;
    j->ask = *ask;
    wd->n_jobs++;
    return j;
}

static void job_free(job *j)
{
    csn_sandbox_free(j->sandbox);
    j->wd->n_jobs--;
    csn_link_pace(j->wd);
    free(j);
}

/* A line to a sandbox that has just started saves the front an ask; without one it asks. */
static int line_to(csn_sandbox *sandbox)
{
    int fd = -1;

    return csn_sandbox_lend(sandbox, &fd, NULL) < 0 ? -1 : fd;
}

static void on_done(int result, const csn_error *err, void *user)
{
    job *j = user;

    csn_link_done(j->wd, j->serial, result, err, -1);
    job_free(j);
}

static void on_started(int result, const csn_error *err, void *user)
{
    job *j = user;

    csn_link_done(j->wd, j->serial, result, err, result == CSN_OK ? line_to(j->sandbox) : -1);
    job_free(j);
}

static void on_made(csn_sandbox *sandbox, int result, const csn_error *err, void *user)
{
    job *j = user;

    csn_sandbox_free(j->sandbox); /* what it was forked from */
    j->sandbox = sandbox;
    on_started(result, err, j);
}

static int begun(const csn_op *op, const csn_error *err)
{
    return op ? CSN_OK : err->code;
}

static int create(job *j, csn_error *err)
{
    const csn_ask *ask = &j->ask;
    csn_mount mounts[CSN_ASK_MOUNTS];
    csn_sandbox_options o = {
        .size = sizeof(o),
        .name = ask->id,
        .image = ask->image,
        .user = ask->user[0] ? ask->user : NULL,
        .mounts = mounts,
        .n_mounts = ask->n_mounts,
        .network = (ask->flags & CSN_ASK_NETWORK) ? CSN_NET_OUTBOUND : CSN_NET_NONE,
        .is_detached = 1,
        .is_ephemeral = (ask->flags & CSN_ASK_EPHEMERAL) != 0,
        .memory_bytes = ask->memory_bytes,
        .cpu_milli = ask->cpu_milli,
        .disk_bytes = ask->disk_bytes,
        .pids = ask->pids,
        .strict = j->wd->strict,
    };

    for (uint32_t i = 0; i < ask->n_mounts; i++) {
        const csn_ask_mount *m = &ask->mounts[i];
        mounts[i] = (csn_mount){ .volume = m->volume,
                                 .path = m->path,
                                 .subpath = m->subpath[0] ? m->subpath : NULL,
                                 .is_read_only = (m->flags & CSN_ASK_READ_ONLY) != 0 };
    }
    return begun(csn_sandbox_create_async(j->wd->engine, &o, on_made, j, err), err);
}

static int start(job *j, csn_error *err)
{
    return begun(csn_sandbox_start_async(j->sandbox, on_started, j, err), err);
}

static int stop(job *j, csn_error *err)
{
    return begun(csn_sandbox_stop_async(j->sandbox, j->ask.grace_ms, on_done, j, err), err);
}

static int delete (job *j, csn_error *err)
{
    return begun(csn_sandbox_delete_async(j->sandbox, on_done, j, err), err);
}

static void on_parent(const csn_sandbox_info *info, int result, const csn_error *why, void *user)
{
    job *j = user;
    csn_sandbox_options o = { .size = sizeof(o), .name = j->ask.other, .is_detached = 1 };
    csn_error err = { 0 };

    if (result < 0) {
        on_done(result, why, j);
        return;
    }
    o.is_ephemeral = info->is_ephemeral;
    if (!csn_sandbox_fork_async(j->sandbox, &o, on_made, j, &err))
        on_done(err.code, &err, j);
}

static int fork_box(job *j, csn_error *err)
{
    return begun(csn_sandbox_inspect_async(j->sandbox, on_parent, j, err), err);
}

static int snapshot(job *j, csn_error *err)
{
    return begun(csn_sandbox_snapshot_async(j->sandbox, j->ask.other, on_done, j, err), err);
}

static int lend(job *j, csn_error *err)
{
    int fd = -1;
    int r = csn_sandbox_lend(j->sandbox, &fd, err);

    if (r < 0)
        return r;
    csn_link_done(j->wd, j->serial, CSN_OK, NULL, fd);
    job_free(j);
    return CSN_OK;
}

static int resize(job *j, csn_error *err)
{
    return begun(csn_sandbox_resize_async(j->sandbox, j->ask.memory_bytes, j->ask.cpu_milli,
                                          j->ask.disk_bytes, on_done, j, err),
                 err);
}

/* Verbs on a sandbox that is there. */
static int (*const on_box[CSN_ASK_VERBS])(job *j, csn_error *err) = {
    [CSN_ASK_START] = start,   [CSN_ASK_STOP] = stop,         [CSN_ASK_DELETE] = delete,
    [CSN_ASK_FORK] = fork_box, [CSN_ASK_SNAPSHOT] = snapshot, [CSN_ASK_LEND] = lend,
    [CSN_ASK_RESIZE] = resize,
};

static void on_found(csn_sandbox *sandbox, int result, const csn_error *why, void *user)
{
    job *j = user;
    csn_error err = { 0 };
    int r = result;

    j->sandbox = sandbox;
    if (r < 0)
        err = *why;
    else
        r = on_box[j->ask.verb](j, &err);
    if (r < 0)
        on_done(r, &err, j);
}

static int with_box(job *j, csn_error *err)
{
    return begun(csn_sandbox_open_async(j->wd->engine, j->ask.id, on_found, j, err), err);
}

/* ---- verbs on lists, images and volumes ---- */

static void tell_box(const csn_sandbox_info *info, void *user)
{
    const job *j = user;
    csn_answer answer = { .kind = CSN_ANSWER_SEEN,
                          .serial = j->serial,
                          .state = (int32_t) info->state };

    (void) snprintf(answer.name, sizeof(answer.name), "%s", info->name[0] ? info->name : info->id);
    csn_link_send(j->wd, &answer, -1);
}

static void tell_image(const csn_image_info *info, void *user)
{
    const job *j = user;
    csn_answer answer = { .kind = CSN_ANSWER_IMAGE,
                          .serial = j->serial,
                          .size_bytes = info->size_bytes };

    (void) snprintf(answer.name, sizeof(answer.name), "%s", info->name);
    csn_link_send(j->wd, &answer, -1);
}

static void tell_size(const csn_volume_info *info, void *user)
{
    const job *j = user;
    const csn_answer size = { .kind = CSN_ANSWER_IMAGE,
                              .serial = j->serial,
                              .size_bytes = info->size_bytes };

    csn_link_send(j->wd, &size, -1);
}

static int list(job *j, csn_error *err)
{
    return begun(csn_sandbox_list_async(j->wd->engine, tell_box, on_done, j, err), err);
}

static int list_images(job *j, csn_error *err)
{
    return begun(csn_image_list_async(j->wd->engine, tell_image, on_done, j, err), err);
}

static int remove_image(job *j, csn_error *err)
{
    return begun(csn_image_remove_async(j->wd->engine, j->ask.other, on_done, j, err), err);
}

static int create_volume(job *j, csn_error *err)
{
    return begun(csn_volume_create_async(j->wd->engine, j->ask.other, on_done, j, err), err);
}

static int weigh_volume(job *j, csn_error *err)
{
    return begun(csn_volume_inspect_async(j->wd->engine, j->ask.other, tell_size, on_done, j, err),
                 err);
}

static int remove_volume(job *j, csn_error *err)
{
    return begun(csn_volume_remove_async(j->wd->engine, j->ask.other, on_done, j, err), err);
}

static int note_ready(job *j, csn_error *err)
{
    (void) err;
    j->wd->is_ready = true;
    on_done(CSN_OK, NULL, j);
    return CSN_OK;
}

static int (*const on_all[CSN_ASK_VERBS])(job *j, csn_error *err) = {
    [CSN_ASK_LIST] = list,
    [CSN_ASK_IMAGES] = list_images,
    [CSN_ASK_IMAGE_DELETE] = remove_image,
    [CSN_ASK_VOLUME_CREATE] = create_volume,
    [CSN_ASK_VOLUME_SIZE] = weigh_volume,
    [CSN_ASK_VOLUME_DELETE] = remove_volume,
    [CSN_ASK_READY] = note_ready,
};

void csn_serve_ask(csn_wd *wd, const csn_ask *ask)
{
    csn_error err = { 0 };
    job *j = job_new(wd, ask, &err);
    int r = j ? CSN_OK : CSN_E_NO_MEMORY;

    if (!j)
        csn_link_done(wd, ask->serial, r, &err, -1);
    else if ((r = ask->verb == CSN_ASK_CREATE ? create(j, &err)
                  : on_box[ask->verb]         ? with_box(j, &err)
                                              : on_all[ask->verb](j, &err)) < 0)
        on_done(r, &err, j);
}
