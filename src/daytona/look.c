/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that are there: one by its id or name, all of them, one again, those that nobody owns. */
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/time.h"
#include "call.h"
#include "url.h"
#include "verb.h"

enum { PAGES_MAX = 1000 };

/* The caller's own: those that say whose it is are for us. */
static char **labels_of(const csn_dto *dto)
{
    csn_auto(buf) csn_buf pair = CSN_BUF_INIT;
    char **list = csn_calloc(dto->n_labels + 1, sizeof(*list));
    size_t n = 0;

    for (size_t i = 0; list && i < dto->n_labels; i++) {
        if (csn_is_whose_key(dto->labels[i].key))
            continue;
        csn_buf_clear(&pair);
        csn_buf_printf(&pair, "%s=%s", dto->labels[i].key, dto->labels[i].value);
        if (!(list[n++] = csn_buf_take(&pair, NULL)))
            return csn_list_free(list);
    }
    return list;
}

/* What may change while it lives. */
static int renew_wish(const csn_dto *dto, csn_wish *wish, csn_error *err)
{
    char **labels = labels_of(dto);

    if (!labels)
        return csn_fail(err, CSN_E_NO_MEMORY, "look at sandbox '%s'", dto->id);
    csn_list_free(wish->labels);
    wish->labels = labels;
    wish->memory_bytes = dto->memory_bytes;
    wish->cpu_milli = dto->cpu_milli;
    wish->disk_bytes = dto->disk_bytes;
    wish->pids = wish->disk_inodes = -1; /* not told */
    wish->idle_stop_ms = dto->stop_min * CSN_DAYTONA_MINUTE_MS;
    wish->ttl_ms = dto->ttl_ms;
    return CSN_OK;
}

/* What it is, as if we had asked for it. */
static int fill_wish(const csn_dto *dto, csn_wish *wish, csn_error *err)
{
    csn_sandbox_options none = { .size = sizeof(none), .is_detached = 1 };
    csn_whose whose;
    char *name, *image;
    int r = csn_wish_read(&none, wish, err);

    if (r < 0 || (r = renew_wish(dto, wish, err)) < 0)
        return r;
    name = csn_strdup(strcmp(dto->name, dto->id) == 0 ? "" : dto->name);
    image = csn_strdup(dto->image);
    if (!name || !image) {
        free(name);
        free(image);
        return csn_fail(err, CSN_E_NO_MEMORY, "look at sandbox '%s'", dto->id);
    }
    free(wish->name);
    free(wish->image);
    wish->name = name;
    wish->image = image;
    memcpy(wish->id, dto->id, sizeof(wish->id));
    csn_whose_read(dto, &whose);
    wish->is_detached = !whose.program[0];
    wish->is_ephemeral = dto->delete_min == 0;
    wish->network = dto->blocks_network ? CSN_NET_NONE : CSN_NET_OUTBOUND;
    wish->created_ms = dto->created_ms;
    wish->phase = CSN_PHASE_KEPT;
    return CSN_OK;
}

/* Where its own verbs are; the key goes along with every one of them. */
static int take_toolbox(csn_daytona_box *box, const csn_dto *dto, csn_error *err)
{
    csn_auto(buf) csn_buf toolbox = CSN_BUF_INIT;

    if (box->toolbox || !dto->toolbox[0])
        return CSN_OK;
    if (!csn_url_may_have_key(csn_daytona_of(box->base.backend)->url, dto->toolbox))
        return csn_fail(
            err, CSN_E_DENIED,
            "the service says its sandboxes are at '%.100s': without TLS no key goes there",
            dto->toolbox);
    csn_buf_printf(&toolbox, "%s/%s", dto->toolbox, dto->id);
    box->toolbox = csn_buf_take(&toolbox, NULL);
    return box->toolbox ? CSN_OK : csn_fail(err, CSN_E_NO_MEMORY, "open sandbox '%s'", dto->id);
}

