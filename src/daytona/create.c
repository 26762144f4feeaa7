/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox of a service comes to be, anew or as a fork: asked for, awaited, and deleted again when nobody wants it any more. */
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/id.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "call.h"
#include "url.h"

enum { POLL_FIRST_MS = 100, POLL_MOST_MS = 1000, N_SETTINGS = 4 };

/* ---- what is asked for ---- */

/* A service gives what its snapshot says: what it can't be told is refused rather than forgotten. */
static int check_wish(const csn_wish *wish, csn_error *err)
{
    csn_sandbox_options same = { .size = sizeof(same), .is_ephemeral = wish->is_ephemeral };
    csn_auto(wish) csn_wish plain = { .id_index = -1 };
    int r = csn_wish_read(&same, &plain, err);

    if (r < 0)
        return r;
    if (wish->memory_bytes != plain.memory_bytes || wish->cpu_milli != plain.cpu_milli ||
        wish->pids != plain.pids || wish->disk_bytes != plain.disk_bytes || wish->strict)
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "the remote backend can't limit memory, processors, processes or disk: its "
                        "snapshot does");
    for (size_t i = 0; i < wish->n_mounts; i++)
        if (wish->mounts[i].is_read_only)
            return csn_daytona_cannot(err, "mount a volume read-only");
    if (wish->is_root)
        return csn_daytona_cannot(err, "run as root");
    if (wish->walls_off)
        return csn_daytona_cannot(err, "leave a wall away");
    return CSN_OK;
}

/* One that lives on is nobody's to sweep. */
static csn_whose whose_new(const csn_daytona *d, const csn_wish *wish)
{
    csn_whose whose = d->whose;

    if (wish->is_detached)
        whose.program[0] = '\0';
    return whose;
}

static int64_t stop_minutes(const csn_wish *wish)
{
    return wish->idle_stop_ms > 0 ? csn_daytona_minutes(wish->idle_stop_ms) : CSN_DAYTONA_STOP_MIN;
}

/* A service takes names for ids. */
static void write_mounts(csn_jw *w, const csn_wish *wish)
{
    if (wish->n_mounts == 0)
        return;
    csn_jw_key(w, "volumes");
    csn_jw_begin_array(w);
    for (size_t i = 0; i < wish->n_mounts; i++) {
        csn_jw_begin_object(w);
        csn_jw_kstr(w, "volumeId", wish->mounts[i].volume);
        csn_jw_kstr(w, "mountPath", wish->mounts[i].path);
        if (wish->mounts[i].subpath)
            csn_jw_kstr(w, "subpath", wish->mounts[i].subpath);
        csn_jw_end_object(w);
    }
    csn_jw_end_array(w);
}

static int write_wish(csn_buf *out, const csn_daytona *d, const csn_wish *wish, const char *name)
{
    csn_jw w = CSN_JW_INIT(out, false);
    csn_whose whose = whose_new(d, wish);

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "name", name);
    if (wish->image && wish->image[0] && strcmp(wish->image, "host") != 0)
        csn_jw_kstr(&w, "snapshot", wish->image);
    if (d->target)
        csn_jw_kstr(&w, "target", d->target);
    csn_jw_key(&w, "env");
    csn_jw_begin_object(&w);
    csn_write_pairs(&w, wish->env);
    csn_jw_end_object(&w);
    csn_jw_key(&w, "labels");
    csn_write_labels(&w, wish->labels, &whose);
    write_mounts(&w, wish);
    csn_jw_kbool(&w, "networkBlockAll", wish->network == CSN_NET_NONE);
    csn_jw_kint(&w, "autoStopInterval", stop_minutes(wish));
    if (!wish->is_detached || wish->is_ephemeral)
        csn_jw_kint(&w, "autoDeleteInterval", 0); /* ephemeral: its stop is its end */
    if (wish->ttl_ms > 0)
        csn_jw_kint(&w, "ttlMinutes", csn_daytona_minutes(wish->ttl_ms));
    csn_jw_end_object(&w);
    return out->error;
}

/* ---- create ---- */

