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
    csn_sandbox *sandbox; /* what it is about; NULL while it is being made */
} job;

static job *job_new(csn_wd *wd, const csn_ask *ask, csn_error *err)
{
    job *j = calloc(1, sizeof(*j));

    if (!j) {
        csn_fail(err, CSN_E_NO_MEMORY, "start a request");
        return NULL;
    }
    *j = (job){ .wd = wd, .serial = ask->serial };
    wd->n_jobs++;
    return j;
}

static job *job_free(job *j)
{
    csn_sandbox_free(j->sandbox);
    j->wd->n_jobs--;
    csn_link_pace(j->wd);
    free(j);
    return NULL;
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

static int create(csn_wd *wd, const csn_ask *ask, csn_error *err)
{
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
        .strict = wd->strict,
    };
    job *j = job_new(wd, ask, err);

    if (!j)
        return CSN_E_NO_MEMORY;
    for (uint32_t i = 0; i < ask->n_mounts; i++) {
        const csn_ask_mount *m = &ask->mounts[i];
        mounts[i] = (csn_mount){ .volume = m->volume,
                                 .path = m->path,
                                 .subpath = m->subpath[0] ? m->subpath : NULL,
                                 .is_read_only = (m->flags & CSN_ASK_READ_ONLY) != 0 };
    }
    if (csn_sandbox_create_async(wd->engine, &o, on_made, j, err))
        return CSN_OK;
    job_free(j);
    return err->code;
}

static int begun(const csn_op *op, const csn_error *err)
{
    return op ? CSN_OK : err->code;
}

static int start(job *j, const csn_ask *ask, csn_error *err)
{
    (void) ask;
    return begun(csn_sandbox_start_async(j->sandbox, on_started, j, err), err);
}

static int stop(job *j, const csn_ask *ask, csn_error *err)
{
    return begun(csn_sandbox_stop_async(j->sandbox, ask->grace_ms, on_done, j, err), err);
}

static int delete (job *j, const csn_ask *ask, csn_error *err)
{
    (void) ask;
    return begun(csn_sandbox_delete_async(j->sandbox, on_done, j, err), err);
}

static int fork_box(job *j, const csn_ask *ask, csn_error *err)
{
    csn_sandbox_options o = { .size = sizeof(o), .name = ask->other, .is_detached = 1 };
    csn_sandbox_info info;
    int r = csn_sandbox_inspect(j->sandbox, &info, err);

    if (r < 0)
        return r;
    o.is_ephemeral = info.is_ephemeral;
    return begun(csn_sandbox_fork_async(j->sandbox, &o, on_made, j, err), err);
}

static int snapshot(job *j, const csn_ask *ask, csn_error *err)
{
    return begun(csn_sandbox_snapshot_async(j->sandbox, ask->other, on_done, j, err), err);
}

static int lend(job *j, const csn_ask *ask, csn_error *err)
{
    int fd = -1;
    int r = csn_sandbox_lend(j->sandbox, &fd, err);

    (void) ask;
    if (r < 0)
        return r;
    csn_link_done(j->wd, j->serial, CSN_OK, NULL, fd);
    job_free(j);
    return CSN_OK;
}

static int resize(job *j, const csn_ask *ask, csn_error *err)
{
    return begun(csn_sandbox_resize_async(j->sandbox, ask->memory_bytes, ask->cpu_milli,
                                          ask->disk_bytes, on_done, j, err),
                 err);
}

/* Verbs on a sandbox that is there. */
static int (*const on_box[CSN_ASK_VERBS])(job *j, const csn_ask *ask, csn_error *err) = {
    [CSN_ASK_START] = start,   [CSN_ASK_STOP] = stop,         [CSN_ASK_DELETE] = delete,
    [CSN_ASK_FORK] = fork_box, [CSN_ASK_SNAPSHOT] = snapshot, [CSN_ASK_LEND] = lend,
    [CSN_ASK_RESIZE] = resize,
};

static int with_box(csn_wd *wd, const csn_ask *ask, csn_error *err)
{
    job *j = job_new(wd, ask, err);
    int r;

    if (!j)
        return CSN_E_NO_MEMORY;
    r = csn_sandbox_open(wd->engine, ask->id, &j->sandbox, err);
    if (r == CSN_OK)
        r = on_box[ask->verb](j, ask, err);
    if (r < 0)
        job_free(j);
    return r;
}

typedef struct listing {
    csn_wd *wd;
    uint64_t serial;
} listing;

static void tell_box(const csn_sandbox_info *info, void *user)
{
    listing *l = user;
    csn_answer answer = { .kind = CSN_ANSWER_SEEN,
                          .serial = l->serial,
                          .state = (int32_t) info->state };

    (void) snprintf(answer.name, sizeof(answer.name), "%s", info->name[0] ? info->name : info->id);
    csn_link_send(l->wd, &answer, -1);
}

static void tell_image(const csn_image_info *info, void *user)
{
    listing *l = user;
    csn_answer answer = { .kind = CSN_ANSWER_IMAGE,
                          .serial = l->serial,
                          .size_bytes = info->size_bytes };

    (void) snprintf(answer.name, sizeof(answer.name), "%s", info->name);
    csn_link_send(l->wd, &answer, -1);
}

/* These are done when they return. */
static int at_once(csn_wd *wd, const csn_ask *ask, csn_error *err)
{
    listing l = { wd, ask->serial };
    int r = CSN_OK;

    if (ask->verb == CSN_ASK_LIST)
        r = csn_sandbox_list(wd->engine, tell_box, &l, err);
    else if (ask->verb == CSN_ASK_IMAGES)
        r = csn_image_list(wd->engine, tell_image, &l, err);
    else if (ask->verb == CSN_ASK_VOLUME_CREATE)
        r = csn_volume_create(wd->engine, ask->other, err);
    else
        wd->is_ready = true;
    if (r == CSN_OK)
        csn_link_done(wd, ask->serial, CSN_OK, NULL, -1);
    return r;
}

void csn_serve_ask(csn_wd *wd, const csn_ask *ask)
{
    csn_error err = { 0 };
    int r;

    if (ask->verb == CSN_ASK_CREATE)
        r = create(wd, ask, &err);
    else if (on_box[ask->verb])
        r = with_box(wd, ask, &err);
    else if (ask->verb == CSN_ASK_VOLUME_DELETE || ask->verb == CSN_ASK_IMAGE_DELETE ||
             ask->verb == CSN_ASK_VOLUME_SIZE)
        r = csn_errand_start(wd, ask, &err);
    else
        r = at_once(wd, ask, &err);
    if (r < 0)
        csn_link_done(wd, ask->serial, r, &err, -1);
}
