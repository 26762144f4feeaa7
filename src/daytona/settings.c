/* SPDX-License-Identifier: Apache-2.0 */
/* What can be changed of a sandbox while it lives, and what it uses. */
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "base/err.h"
#include "base/json.h"
#include "verb.h"

#define GIB (INT64_C(1) << 30)

static int ask_about(csn_api_verb *v, const char *method, const char *path, const csn_buf *body,
                     csn_api_step *step, csn_error *err)
{
    csn_api_ask ask = { .method = method, .body = body, .repeat = CSN_REPEAT_SAFE, .step = step };

    return csn_api_verb_ask_box(v, path, ask, err);
}

/* ---- labels ---- */

typedef struct labels_verb {
    csn_api_verb base;
    char **labels;
} labels_verb;

static void free_labels(csn_api_verb *v)
{
    csn_list_free(csn_container_of(v, labels_verb, base)->labels);
}

/* Its answer repeats what was sent. */
static int on_labelled(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    labels_verb *l = csn_container_of(v, labels_verb, base);

    (void) a;
    (void) err;
    if (result < 0)
        return result;
    csn_list_free(v->box->wish.labels);
    v->box->wish.labels = l->labels;
    l->labels = NULL;
    return CSN_OK;
}

int csn_daytona_set_labels(csn_box *box, const char *const *labels, csn_op *op, csn_error *err)
{
    csn_auto(buf) csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);
    labels_verb *l;

    err = CSN_OP_ERR(err);
    l = csn_api_verb_new(NULL, box, sizeof(*l), "change labels", CSN_DAYTONA_ASK_MS, op, err);
    if (!l)
        return err->code;
    l->base.free = free_labels;
    if (!(l->labels = csn_list_copy(labels)))
        return csn_api_verb_begin(&l->base, csn_fail(err, CSN_E_NO_MEMORY, "change labels"));
    csn_jw_begin_object(&w);
    csn_jw_key(&w, "labels");
    csn_write_labels(&w, l->labels, &csn_daytona_box_of(box)->whose);
    csn_jw_end_object(&w);
    return csn_api_verb_begin(&l->base,
                              ask_about(&l->base, "PUT", "/labels", &body, on_labelled, err));
}

/* ---- timers ---- */

typedef struct timers_verb {
    csn_api_verb base;
    int64_t ttl_ms, idle_stop_ms;
} timers_verb;

static int on_ttl_set(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    timers_verb *t = csn_container_of(v, timers_verb, base);

    (void) a;
    (void) err;
    if (result < 0)
        return result;
    v->box->wish.ttl_ms = t->ttl_ms;
    v->box->wish.idle_stop_ms = t->idle_stop_ms;
    return CSN_OK;
}

static int ask_timer(csn_api_verb *v, const char *name, int64_t minutes, csn_api_step *step,
                     csn_error *err)
{
    char path[64];

    (void) snprintf(path, sizeof(path), "/%s/%lld", name, (long long) minutes); /* fits */
    return ask_about(v, "POST", path, NULL, step, err);
}

static int on_stop_set(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    timers_verb *t = csn_container_of(v, timers_verb, base);

    (void) a;
    return result < 0 ? result
                      : ask_timer(v, "ttl", csn_daytona_minutes(t->ttl_ms), on_ttl_set, err);
}

/* An attached one always stops when nobody uses it: a machine that never comes back leaves none. */
int csn_daytona_set_timers(csn_box *box, int64_t ttl_ms, int64_t idle_stop_ms, csn_op *op,
                           csn_error *err)
{
    int64_t stop_min = csn_daytona_minutes(idle_stop_ms);
    timers_verb *t;

    err = CSN_OP_ERR(err);
    t = csn_api_verb_new(NULL, box, sizeof(*t), "change timers", CSN_DAYTONA_ASK_MS, op, err);
    if (!t)
        return err->code;
    if (stop_min == 0 && !box->wish.is_detached)
        stop_min = CSN_DAYTONA_STOP_MIN;
    t->ttl_ms = csn_daytona_minutes(ttl_ms) * CSN_DAYTONA_MINUTE_MS;
    t->idle_stop_ms = stop_min * CSN_DAYTONA_MINUTE_MS;
    return csn_api_verb_begin(&t->base,
                              ask_timer(&t->base, "autostop", stop_min, on_stop_set, err));
}

/* ---- limits ---- */

typedef struct resize_verb {
    csn_api_verb base;
    bool has_disk;
} resize_verb;

