/* SPDX-License-Identifier: Apache-2.0 */
/* What has a name at a service beside sandboxes: volumes, and snapshots, which are the images of sandboxes there. */
#include "named.h"

#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "answer_files.h"
#include "answer_named.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/json.h"
#include "url.h"
#include "verb.h"

enum { PAGE = 100 };

/* Where each kind is, and what it is called here. */
typedef struct named_kind {
    const char *by_name, *by_id, *noun;
} named_kind;

static const named_kind volumes = { "/volumes/by-name/", "/volumes/", "volume" };
static const named_kind images = { "/snapshots/", "/snapshots/", "image" };

typedef struct named_verb {
    csn_api_verb base;
    const named_kind *kind;
    char *name;
    char id[CSN_ANY_ID_SIZE];
    csn_error refusal; /* of a create */
    int64_t page;
    csn_volume_fn on_volume;
    csn_image_fn on_image;
    void *user;
} named_verb;

static named_verb *of(csn_api_verb *v)
{
    return csn_container_of(v, named_verb, base);
}

static void free_name(csn_api_verb *v)
{
    free(of(v)->name);
}

/* ---- asking ---- */

static int ask(named_verb *n, const char *method, const char *route, const char *which,
               csn_api_step *step, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;

    csn_buf_printf(&url, "%s%s", n->base.d->url, route);
    csn_url_escape(&url, which);
    return csn_api_verb_ask(&n->base, &(csn_api_ask){ .method = method, .url = &url, .step = step },
                            err);
}

static int ask_by_name(named_verb *n, csn_api_step *step, csn_error *err)
{
    return ask(n, "GET", n->kind->by_name, n->name, step, err);
}

static int no_such(const named_verb *n, csn_error *err)
{
    return csn_fail(err, CSN_E_NOT_FOUND, "no %s '%s'", n->kind->noun, n->name);
}

static int has_failed(const named_verb *n, const csn_named_dto *dto, csn_error *err)
{
    char why[CSN_WORDS_SIZE];

    csn_words_of(dto->reason, strlen(dto->reason), n->base.d->secret, why);
    return csn_fail(err, CSN_E_LOST, "%s '%s' is in an error state%s%s", n->kind->noun, n->name,
                    why[0] ? ": " : "", why);
}

/* ---- telling ---- */

static int tell(named_verb *n, const csn_named_dto *dto, csn_error *err)
{
    static const char *const none[] = { NULL };
    csn_volume_info volume = { .name = dto->name,
                               .created_ms = dto->created_ms,
                               .size_bytes = -1,
                               .n_files = -1,
                               .n_users = CSN_VOLUME_USERS_UNKNOWN };
    csn_image_info image = { .name = dto->name,
                             .source = "snapshot",
                             .n_layers = CSN_IMAGE_LAYERS_UNKNOWN,
                             .size_bytes = dto->size_bytes,
                             .created_ms = dto->created_ms,
                             .env = none,
                             .cwd = "",
                             .entrypoint = dto->entrypoint,
                             .cmd = none,
                             .user = "" };

    csn_api_op_hold(n->base.op); /* who is told may drop it */
    if (n->on_volume)
        n->on_volume(&volume, n->user);
    else
        n->on_image(&image, n->user);
    return csn_api_verb_release(&n->base, err) ? CSN_OK : CSN_E_CANCELLED;
}

static int on_inspected(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_named_dto dto;

    if (result == CSN_E_NOT_FOUND)
        return no_such(of(v), err);
    if (result < 0 || (result = csn_named_parse(a->body, a->body_len, &doc, &dto, err)) < 0)
        return result;
    return csn_named_state_of(&dto) == CSN_NAMED_GONE ? no_such(of(v), err)
                                                      : tell(of(v), &dto, err);
}

static int tell_items(named_verb *n, const csn_json *items, csn_error *err)
{
    csn_named_dto dto;
    int r = CSN_OK;

    for (size_t i = 0; r >= 0 && i < csn_json_count(items); i++) {
        r = csn_named_read(csn_json_at(items, i), &dto, err);
        if (r >= 0 && csn_named_state_of(&dto) < CSN_NAMED_GOING)
            r = tell(n, &dto, err);
    }
    return r;
}