typedef struct creation {
    csn_list link; /* in csn_daytona.creations */
    csn_daytona *d;
    csn_wish wish;
    csn_op *op;
    bool is_cancelled;
    csn_api_call *call; /* NULL: it pauses */
    csn_timer timer;
    int64_t deadline_ns, pause_ms;
    uint32_t last;            /* 0: none */
    char id[CSN_ANY_ID_SIZE]; /* "": not known yet */
    char *toolbox;
    csn_box *source;  /* of a fork, counted; else NULL */
    size_t n_settled; /* settings that a fork has of its own and got already */
    int result;       /* while what was made is deleted */
    csn_error err;
} creation;

static void end_creation(creation *c, csn_daytona_box *box, int result, const csn_error *err)
{
    csn_op *op = c->op;
    csn_error own = err ? *err : (csn_error){ 0 };

    csn_list_remove(&c->link);
    csn_timer_cancel(&c->timer);
    csn_wish_done(&c->wish);
    csn_box_unref(c->source);
    free(c->toolbox);
    free(c);
    csn_op_end_box(box ? &box->base : NULL, result, &own, op);
}

static void on_undone(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    creation *c = user;

    (void) err; /* why there is no sandbox is told; that one is left is the helper's to see to */
    if ((result >= 0 || (a && a->end.status == 404)) && c->last)
        (void) csn_webline_set_last(&c->d->line, c->last, "", NULL);
    end_creation(c, NULL, c->result, &c->err);
}

/* Nothing remains of a create that failed. */
static void undo(creation *c, int result, const csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = "delete a sandbox", .method = "DELETE",
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_ASK_MS));

    c->result = result;
    c->err = *err;
    c->op->give_up = NULL;
    csn_daytona_box_url(&url, c->d, c->id);
    spec.url = url.data;
    c->call = url.error < 0 ? NULL : csn_api_call_start(c->d, &spec, on_undone, c, NULL);
    if (!c->call)
        end_creation(c, NULL, result, err);
}

static void give_box(creation *c)
{
    csn_error err = { 0 };
    csn_daytona_box *box = csn_daytona_box_new(c->d, &err);

    if (!box) {
        undo(c, CSN_E_NO_MEMORY, &err);
        return;
    }
    box->base.wish = c->wish;
    c->wish = (csn_wish){ .id_index = -1 };
    memcpy(box->base.wish.id, c->id, sizeof(c->id));
    box->base.wish.phase = CSN_PHASE_KEPT;
    box->base.wish.created_ms = csn_wall_ms();
    box->base.state = CSN_STATE_STARTED;
    box->toolbox = c->toolbox;
    box->last = c->last;
    box->whose = whose_new(c->d, &box->base.wish);
    c->toolbox = NULL;
    end_creation(c, box, CSN_OK, NULL);
}

/* ---- what a fork has of its own ---- */

/* The service gives it everything of its parent's. Whose it is comes first: a program that ends takes its own along. */
static int write_setting(const creation *c, csn_buf *path, csn_buf *body)
{
    csn_jw w = CSN_JW_INIT(body, false);
    csn_whose whose = whose_new(c->d, &c->wish);
    bool is_taken_along = !c->wish.is_detached || c->wish.is_ephemeral;

    switch (c->n_settled) {
    case 0:
        csn_jw_begin_object(&w);
        csn_jw_key(&w, "labels");
        csn_write_labels(&w, c->wish.labels, &whose);
        csn_jw_end_object(&w);
        return csn_buf_puts(path, "/labels");
    case 1:
        return csn_buf_puts(path, is_taken_along ? "/autodelete/0" : "/autodelete/-1");
    case 2:
        return csn_buf_printf(path, "/autostop/%lld", (long long) stop_minutes(&c->wish));
    case 3:
        return csn_buf_printf(path, "/ttl/%lld", (long long) csn_daytona_minutes(c->wish.ttl_ms));
    default:
        return 0;
    }
}

static void on_settled(const csn_web_answer *a, int result, const csn_error *err, void *user);