int csn_daytona_box_renew(csn_box *base, const csn_dto *dto, csn_error *err)
{
    csn_daytona_box *box = csn_daytona_box_of(base);
    int r = take_toolbox(box, dto, err);

    if (r >= 0)
        r = renew_wish(dto, &base->wish, err);
    if (r < 0)
        return r;
    base->facts.memory_limit_bytes = dto->memory_bytes;
    base->facts.cpu_limit_milli = dto->cpu_milli;
    base->facts.disk_limit_bytes = dto->disk_bytes;
    base->state = dto->state;
    if (dto->state == CSN_STATE_DELETED)
        csn_daytona_box_gone(box);
    return CSN_OK;
}

int csn_daytona_box_read(csn_box *base, const csn_web_answer *a, csn_json **ret_doc, csn_dto *ret,
                         csn_error *err)
{
    int r = csn_dto_parse(a->body, a->body_len, ret_doc, ret, err);

    if (r >= 0 && strcmp(ret->id, base->wish.id) != 0)
        r = csn_fail(err, CSN_E_PROTOCOL, "the service told of another sandbox than '%s'",
                     base->wish.id);
    return r < 0 ? r : csn_daytona_box_renew(base, ret, err);
}

static csn_daytona_box *known_box(csn_daytona *d, const char *id)
{
    csn_list_foreach (node, &d->boxes) {
        csn_daytona_box *box = csn_list_entry(node, csn_daytona_box, link);

        if (strcmp(box->base.wish.id, id) == 0)
            return box;
    }
    return NULL;
}

static int box_of_dto(csn_daytona *d, const csn_dto *dto, csn_box **ret_box, csn_error *err)
{
    csn_daytona_box *box = known_box(d, dto->id);
    int r = CSN_OK;

    if (box) {
        csn_box_ref(&box->base);
    } else {
        box = csn_daytona_box_new(d, err);
        if (!box)
            return CSN_E_NO_MEMORY;
        r = fill_wish(dto, &box->base.wish, err);
        csn_whose_read(dto, &box->whose);
    }
    if (r >= 0)
        r = csn_daytona_box_renew(&box->base, dto, err);
    if (r < 0) {
        csn_box_unref(&box->base);
        return r;
    }
    *ret_box = &box->base;
    return CSN_OK;
}

/* ---- one of them ---- */

typedef struct lookup {
    csn_daytona *d;
    csn_op *op;
    csn_api_call *call;
    csn_box *box; /* counted: to be brought up to date; NULL: to be found */
} lookup;

static csn_op *free_lookup(lookup *l)
{
    csn_op *op = l->op;

    csn_box_unref(l->box);
    free(l);
    return op;
}

static void give_up_lookup(csn_op *op)
{
    lookup *l = op->request;

    csn_api_call_cancel(l->call);
    csn_op_end(free_lookup(l), CSN_E_CANCELLED, NULL);
}

static void on_looked(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    lookup *l = user;
    csn_auto(json) csn_json *doc = NULL;
    csn_error own = err ? *err : (csn_error){ 0 };
    csn_box *box = NULL;
    csn_dto dto = { 0 };

    if (l->box && result == CSN_E_NOT_FOUND) {
        csn_daytona_box_gone(csn_daytona_box_of(l->box));
        result = CSN_OK;
    } else if (l->box && result >= 0) {
        result = csn_daytona_box_read(l->box, a, &doc, &dto, &own);
    } else if (result >= 0) {
        result = csn_dto_parse(a->body, a->body_len, &doc, &dto, &own);
        if (result >= 0)
            result = box_of_dto(l->d, &dto, &box, &own);
    }
    bool is_find = !l->box;
    csn_op *op = free_lookup(l);
    if (is_find)
        csn_op_end_box(box, result, &own, op);
    else
        csn_op_end(op, result, &own);
}