static int on_volumes(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *items;

    if (result >= 0)
        result = csn_array_answer_parse(a->body, a->body_len, NULL, &doc, &items, err);
    return result < 0 ? result : tell_items(of(v), items, err);
}

static int ask_page(named_verb *n, csn_error *err);

static int on_page(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *items;
    int64_t n_pages;

    if (result >= 0)
        result = csn_page_answer_parse(a->body, a->body_len, &doc, &items, &n_pages, err);
    if (result >= 0)
        result = tell_items(of(v), items, err);
    if (result < 0 || of(v)->page >= n_pages)
        return result;
    return ask_page(of(v), err);
}

static int ask_page(named_verb *n, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;

    csn_buf_printf(&url, "%s/snapshots?page=%lld&limit=%d&sort=name&order=asc", n->base.d->url,
                   (long long) ++n->page, PAGE);
    return csn_api_verb_ask(&n->base,
                            &(csn_api_ask){ .method = "GET", .url = &url, .step = on_page }, err);
}

/* ---- create ---- */

static int on_unwanted_deleted(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    (void) v;
    (void) a;
    (void) err;
    return result;
}

static int on_created(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err);

static int look_at_created(csn_api_verb *v, csn_error *err)
{
    return ask(of(v), "GET", of(v)->kind->by_id, of(v)->id, on_created, err);
}

/* One that was given up is taken back. */
static int on_created(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    named_verb *n = of(v);
    csn_auto(json) csn_json *doc = NULL;
    csn_named_dto dto;

    if (result < 0 || (result = csn_named_parse(a->body, a->body_len, &doc, &dto, err)) < 0)
        return result;
    memcpy(n->id, dto.id, sizeof(n->id));
    switch (csn_named_state_of(&dto)) {
    case CSN_NAMED_COMING:
        return csn_api_verb_pause(v, dto.state_word, look_at_created, err);
    case CSN_NAMED_READY:
        return v->op->fate == CSN_OP_WANTED
                   ? CSN_OK
                   : ask(n, "DELETE", n->kind->by_id, n->id, on_unwanted_deleted, err);
    case CSN_NAMED_GOING:
    case CSN_NAMED_GONE:
    case CSN_NAMED_FAILED:
        break;
    }
    return has_failed(n, &dto, err);
}

static int on_name_looked_up(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    (void) a;
    if (result >= 0)
        return csn_fail(err, CSN_E_EXISTS, "a %s '%s' exists already", of(v)->kind->noun,
                        of(v)->name);
    *err = of(v)->refusal;
    return err->code;
}

/* A name that is taken is refused like one that is none. */
static int on_posted(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    if (result != CSN_E_INVALID && result != CSN_E_STATE)
        return on_created(v, a, result, err);
    of(v)->refusal = *err;
    return ask_by_name(of(v), on_name_looked_up, err);
}

/* ---- remove ---- */

static int on_leaving(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err);

static int look_at_leaving(csn_api_verb *v, csn_error *err)
{
    return ask_by_name(of(v), on_leaving, err);
}

/* Until its name is free. */
static int on_leaving(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_named_dto dto;

    if (result == CSN_E_NOT_FOUND)
        return CSN_OK;
    if (result < 0 || (result = csn_named_parse(a->body, a->body_len, &doc, &dto, err)) < 0)
        return result;
    if (strcmp(dto.id, of(v)->id) != 0 || csn_named_state_of(&dto) == CSN_NAMED_GONE)
        return CSN_OK; /* that is another one */
    return csn_named_state_of(&dto) == CSN_NAMED_FAILED
               ? has_failed(of(v), &dto, err)
               : csn_api_verb_pause(v, dto.state_word, look_at_leaving, err);
}

static int on_removed(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    (void) a;
    if (result == CSN_E_STATE)
        return err->code = CSN_E_BUSY;
    if (result < 0 && result != CSN_E_NOT_FOUND)
        return result;
    return look_at_leaving(v, err);
}

static int on_found(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    named_verb *n = of(v);
    csn_auto(json) csn_json *doc = NULL;
    csn_named_dto dto;

    if (result == CSN_E_NOT_FOUND)
        return no_such(n, err);
    if (result < 0 || (result = csn_named_parse(a->body, a->body_len, &doc, &dto, err)) < 0)
        return result;
    memcpy(n->id, dto.id, sizeof(n->id));
    return ask(n, "DELETE", n->kind->by_id, n->id, on_removed, err);
}

