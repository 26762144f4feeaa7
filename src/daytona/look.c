/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that are there: one by its id or name, all of them, one again, those that nobody owns. These verbs wait, in turns of the engine's loop. */
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/time.h"
#include "call.h"
#include "url.h"

enum { PAGES_MAX = 1000 };

typedef struct answer_copy {
    bool is_done;
    int result;
    csn_error err;
    csn_buf body;
} answer_copy;

static void keep_answer(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    answer_copy *copy = user;

    copy->is_done = true;
    copy->result = result;
    if (err)
        copy->err = *err;
    if (result >= 0 && csn_buf_append(&copy->body, a->body, a->body_len) < 0)
        copy->result = csn_fail(&copy->err, CSN_E_NO_MEMORY, "read the service's answer");
}

static int ask_and_wait(csn_daytona *d, const char *what, const char *method, const char *url,
                        csn_buf *ret_body, csn_error *err)
{
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = what, .method = method, .url = url,
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_ASK_MS));
    answer_copy copy = { .body = CSN_BUF_INIT };
    csn_error own = { 0 };
    csn_api_call *call = csn_api_call_start(d, &spec, keep_answer, &copy, &own);
    int r = call ? 0 : own.code;

    while (call && !copy.is_done && r >= 0)
        r = csn_loop_run_once(d->base.loop, CSN_NO_DEADLINE); /* the call has one */
    if (call && !copy.is_done) {
        csn_api_call_cancel(call);
        r = csn_fail_sys(&own, r, "%s", what);
    } else if (call) {
        r = copy.result;
        own = copy.err;
    }
    if (r >= 0) {
        *ret_body = copy.body;
        return CSN_OK;
    }
    csn_buf_free(&copy.body);
    if (err)
        *err = own;
    return r;
}

static char **labels_of(const csn_dto *dto)
{
    csn_auto(buf) csn_buf pair = CSN_BUF_INIT;
    char **list = csn_calloc(dto->n_labels + 1, sizeof(*list));

    for (size_t i = 0; list && i < dto->n_labels; i++) {
        csn_buf_clear(&pair);
        csn_buf_printf(&pair, "%s=%s", dto->labels[i].key, dto->labels[i].value);
        if (!(list[i] = csn_buf_take(&pair, NULL)))
            return csn_list_free(list);
    }
    return list;
}

/* What it is, as if we had asked for it. */
static int fill_wish(const csn_dto *dto, csn_wish *wish, csn_error *err)
{
    csn_sandbox_options none = { .size = sizeof(none), .is_detached = 1 };
    char **labels = labels_of(dto), *name, *image;
    int r = labels ? csn_wish_read(&none, wish, err)
                   : csn_fail(err, CSN_E_NO_MEMORY, "look at sandbox '%s'", dto->id);

    if (r < 0) {
        csn_list_free(labels);
        return r;
    }
    csn_list_free(wish->labels);
    wish->labels = labels;
    name = csn_strdup(strcmp(dto->name, dto->id) == 0 ? "" : dto->name);
    image = csn_strdup(dto->image);
    if (name && image) {
        free(wish->name);
        free(wish->image);
        wish->name = name;
        wish->image = image;
    } else {
        free(name);
        free(image);
        csn_wish_done(wish);
        return csn_fail(err, CSN_E_NO_MEMORY, "look at sandbox '%s'", dto->id);
    }
    memcpy(wish->id, dto->id, sizeof(wish->id));
    wish->network = dto->blocks_network ? CSN_NET_NONE : CSN_NET_OUTBOUND;
    wish->created_ms = dto->created_ms;
    wish->phase = CSN_PHASE_KEPT;
    wish->memory_bytes = wish->cpu_milli = wish->pids = wish->disk_bytes = wish->disk_inodes = -1;
    return CSN_OK;
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
    csn_auto(buf) csn_buf toolbox = CSN_BUF_INIT;
    csn_daytona_box *box = known_box(d, dto->id);
    int r;

    if (box) {
        box->base.state = dto->state;
        *ret_box = csn_box_ref(&box->base);
        return CSN_OK;
    }
    if (dto->toolbox[0] && !csn_url_may_have_key(d->url, dto->toolbox))
        return csn_fail(
            err, CSN_E_DENIED,
            "the service says its sandboxes are at '%.100s': without TLS no key goes there",
            dto->toolbox);
    box = csn_daytona_box_new(d, err);
    if (!box)
        return CSN_E_NO_MEMORY;
    r = fill_wish(dto, &box->base.wish, err);
    if (r >= 0 && dto->toolbox[0]) {
        csn_buf_printf(&toolbox, "%s/%s", dto->toolbox, dto->id);
        box->toolbox = csn_buf_take(&toolbox, NULL);
        if (!box->toolbox)
            r = csn_fail(err, CSN_E_NO_MEMORY, "open sandbox '%s'", dto->id);
    }
    if (r < 0) {
        csn_box_unref(&box->base);
        return r;
    }
    box->base.state = dto->state;
    *ret_box = &box->base;
    return CSN_OK;
}

static int look(csn_daytona *d, const char *key, csn_json **ret_doc, csn_dto *ret, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_auto(buf) csn_buf body = CSN_BUF_INIT;
    int r;

    csn_buf_printf(&url, "%s/sandbox/", d->url);
    if (csn_url_escape(&url, key) < 0)
        return csn_fail_sys(err, url.error, "look at sandbox '%.64s'", key);
    r = ask_and_wait(d, "look at a sandbox", "GET", url.data, &body, err);
    return r < 0 ? r : csn_dto_parse(body.data, body.len, ret_doc, ret, err);
}