static int look(csn_daytona *d, const char *key, csn_box *box, csn_op *op, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = "look at a sandbox", .method = "GET",
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_ASK_MS));
    csn_error own = { 0 };
    lookup *l = csn_calloc(1, sizeof(*l));

    csn_buf_printf(&url, "%s/sandbox/", d->url);
    if (csn_url_escape(&url, key) < 0 || !l) {
        free(l);
        return csn_fail(err, CSN_E_NO_MEMORY, "look at sandbox '%.64s'", key);
    }
    *l = (lookup){ .d = d, .op = op, .box = box ? csn_box_ref(box) : NULL };
    spec.url = url.data;
    l->call = csn_api_call_start(d, &spec, on_looked, l, &own);
    if (!l->call) {
        (void) free_lookup(l);
        if (err)
            *err = own;
        return own.code;
    }
    op->give_up = give_up_lookup;
    op->request = l;
    return CSN_OK;
}

int csn_daytona_find(csn_backend *backend, const char *key, csn_op *op, csn_error *err)
{
    return look(csn_daytona_of(backend), key, NULL, op, err);
}

int csn_daytona_refresh(csn_box *box, csn_op *op, csn_error *err)
{
    int r = csn_daytona_box_check(box, err);

    if (r < 0)
        return r;
    if (box->state == CSN_STATE_DELETED)
        return csn_op_end_later(op, err);
    return look(csn_daytona_of(box->backend), box->wish.id, box, op, err);
}

/* ---- all of them ---- */

typedef struct walk walk;
typedef int page_fn(walk *w, const csn_dto *dto, csn_error *err);

/* Every sandbox of the service that this key sees, page after page; of a sweep each that was left is then deleted. */
struct walk {
    csn_daytona *d;
    csn_op *op;
    csn_api_call *call;
    csn_buf query, cursor;
    int n_pages;
    page_fn *fn;
    csn_sandbox_list_fn tell;
    void *user;
    csn_buf ids; /* what was left: each with its NUL */
    size_t at;   /* the next one to be deleted */
    uint32_t n_removed;
};

static void end_walk(walk *w, int result, const csn_error *err)
{
    csn_op *op = w->op;
    csn_error own = err ? *err : (csn_error){ 0 };

    op->value.n = w->n_removed;
    csn_buf_free(&w->query);
    csn_buf_free(&w->cursor);
    csn_buf_free(&w->ids);
    free(w);
    csn_op_end(op, result, &own);
}

static void give_up_walk(csn_op *op)
{
    walk *w = op->request;

    csn_api_call_cancel(w->call);
    end_walk(w, CSN_E_CANCELLED, NULL);
}

static int ask(walk *w, const char *what, const char *method, const csn_buf *url,
               csn_api_call_done *done, csn_error *err)
{
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = what, .method = method, .url = url->data,
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_ASK_MS));
    csn_error own = { 0 };

    if (url->error < 0)
        return csn_fail_sys(err, url->error, "%s", what);
    w->call = csn_api_call_start(w->d, &spec, done, w, &own);
    if (!w->call && err)
        *err = own;
    return w->call ? CSN_OK : own.code;
}

static void on_left_deleted(const csn_web_answer *a, int result, const csn_error *err, void *user);

/* The next of those that were left; CSN_OK: under way, or the end has come. */
static void delete_next(walk *w)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_error err = { 0 };
    int r;

    if (w->at >= w->ids.len) {
        end_walk(w, CSN_OK, NULL);
        return;
    }
    csn_buf_printf(&url, "%s/sandbox/%s", w->d->url, w->ids.data + w->at);
    r = ask(w, "delete a sandbox", "DELETE", &url, on_left_deleted, &err);
    if (r < 0)
        end_walk(w, r, &err);
}

static void on_left_deleted(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    walk *w = user;

    (void) a;
    if (result < 0 && result != CSN_E_NOT_FOUND) {
        end_walk(w, result, err);
        return;
    }
    w->n_removed++;
    w->at += strlen(w->ids.data + w->at) + 1;
    delete_next(w);
}

static void on_page(const csn_web_answer *a, int result, const csn_error *err, void *user);

static int ask_page(walk *w, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;

    if (w->n_pages++ >= PAGES_MAX)
        return csn_fail(err, CSN_E_TOO_LARGE, "list sandboxes: more than %d pages", PAGES_MAX);
    csn_buf_printf(&url, "%s/sandbox?limit=%d%s", w->d->url, CSN_DTO_LIST_MAX,
                   w->query.len > 0 ? w->query.data : "");
    if (w->cursor.len > 0) {
        csn_buf_puts(&url, "&cursor=");
        csn_url_escape(&url, w->cursor.data);
    }
    return ask(w, "list sandboxes", "GET", &url, on_page, err);
}