/* ---- the table ---- */

/* NULL: *err says why. */
static named_verb *new_verb(csn_backend *backend, const named_kind *kind, const char *name,
                            const char *what, csn_op *op, csn_error *err)
{
    named_verb *n = csn_api_verb_new(csn_daytona_of(backend), NULL, sizeof(*n), what,
                                     CSN_DAYTONA_CREATE_MS, op, err);

    if (!n)
        return NULL;
    n->base.free = free_name;
    n->kind = kind;
    n->name = csn_strdup(name);
    if (n->name)
        return n;
    (void) csn_api_verb_begin(&n->base, csn_fail(err, CSN_E_NO_MEMORY, "%s", what));
    return NULL;
}

static int begin_inspect(csn_backend *backend, const named_kind *kind, const char *name,
                         csn_volume_fn on_volume, csn_image_fn on_image, void *user, csn_op *op,
                         csn_error *err)
{
    named_verb *n;

    err = CSN_OP_ERR(err);
    n = new_verb(backend, kind, name, on_volume ? "look at a volume" : "look at an image", op, err);
    if (!n)
        return err->code;
    n->on_volume = on_volume;
    n->on_image = on_image;
    n->user = user;
    return csn_api_verb_begin(&n->base, ask_by_name(n, on_inspected, err));
}

static int begin_remove(csn_backend *backend, const named_kind *kind, const char *name,
                        const char *what, csn_op *op, csn_error *err)
{
    named_verb *n;

    err = CSN_OP_ERR(err);
    n = new_verb(backend, kind, name, what, op, err);
    return n ? csn_api_verb_begin(&n->base, ask_by_name(n, on_found, err)) : err->code;
}

int csn_daytona_volume_create(csn_backend *backend, const char *name, csn_op *op, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT, body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);
    named_verb *n;

    err = CSN_OP_ERR(err);
    n = new_verb(backend, &volumes, name, "create a volume", op, err);
    if (!n)
        return err->code;
    n->base.finishes_first = true;
    csn_buf_printf(&url, "%s/volumes", n->base.d->url);
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "name", name);
    csn_jw_end_object(&w);
    return csn_api_verb_begin(
        &n->base,
        csn_api_verb_ask(
            &n->base,
            &(csn_api_ask){ .method = "POST", .url = &url, .body = &body, .step = on_posted },
            err));
}

int csn_daytona_volume_list(csn_backend *backend, csn_volume_fn fn, void *user, csn_op *op,
                            csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_api_ask all = { .method = "GET", .url = &url, .step = on_volumes, .is_large = true };
    named_verb *n;

    err = CSN_OP_ERR(err);
    n = new_verb(backend, &volumes, "", "list volumes", op, err);
    if (!n)
        return err->code;
    n->on_volume = fn;
    n->user = user;
    csn_buf_printf(&url, "%s/volumes", n->base.d->url);
    return csn_api_verb_begin(&n->base, csn_api_verb_ask(&n->base, &all, err));
}

int csn_daytona_volume_inspect(csn_backend *backend, const char *name, csn_volume_fn fn, void *user,
                               csn_op *op, csn_error *err)
{
    return begin_inspect(backend, &volumes, name, fn, NULL, user, op, err);
}

int csn_daytona_volume_remove(csn_backend *backend, const char *name, csn_op *op, csn_error *err)
{
    return begin_remove(backend, &volumes, name, "remove a volume", op, err);
}

int csn_daytona_image_list(csn_backend *backend, csn_image_fn fn, void *user, csn_op *op,
                           csn_error *err)
{
    named_verb *n;

    err = CSN_OP_ERR(err);
    n = new_verb(backend, &images, "", "list images", op, err);
    if (!n)
        return err->code;
    n->on_image = fn;
    n->user = user;
    return csn_api_verb_begin(&n->base, ask_page(n, err));
}

int csn_daytona_image_inspect(csn_backend *backend, const char *name, csn_image_fn fn, void *user,
                              csn_op *op, csn_error *err)
{
    return begin_inspect(backend, &images, name, NULL, fn, user, op, err);
}

int csn_daytona_image_remove(csn_backend *backend, const char *name, csn_op *op, csn_error *err)
{
    return begin_remove(backend, &images, name, "remove an image", op, err);
}
