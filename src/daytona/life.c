/* SPDX-License-Identifier: Apache-2.0 */
/* Which state follows which: start, stop, and the snapshot, for whose time a sandbox is in a state of its own.
 *
 * Attached sandboxes are ephemeral at the service, so that a machine that never comes back leaves none: their stop would be
 * their end. Here it is not, so while one is stopped the service deletes it after a day instead. */
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "base/err.h"
#include "base/json.h"
#include "url.h"
#include "verb.h"

enum { STOPPED_MIN = 24 * 60 };

static bool is_kept(const csn_box *box)
{
    return !box->wish.is_detached && !box->wish.is_ephemeral;
}

/* Each of them is as good twice as once. */
static int ask_about(csn_api_verb *v, const char *method, const char *path, csn_api_step *step,
                     csn_error *err)
{
    csn_api_ask ask = { .method = method, .repeat = CSN_REPEAT_SAFE, .step = step };

    return csn_api_verb_ask_box(v, path, ask, err);
}

static int ask_delete_after(csn_api_verb *v, int minutes, csn_api_step *step, csn_error *err)
{
    char path[40];

    (void) snprintf(path, sizeof(path), "/autodelete/%d", minutes); /* fits */
    return ask_about(v, "POST", path, step, err);
}

static int has_failed(const csn_api_verb *v, const csn_dto *dto, csn_error *err)
{
    char why[CSN_WORDS_SIZE];

    csn_words_of(dto->reason, strlen(dto->reason), v->d->secret, why);
    return csn_fail(err, CSN_E_LOST, "%s: sandbox '%s' is in an error state%s%s", v->what,
                    v->box->wish.id, why[0] ? ": " : "", why);
}

static int on_last(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    (void) v;
    (void) a;
    (void) err;
    return result;
}

static int on_stopped_again(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_dto dto;

    return result < 0 ? result : csn_daytona_box_read(v->box, a, &doc, &dto, err);
}

/* ---- start ---- */

static int on_start(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err);

static int look_at_start(csn_api_verb *v, csn_error *err)
{
    return ask_about(v, "GET", "", on_start, err);
}

static int on_start(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_dto dto;

    if (result == CSN_E_NOT_FOUND)
        csn_daytona_box_gone(csn_daytona_box_of(v->box));
    if (result < 0 || (result = csn_daytona_box_read(v->box, a, &doc, &dto, err)) < 0)
        return result;
    if (dto.has_failed)
        return has_failed(v, &dto, err);
    if (dto.state == CSN_STATE_DELETED || dto.state == CSN_STATE_DELETING)
        return csn_fail(err, CSN_E_NOT_FOUND, "sandbox '%s' was deleted", v->box->wish.id);
    if (dto.state != CSN_STATE_STARTED)
        return csn_api_verb_pause(v, dto.state_word, look_at_start, err);
    if (v->op->fate != CSN_OP_WANTED) /* one that was given up leaves it stopped */
        return ask_about(v, "POST", "/stop?force=true", on_stopped_again, err);
    return is_kept(v->box) ? ask_delete_after(v, 0, on_last, err) : CSN_OK;
}

int csn_daytona_start(csn_box *box, csn_op *op, csn_error *err)
{
    csn_api_verb *v;

    err = CSN_OP_ERR(err);
    v = csn_api_verb_new(NULL, box, sizeof(*v), "start a sandbox", CSN_DAYTONA_CREATE_MS, op, err);
    if (!v)
        return err->code;
    v->finishes_first = true;
    return csn_api_verb_begin(v, ask_about(v, "POST", "/start", on_start, err));
}

/* ---- stop ---- */

typedef struct stop_verb {
    csn_api_verb base;
    bool is_forced;
    csn_error refusal; /* its code: 0, there was none */
} stop_verb;

static int on_stop(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err);

static int look_at_stop(csn_api_verb *v, csn_error *err)
{
    return ask_about(v, "GET", "", on_stop, err);
}