static void on_page(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    walk *w = user;
    csn_auto(json) csn_json *doc = NULL;
    csn_error own = err ? *err : (csn_error){ 0 };
    const csn_json *items = NULL;
    const char *next = "";
    csn_dto dto;

    w->call = NULL;
    if (result >= 0)
        result = csn_dto_list_parse(a->body, a->body_len, &doc, &items, &next, &own);
    csn_api_op_hold(w->op); /* who is told may drop it */
    for (size_t i = 0; result >= 0 && i < csn_json_count(items); i++) {
        result = csn_dto_read(csn_json_at(items, i), &dto, &own);
        if (result >= 0)
            result = w->fn(w, &dto, &own);
        if (w->op->fate != CSN_OP_WANTED)
            break;
    }
    if (!csn_api_op_release(w->op, give_up_walk, &own))
        result = CSN_E_CANCELLED;
    if (result >= 0 && next[0]) {
        csn_buf_clear(&w->cursor);
        csn_buf_puts(&w->cursor, next);
        result = ask_page(w, &own);
        if (result >= 0)
            return;
    }
    if (result < 0)
        end_walk(w, result, &own);
    else
        delete_next(w);
}

static int begin_walk(csn_daytona *d, const walk *what, csn_op *op, csn_error *err)
{
    walk *w = csn_malloc(sizeof(*w));
    int r;

    if (!w)
        return csn_fail(err, CSN_E_NO_MEMORY, "list sandboxes");
    *w = *what;
    w->d = d;
    w->op = op;
    r = ask_page(w, err);
    if (r < 0) {
        free(w);
        return r;
    }
    op->give_up = give_up_walk;
    op->request = w;
    return CSN_OK;
}

static int tell_one(walk *w, const csn_dto *dto, csn_error *err)
{
    csn_auto(wish) csn_wish wish = { .id_index = -1 };
    csn_sandbox_info info;
    int r = fill_wish(dto, &wish, err);

    if (r < 0)
        return r;
    csn_wish_info(&wish, dto->state, &info);
    w->tell(&info, w->user);
    return CSN_OK;
}

int csn_daytona_list(csn_backend *backend, csn_sandbox_list_fn fn, void *user, csn_op *op,
                     csn_error *err)
{
    walk w = { .query = CSN_BUF_INIT,
               .cursor = CSN_BUF_INIT,
               .ids = CSN_BUF_INIT,
               .fn = tell_one,
               .tell = fn,
               .user = user };

    return begin_walk(csn_daytona_of(backend), &w, op, err);
}

static int note_left(walk *w, const csn_dto *dto, csn_error *err)
{
    if (!csn_daytona_is_left(w->d, dto) || dto->state == CSN_STATE_DELETED)
        return CSN_OK;
    return csn_buf_append(&w->ids, dto->id, strlen(dto->id) + 1) < 0
               ? csn_fail(err, CSN_E_NO_MEMORY, "look for what was left")
               : CSN_OK;
}

int csn_daytona_gc(csn_backend *backend, csn_op *op, csn_error *err)
{
    csn_daytona *d = csn_daytona_of(backend);
    csn_auto(buf) csn_buf labels = CSN_BUF_INIT;
    walk w = {
        .query = CSN_BUF_INIT, .cursor = CSN_BUF_INIT, .ids = CSN_BUF_INIT, .fn = note_left
    };
    int r;

    csn_buf_printf(&labels, "{\"caisson.machine\":\"%s\"}", d->whose.machine);
    csn_buf_puts(&w.query, "&labels=");
    csn_url_escape(&w.query, labels.data);
    r = w.query.error < 0 ? csn_fail_sys(err, w.query.error, "look for what was left")
                          : begin_walk(d, &w, op, err);
    if (r < 0)
        csn_buf_free(&w.query);
    return r;
}