static int on_resized(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err);

static int look_at_resize(csn_api_verb *v, csn_error *err)
{
    return ask_about(v, "GET", "", NULL, on_resized, err);
}

static int on_resized(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    resize_verb *z = csn_container_of(v, resize_verb, base);
    csn_auto(json) csn_json *doc = NULL;
    csn_dto dto;

    if (result == CSN_E_INVALID && z->has_disk && v->box->state == CSN_STATE_STARTED)
        return err->code = CSN_E_STATE; /* the disk of a stopped one alone can be another */
    if (result < 0 && a && a->end.status == 422)
        return err->code = CSN_E_UNSUPPORTED; /* its kind can't be changed so */
    if (result < 0 || (result = csn_daytona_box_read(v->box, a, &doc, &dto, err)) < 0)
        return result;
    return strcmp(dto.state_word, "resizing") == 0
               ? csn_api_verb_pause(v, dto.state_word, look_at_resize, err)
               : CSN_OK;
}

static int put_amount(csn_jw *w, const char *key, int64_t amount, int64_t unit, const char *units,
                      csn_error *err)
{
    if (amount == 0)
        return CSN_OK;
    if (amount < 0)
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "the remote backend can't take the limit of \"%s\" away: a service has "
                        "one for each sandbox",
                        key);
    if (amount % unit != 0)
        return csn_fail(err, CSN_E_INVALID, "\"%s\": a service counts whole %s", key, units);
    csn_jw_kint(w, key, amount / unit);
    return CSN_OK;
}

int csn_daytona_resize(csn_box *box, int64_t memory_bytes, int64_t cpu_milli, int64_t disk_bytes,
                       csn_op *op, csn_error *err)
{
    csn_auto(buf) csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);
    resize_verb *z;
    int r;

    err = CSN_OP_ERR(err);
    csn_jw_begin_object(&w);
    if ((r = put_amount(&w, "memory", memory_bytes, GIB, "GiB", err)) < 0 ||
        (r = put_amount(&w, "cpu", cpu_milli, 1000, "processors", err)) < 0 ||
        (r = put_amount(&w, "disk", disk_bytes, GIB, "GiB", err)) < 0)
        return r;
    csn_jw_end_object(&w);
    z = csn_api_verb_new(NULL, box, sizeof(*z), "resize a sandbox", CSN_DAYTONA_CREATE_MS, op, err);
    if (!z)
        return err->code;
    z->has_disk = disk_bytes != 0;
    return csn_api_verb_begin(&z->base,
                              ask_about(&z->base, "POST", "/resize", &body, on_resized, err));
}

/* ---- what it uses ---- */

/* A service without this route does not tell. */
static int on_metrics(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    csn_metrics_answer m = { -1, -1 };

    if (result >= 0)
        result = csn_metrics_answer_parse(a->body, a->body_len, &m, err);
    else if (result == CSN_E_NOT_FOUND)
        result = CSN_OK;
    v->op->value.stat.receipt = v->box->facts;
    v->op->value.stat.receipt.wall_us = -1;
    v->op->value.stat.usage = (csn_usage){ .memory_bytes = m.memory_bytes,
                                           .cpu_us = -1,
                                           .n_processes = -1,
                                           .disk_bytes = m.disk_bytes,
                                           .disk_inodes = -1 };
    return result;
}

static int on_seen(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    const char *toolbox;
    csn_dto dto;

    if (result < 0 || (result = csn_daytona_box_read(v->box, a, &doc, &dto, err)) < 0)
        return result;
    toolbox = csn_daytona_box_of(v->box)->toolbox;
    if (dto.state != CSN_STATE_STARTED || !toolbox)
        return csn_fail(err, CSN_E_STATE, "sandbox '%s' is not started", v->box->wish.id);
    csn_buf_printf(&url, "%s/system/metrics", toolbox);
    return csn_api_verb_ask(v, &(csn_api_ask){ .method = "GET", .url = &url, .step = on_metrics },
                            err);
}

int csn_daytona_stat(csn_box *box, csn_op *op, csn_error *err)
{
    csn_api_verb *v;

    err = CSN_OP_ERR(err);
    v = csn_api_verb_new(NULL, box, sizeof(*v), "tell what a sandbox uses", CSN_DAYTONA_ASK_MS, op,
                         err);
    if (!v)
        return err->code;
    return csn_api_verb_begin(v, ask_about(v, "GET", "", NULL, on_seen, err));
}