/* The next setting; or it is ready. */
static void settle(creation *c)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_auto(buf) csn_buf body = CSN_BUF_INIT;
    csn_api_call_spec spec = CSN_API_CALL_SPEC(.what = "fork a sandbox", .repeat = CSN_REPEAT_SAFE,
                                               .deadline_ns = c->deadline_ns);
    csn_error err = { 0 };

    if (!c->source || c->n_settled == N_SETTINGS) {
        give_box(c);
        return;
    }
    csn_daytona_box_url(&url, c->d, c->id);
    write_setting(c, &path, &body);
    csn_buf_puts(&url, path.data);
    spec.url = url.data;
    spec.method = body.len > 0 ? "PUT" : "POST";
    spec.content_type = body.len > 0 ? "application/json" : NULL;
    spec.body = body.data;
    spec.body_len = body.len;
    if (url.error < 0 || path.error < 0 || body.error < 0)
        (void) csn_fail(&err, CSN_E_NO_MEMORY, "fork a sandbox");
    else
        c->call = csn_api_call_start(c->d, &spec, on_settled, c, &err);
    if (!c->call)
        undo(c, err.code, &err);
}

static void on_settled(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    creation *c = user;

    (void) a;
    c->call = NULL;
    c->n_settled++;
    if (result < 0)
        undo(c, result, err);
    else
        settle(c);
}

/* ---- until it stands ---- */

/* Where its own verbs are. The key goes along with every one of them. */
static int take_toolbox(creation *c, const char *url, csn_error *err)
{
    csn_auto(buf) csn_buf whole = CSN_BUF_INIT;

    if (!csn_url_may_have_key(c->d->url, url))
        return csn_fail(
            err, CSN_E_DENIED,
            "the service says its sandboxes are at '%.100s': without TLS no key goes there", url);
    csn_buf_printf(&whole, "%s/%s", url, c->id);
    c->toolbox = csn_buf_take(&whole, NULL);
    return c->toolbox ? CSN_OK : csn_fail(err, CSN_E_NO_MEMORY, "create a sandbox");
}

static void on_toolbox(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    creation *c = user;
    csn_auto(json) csn_json *doc = NULL;
    csn_error own = { 0 };
    const char *url;

    c->call = NULL;
    if (result < 0) {
        undo(c, result, err);
        return;
    }
    result = csn_url_answer_parse(a->body, a->body_len, &doc, &url, &own);
    if (result >= 0)
        result = take_toolbox(c, url, &own);
    if (result < 0)
        undo(c, result, &own);
    else
        settle(c);
}

static int ask_toolbox(creation *c, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_api_call_spec spec = CSN_API_CALL_SPEC(.what = "ask where a sandbox is", .method = "GET",
                                               .deadline_ns = c->deadline_ns);

    csn_daytona_box_url(&url, c->d, c->id);
    csn_buf_puts(&url, "/toolbox-proxy-url");
    if (url.error < 0)
        return csn_fail_sys(err, url.error, "create a sandbox");
    spec.url = url.data;
    c->call = csn_api_call_start(c->d, &spec, on_toolbox, c, err);
    return c->call ? CSN_OK : err->code;
}

static void on_looked(const csn_web_answer *a, int result, const csn_error *err, void *user);

static void on_pause_over(csn_timer *timer, void *user)
{
    creation *c = user;
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_api_call_spec spec = CSN_API_CALL_SPEC(.what = "look at a sandbox", .method = "GET",
                                               .deadline_ns = c->deadline_ns);
    csn_error err = { 0 };

    (void) timer;
    csn_daytona_box_url(&url, c->d, c->id);
    spec.url = url.data;
    c->call = url.error < 0 ? NULL : csn_api_call_start(c->d, &spec, on_looked, c, &err);
    if (!c->call)
        undo(c, err.code ? err.code : CSN_E_NO_MEMORY, &err);
}

/* It is not there yet: looked at again, less and less often. */
static int wait_more(creation *c, const csn_dto *dto, csn_error *err)
{
    char word[CSN_WORDS_SIZE];
    int r;

    csn_words_of(dto->state_word, strlen(dto->state_word), c->d->secret, word);
    if (csn_remaining_ns(c->deadline_ns) <= c->pause_ms * CSN_NS_PER_MS)
        return csn_fail(err, CSN_E_TIMEOUT, "sandbox '%s' is still '%s' after %d seconds", c->id,
                        word, CSN_DAYTONA_CREATE_MS / 1000);
    r = csn_timer_set(c->d->base.loop, &c->timer, csn_deadline_in_ms(c->pause_ms), on_pause_over,
                      c);
    c->pause_ms = c->pause_ms * 3 / 2 < POLL_MOST_MS ? c->pause_ms * 3 / 2 : POLL_MOST_MS;
    return r < 0 ? csn_fail_sys(err, r, "create a sandbox") : CSN_OK;
}