/* "Not started" is what a stop wants, but the word for it is the service's: its state says whether it is that. */
static int on_stop(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    stop_verb *s = csn_container_of(v, stop_verb, base);
    csn_auto(json) csn_json *doc = NULL;
    csn_dto dto;

    if ((result == CSN_E_INVALID || result == CSN_E_STATE) && !s->refusal.code) {
        s->refusal = *err;
        return look_at_stop(v, err);
    }
    if (result == CSN_E_NOT_FOUND) {
        csn_daytona_box_gone(csn_daytona_box_of(v->box));
        return v->box->wish.is_ephemeral ? CSN_OK : result;
    }
    if (result < 0 || (result = csn_daytona_box_read(v->box, a, &doc, &dto, err)) < 0)
        return result;
    if (dto.has_failed)
        return has_failed(v, &dto, err);
    if (dto.state != CSN_STATE_STARTED && dto.state != CSN_STATE_CREATING)
        return CSN_OK;
    if (s->refusal.code && strcmp(dto.state_word, "stopping") != 0) {
        *err = s->refusal;
        return err->code;
    }
    return csn_api_verb_pause(v, dto.state_word, look_at_stop, err);
}

static int ask_stop(stop_verb *s, csn_error *err)
{
    return ask_about(&s->base, "POST", s->is_forced ? "/stop?force=true" : "/stop", on_stop, err);
}

static int on_kept(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    (void) a;
    return result < 0 ? result : ask_stop(csn_container_of(v, stop_verb, base), err);
}

/* How long programs get is the service's to say; but for none at all. */
int csn_daytona_stop(csn_box *box, int grace_ms, csn_op *op, csn_error *err)
{
    stop_verb *s;
    int r;

    err = CSN_OP_ERR(err);
    s = csn_api_verb_new(NULL, box, sizeof(*s), "stop a sandbox", CSN_DAYTONA_CREATE_MS, op, err);
    if (!s)
        return err->code;
    s->is_forced = grace_ms < 0;
    r = is_kept(box) ? ask_delete_after(&s->base, STOPPED_MIN, on_kept, err) : ask_stop(s, err);
    return csn_api_verb_begin(&s->base, r);
}

/* ---- snapshot ---- */

typedef struct snapshot_verb {
    csn_api_verb base;
    csn_buf name;
    csn_error refusal;
} snapshot_verb;

static void free_snapshot(csn_api_verb *v)
{
    csn_buf_free(&csn_container_of(v, snapshot_verb, base)->name);
}

/* 409 has two meanings: the name is taken, or the sandbox is busy. */
static int on_name_looked_up(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    snapshot_verb *s = csn_container_of(v, snapshot_verb, base);

    (void) a;
    *err = s->refusal;
    if (result >= 0)
        err->code = CSN_E_EXISTS;
    return err->code;
}

static int look_up_name(csn_api_verb *v, csn_error *err)
{
    snapshot_verb *s = csn_container_of(v, snapshot_verb, base);
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;

    s->refusal = *err;
    csn_buf_printf(&url, "%s/snapshots/", v->d->url);
    csn_url_escape(&url, s->name.data);
    return csn_api_verb_ask(
        v, &(csn_api_ask){ .method = "GET", .url = &url, .step = on_name_looked_up }, err);
}

static int on_snapshot(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err);

static int look_at_snapshot(csn_api_verb *v, csn_error *err)
{
    return ask_about(v, "GET", "", on_snapshot, err);
}

static int on_snapshot(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_dto dto;

    if (result == CSN_E_STATE)
        return look_up_name(v, err);
    if (result < 0 || (result = csn_daytona_box_read(v->box, a, &doc, &dto, err)) < 0)
        return result;
    if (dto.has_failed)
        return has_failed(v, &dto, err);
    return strcmp(dto.state_word, "snapshotting") == 0
               ? csn_api_verb_pause(v, dto.state_word, look_at_snapshot, err)
               : CSN_OK;
}

/* One that is given up is waited for: the image is then removed. */
int csn_daytona_snapshot(csn_box *box, const char *image, csn_op *op, csn_error *err)
{
    csn_auto(buf) csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);
    csn_api_ask ask = { .method = "POST", .body = &body, .step = on_snapshot };
    snapshot_verb *s;

    err = CSN_OP_ERR(err);
    s = csn_api_verb_new(NULL, box, sizeof(*s), "take a snapshot", CSN_DAYTONA_SNAPSHOT_MS, op,
                         err);
    if (!s)
        return err->code;
    s->base.finishes_first = true;
    s->base.free = free_snapshot;
    s->name = (csn_buf) CSN_BUF_INIT;
    csn_buf_puts(&s->name, image);
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "name", image);
    csn_jw_end_object(&w);
    return csn_api_verb_begin(&s->base, csn_api_verb_ask_box(&s->base, "/snapshot", ask, err));
}