int csn_daytona_find(csn_backend *backend, const char *key, csn_box **ret_box, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_dto dto;
    int r = look(csn_daytona_of(backend), key, &doc, &dto, err);

    return r < 0 ? r : box_of_dto(csn_daytona_of(backend), &dto, ret_box, err);
}

int csn_daytona_refresh(csn_box *box, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_dto dto;
    int r = csn_daytona_box_check(box, err);

    if (r < 0 || box->state == CSN_STATE_DELETED)
        return r;
    r = look(csn_daytona_of(box->backend), box->wish.id, &doc, &dto, err);
    if (r == CSN_E_NOT_FOUND) {
        box->state = CSN_STATE_DELETED;
        return CSN_OK;
    }
    if (r >= 0)
        box->state = dto.state;
    return r;
}

typedef int page_fn(csn_daytona *d, const csn_dto *dto, void *user, csn_error *err);

/* Every sandbox of the service that this key sees; `query` ("": none) narrows it. */
static int walk_pages(csn_daytona *d, const char *query, page_fn *fn, void *user, csn_error *err)
{
    csn_auto(buf) csn_buf cursor = CSN_BUF_INIT;

    for (int page = 0; page < PAGES_MAX; page++) {
        csn_auto(buf) csn_buf url = CSN_BUF_INIT;
        csn_auto(buf) csn_buf body = CSN_BUF_INIT;
        csn_auto(json) csn_json *doc = NULL;
        const csn_json *items;
        const char *next;
        csn_dto dto;
        int r;

        csn_buf_printf(&url, "%s/sandbox?limit=%d%s", d->url, CSN_DTO_LIST_MAX, query);
        if (cursor.len > 0) {
            csn_buf_puts(&url, "&cursor=");
            csn_url_escape(&url, cursor.data);
        }
        if (url.error < 0)
            return csn_fail_sys(err, url.error, "list sandboxes");
        r = ask_and_wait(d, "list sandboxes", "GET", url.data, &body, err);
        if (r >= 0)
            r = csn_dto_list_parse(body.data, body.len, &doc, &items, &next, err);
        for (size_t i = 0; r >= 0 && i < csn_json_count(items); i++) {
            r = csn_dto_read(csn_json_at(items, i), &dto, err);
            if (r >= 0)
                r = fn(d, &dto, user, err);
        }
        if (r < 0 || !next[0])
            return r;
        csn_buf_clear(&cursor);
        csn_buf_puts(&cursor, next);
    }
    return csn_fail(err, CSN_E_TOO_LARGE, "list sandboxes: more than %d pages", PAGES_MAX);
}

typedef struct listener {
    csn_sandbox_list_fn fn;
    void *user;
} listener;

static int tell_one(csn_daytona *d, const csn_dto *dto, void *user, csn_error *err)
{
    csn_auto(wish) csn_wish wish = { .id_index = -1 };
    const listener *to = user;
    csn_sandbox_info info;
    int r = fill_wish(dto, &wish, err);

    (void) d;
    if (r < 0)
        return r;
    csn_wish_info(&wish, dto->state, &info);
    to->fn(&info, to->user);
    return CSN_OK;
}

int csn_daytona_list(csn_backend *backend, csn_sandbox_list_fn fn, void *user, csn_error *err)
{
    listener to = { fn, user };

    return walk_pages(csn_daytona_of(backend), "", tell_one, &to, err);
}

/* ---- what dead programs left ---- */

static int note_left(csn_daytona *d, const csn_dto *dto, void *user, csn_error *err)
{
    csn_buf *ids = user; /* each with its NUL */

    if (!csn_daytona_is_left(d, dto) || dto->state == CSN_STATE_DELETED)
        return CSN_OK;
    return csn_buf_append(ids, dto->id, strlen(dto->id) + 1) < 0
               ? csn_fail(err, CSN_E_NO_MEMORY, "look for what was left")
               : CSN_OK;
}

static int delete_left(csn_daytona *d, const char *id, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_auto(buf) csn_buf body = CSN_BUF_INIT;
    int r;

    if (csn_buf_printf(&url, "%s/sandbox/%s", d->url, id) < 0)
        return csn_fail_sys(err, url.error, "delete sandbox '%s'", id);
    r = ask_and_wait(d, "delete a sandbox", "DELETE", url.data, &body, err);
    return r == CSN_E_NOT_FOUND ? CSN_OK : r;
}

int csn_daytona_gc(csn_backend *backend, uint32_t *ret_n_removed, csn_error *err)
{
    csn_daytona *d = csn_daytona_of(backend);
    csn_auto(buf) csn_buf ids = CSN_BUF_INIT;
    csn_auto(buf) csn_buf labels = CSN_BUF_INIT;
    csn_auto(buf) csn_buf query = CSN_BUF_INIT;
    int r;

    csn_buf_printf(&labels, "{\"caisson.machine\":\"%s\"}", d->machine);
    csn_buf_puts(&query, "&labels=");
    csn_url_escape(&query, labels.data);
    *ret_n_removed = 0;
    r = walk_pages(d, query.data, note_left, &ids, err);
    for (size_t at = 0; r >= 0 && at < ids.len; at += strlen(ids.data + at) + 1) {
        r = delete_left(d, ids.data + at, err);
        *ret_n_removed += r >= 0;
    }
    return r;
}