static int take_dto(creation *c, const csn_dto *dto, csn_error *err)
{
    char why[CSN_WORDS_SIZE];
    int r;

    if (dto->has_failed || dto->state == CSN_STATE_DELETED || dto->state == CSN_STATE_DELETING) {
        csn_words_of(dto->reason, strlen(dto->reason), c->d->secret, why);
        return csn_fail(err, CSN_E_LOST, "sandbox '%s' did not start: %s", c->id,
                        why[0] ? why : dto->state_word);
    }
    if (dto->state != CSN_STATE_STARTED)
        return wait_more(c, dto, err);
    if (!dto->toolbox[0])
        return ask_toolbox(c, err);
    r = take_toolbox(c, dto->toolbox, err);
    if (r >= 0)
        settle(c);
    return r;
}

static void on_looked(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    creation *c = user;
    csn_auto(json) csn_json *doc = NULL;
    csn_error own = { 0 };
    csn_dto dto;

    c->call = NULL;
    if (result < 0) {
        undo(c, result, err);
        return;
    }
    result = csn_dto_parse(a->body, a->body_len, &doc, &dto, &own);
    if (result >= 0 && strcmp(dto.id, c->id) != 0)
        result =
            csn_fail(&own, CSN_E_PROTOCOL, "the service told of another sandbox than '%s'", c->id);
    if (result >= 0)
        result = take_dto(c, &dto, &own);
    if (result < 0)
        undo(c, result, &own);
}

/* Not made for sure: refused, or never heard of. Else it may have come to be, and the helper deletes it at the end. */
static bool was_refused(const csn_web_answer *a)
{
    if (!a)
        return false;
    if (a->end.failure == CSN_WEB_OK)
        return a->end.status < 500;
    return a->end.failure == CSN_WEB_NO_NAME || a->end.failure == CSN_WEB_REFUSED ||
           a->end.failure == CSN_WEB_TLS;
}

static void on_made(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    creation *c = user;
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_error own = { 0 };
    csn_dto dto;

    c->call = NULL;
    if (result >= 0) {
        result = csn_dto_parse(a->body, a->body_len, &doc, &dto, &own);
        err = &own;
    } else if (c->last && was_refused(a)) {
        (void) csn_webline_set_last(&c->d->line, c->last, "", NULL);
    }
    if (result < 0) {
        own = *err;
        if (a && a->end.status == 409 && !c->source)
            result = own.code = CSN_E_EXISTS; /* the name */
        else if (c->wish.image && a && a->end.status == 400 &&
                 csn_starts_with(own.message, "Snapshot ") && strstr(own.message, " not found"))
            result = own.code = CSN_E_NOT_FOUND;
        end_creation(c, NULL, result, &own);
        return;
    }
    memcpy(c->id, dto.id, sizeof(c->id));
    if (!c->last && !c->wish.is_detached)
        c->last = csn_webline_new_last(&c->d->line);
    if (c->last && csn_daytona_box_url(&url, c->d, c->id) == 0)
        (void) csn_webline_set_last(&c->d->line, c->last, "DELETE", url.data);
    result = c->is_cancelled ? csn_fail(&own, CSN_E_CANCELLED, "create a sandbox: cancelled")
                             : take_dto(c, &dto, &own);
    if (result < 0)
        undo(c, result, &own);
}

/* Once the service has told its id it can be deleted; until then its answer is waited for. */
static void give_up_creation(csn_op *op)
{
    creation *c = op->request;
    csn_error err = { 0 };

    c->is_cancelled = true;
    if (!c->id[0])
        return;
    csn_api_call_cancel(c->call);
    c->call = NULL;
    csn_timer_cancel(&c->timer);
    undo(c, csn_fail(&err, CSN_E_CANCELLED, "create a sandbox: cancelled"), &err);
}

/* What is made can be deleted by its name before its id is known. One of ours nobody else picks. One that was chosen for us may be
 * another sandbox's: the service's answer tells, and until then the DELETE waits. */
static int choose_name(creation *c, csn_buf *name)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    bool is_given = c->wish.name && c->wish.name[0];
    char id[25] = "";
    int r = is_given ? csn_buf_puts(name, c->wish.name) : csn_id_hex(id, 12);

    if (r < 0 || (!is_given && (r = csn_buf_printf(name, "caisson-%s", id)) < 0))
        return r;
    if (c->wish.is_detached)
        return 0;
    if ((r = csn_daytona_box_url(&url, c->d, name->data)) < 0)
        return r;
    c->last = csn_webline_new_last(&c->d->line);
    return csn_webline_set_last(&c->d->line, c->last, "DELETE", url.data);
}

static int write_fork(const creation *c, csn_buf *url, csn_buf *body, const char *name)
{
    csn_jw w = CSN_JW_INIT(body, false);

    csn_daytona_box_url(url, c->d, c->source->wish.id);
    csn_buf_puts(url, "/fork");
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "name", name);
    csn_jw_end_object(&w);
    return url->error ? url->error : body->error;
}

static int send_create(creation *c, csn_error *err)
{
    csn_auto(buf) csn_buf name = CSN_BUF_INIT;
    csn_auto(buf) csn_buf body = CSN_BUF_INIT;
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_api_call_spec spec = CSN_API_CALL_SPEC(.what = "create a sandbox", .method = "POST",
                                               .content_type = "application/json",
                                               .deadline_ns = c->deadline_ns, .must_finish = true);
    int r = choose_name(c, &name);

    if (r == 0 && c->source)
        r = write_fork(c, &url, &body, name.data);
    else if (r == 0 && (r = write_wish(&body, c->d, &c->wish, name.data)) == 0)
        r = csn_buf_printf(&url, "%s/sandbox", c->d->url);
    if (r < 0)
        return csn_fail_sys(err, r, "create a sandbox");
    spec.url = url.data;
    spec.body = body.data;
    spec.body_len = body.len;
    spec.last = c->wish.name && c->wish.name[0] ? c->last : 0;
    c->call = csn_api_call_start(c->d, &spec, on_made, c, err);
    return c->call ? CSN_OK : err->code;
}

/* `wish` is taken on success; `source`: of a fork, else NULL. */
static int begin_creation(csn_daytona *d, csn_wish *wish, csn_box *source, csn_op *op,
                          csn_error *err)
{
    creation *c = csn_calloc(1, sizeof(*c));
    int r;

    if (!c)
        return csn_fail(err, CSN_E_NO_MEMORY, "create a sandbox");
    *c = (creation){ .d = d,
                     .wish = *wish,
                     .op = op,
                     .source = source ? csn_box_ref(source) : NULL,
                     .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_CREATE_MS),
                     .pause_ms = POLL_FIRST_MS };
    csn_list_init(&c->link);
    r = send_create(c, err);
    if (r < 0) {
        if (c->last)
            (void) csn_webline_set_last(&c->d->line, c->last, "", NULL);
        csn_box_unref(c->source);
        free(c);
        return r;
    }
    *wish = (csn_wish){ .id_index = -1 };
    csn_list_append(&c->d->creations, &c->link);
    op->give_up = give_up_creation;
    op->request = c;
    return CSN_OK;
}

int csn_daytona_create(csn_backend *backend, csn_wish *wish, csn_op *op, csn_error *err)
{
    int r;

    err = CSN_OP_ERR(err);
    r = check_wish(wish, err);
    return r < 0 ? r : begin_creation(csn_daytona_of(backend), wish, NULL, op, err);
}

int csn_daytona_fork(csn_box *box, csn_wish *own, csn_op *op, csn_error *err)
{
    csn_auto(wish) csn_wish wish = { .id_index = -1 };
    int r;

    err = CSN_OP_ERR(err);
    if ((r = csn_daytona_box_check(box, err)) < 0 ||
        (r = csn_wish_fork(&box->wish, own, &wish, err)) < 0)
        return r;
    return begin_creation(csn_daytona_of(box->backend), &wish, box, op, err);
}

void csn_daytona_end_creations(csn_daytona *d)
{
    csn_error err = { 0 };
    int r = csn_fail(&err, CSN_E_CANCELLED, "create a sandbox: the engine was closed");
    csn_list paused = CSN_LIST_INIT(paused);

    csn_list_foreach (node, &d->creations) {
        if (csn_list_entry(node, creation, link)->call)
            continue;
        csn_list_remove(node);
        csn_list_append(&paused, node);
    }
    for (csn_list *node; (node = csn_list_pop(&paused));)
        end_creation(csn_list_entry(node, creation, link), NULL, r, &err);
}
