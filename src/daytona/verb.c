/* SPDX-License-Identifier: Apache-2.0 */
#include "verb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "answer.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/time.h"

enum { PAUSE_FIRST_MS = 100, PAUSE_MOST_MS = 1000 };

static csn_op *free_verb(csn_api_verb *v)
{
    csn_op *op = v->op;

    csn_list_remove(&v->link);
    csn_timer_cancel(&v->timer);
    csn_api_call_cancel(v->call);
    csn_close(&v->sink);
    if (v->free)
        v->free(v);
    csn_box_unref(v->box);
    free(v);
    return op;
}

static void end_verb(csn_api_verb *v, int result, const csn_error *err)
{
    csn_error own = err ? *err : (csn_error){ 0 };

    csn_op_end(free_verb(v), result, result < 0 && own.code ? &own : NULL);
}

/* A step's result: it goes on, or this is its end. */
static void go_on(csn_api_verb *v, int result, const csn_error *err)
{
    if (result < 0 || (!v->call && !v->timer.loop))
        end_verb(v, result, err);
}

static void give_up(csn_op *op)
{
    csn_api_verb *v = op->request;

    if (!v->finishes_first)
        end_verb(v, CSN_E_CANCELLED, NULL);
}

void *csn_api_verb_new(csn_daytona *d, csn_box *box, size_t size, const char *what,
                       int64_t limit_ms, csn_op *op, csn_error *err)
{
    csn_api_verb *v;

    if (box && csn_daytona_box_check(box, err) < 0)
        return NULL;
    v = csn_calloc(1, size);
    if (!v) {
        (void) csn_fail(err, CSN_E_NO_MEMORY, "%s", what);
        return NULL;
    }
    *v = (csn_api_verb){ .d = box ? csn_daytona_of(box->backend) : d,
                         .op = op,
                         .box = box ? csn_box_ref(box) : NULL,
                         .what = what,
                         .sink = -1,
                         .deadline_ns = csn_deadline_in_ms(limit_ms),
                         .pause_ms = PAUSE_FIRST_MS };
    csn_list_append(&v->d->verbs, &v->link);
    return v;
}

int csn_api_verb_begin(csn_api_verb *v, int result)
{
    if (result < 0) {
        (void) free_verb(v);
        return result;
    }
    v->op->give_up = give_up;
    v->op->request = v;
    return CSN_OK;
}

/* A large answer's body is in the sink. */
static void on_answer(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    csn_api_verb *v = user;
    csn_auto(buf) csn_buf large = CSN_BUF_INIT_MAX(CSN_API_LARGE_MAX + 1);
    csn_error own = err ? *err : (csn_error){ 0 };
    csn_web_answer whole;

    v->call = NULL;
    if (result >= 0 && v->sink >= 0) {
        result = csn_api_read_sink(v->sink, a->end.n_bytes, v->what, &large, &own);
        whole = *a;
        whole.body = large.data;
        whole.body_len = large.len;
        a = &whole;
    }
    csn_close(&v->sink);
    result = v->step(v, a, result, &own);
    go_on(v, result, &own);
}

int csn_api_verb_ask(csn_api_verb *v, const csn_api_ask *ask, csn_error *err)
{
    csn_error own = { 0 };
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = v->what, .method = ask->method, .url = ask->url->data,
                          .repeat = ask->repeat, .deadline_ns = v->deadline_ns);
    int sticky = ask->url->error ? ask->url->error : ask->body ? ask->body->error : 0;

    if (sticky < 0)
        return csn_fail_sys(err, sticky, "%s", v->what);
    if (ask->body) {
        spec.content_type = "application/json";
        spec.body = ask->body->data;
        spec.body_len = ask->body->len;
    }
    if (ask->is_large) {
        v->sink = memfd_create("csn-answer", MFD_CLOEXEC);
        if (v->sink < 0)
            return csn_fail_sys(err, -errno, "%s", v->what);
        spec.sink_fd = v->sink;
        spec.max_bytes = CSN_API_LARGE_MAX;
    }
    v->step = ask->step;
    v->call = csn_api_call_start(v->d, &spec, on_answer, v, &own);
    if (!v->call && err)
        *err = own;
    return v->call ? CSN_OK : own.code;
}

int csn_api_verb_ask_box(csn_api_verb *v, const char *path, csn_api_ask ask, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;

    csn_daytona_box_url(&url, v->d, v->box->wish.id);
    csn_buf_puts(&url, path);
    ask.url = &url;
    return csn_api_verb_ask(v, &ask, err);
}

int csn_api_verb_ask_toolbox(csn_api_verb *v, const char *path, csn_api_ask ask, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    const char *toolbox = csn_daytona_box_of(v->box)->toolbox;

    if (!toolbox)
        return csn_fail(err, CSN_E_STATE, "sandbox '%s' is not started", v->box->wish.id);
    csn_buf_printf(&url, "%s%s", toolbox, path);
    ask.url = &url;
    return csn_api_verb_ask(v, &ask, err);
}

static void on_pause_over(csn_timer *timer, void *user)
{
    csn_api_verb *v = user;
    csn_error err = { 0 };

    (void) timer;
    go_on(v, v->again(v, &err), &err);
}

int csn_api_verb_pause(csn_api_verb *v, const char *state, csn_api_again *again, csn_error *err)
{
    char word[CSN_WORDS_SIZE];
    int r;

    csn_words_of(state, strlen(state), v->d->secret, word);
    if (v->d->is_closing)
        return csn_fail(err, CSN_E_CANCELLED, "%s: the engine was closed", v->what);
    if (csn_remaining_ns(v->deadline_ns) <= v->pause_ms * CSN_NS_PER_MS)
        return csn_fail(err, CSN_E_TIMEOUT, "%s: the service still says '%s'", v->what, word);
    v->again = again;
    r = csn_timer_set(v->d->base.loop, &v->timer, csn_deadline_in_ms(v->pause_ms), on_pause_over,
                      v);
    v->pause_ms = v->pause_ms * 3 / 2 < PAUSE_MOST_MS ? v->pause_ms * 3 / 2 : PAUSE_MOST_MS;
    return r < 0 ? csn_fail_sys(err, r, "%s", v->what) : CSN_OK;
}

void csn_api_op_hold(csn_op *op)
{
    op->give_up = NULL;
}

bool csn_api_op_release(csn_op *op, void (*back)(csn_op *op), csn_error *err)
{
    if (op->fate == CSN_OP_WANTED)
        op->give_up = back;
    else
        (void) csn_fail(err, CSN_E_CANCELLED, "cancelled");
    return op->fate == CSN_OP_WANTED;
}

bool csn_api_verb_release(csn_api_verb *v, csn_error *err)
{
    return csn_api_op_release(v->op, give_up, err);
}

void csn_api_verbs_end(csn_daytona *d)
{
    csn_error err = { 0 };
    csn_list paused = CSN_LIST_INIT(paused);

    csn_list_foreach (node, &d->verbs) {
        if (csn_list_entry(node, csn_api_verb, link)->call)
            continue;
        csn_list_remove(node);
        csn_list_append(&paused, node);
    }
    for (csn_list *node; (node = csn_list_pop(&paused));) {
        csn_api_verb *v = csn_list_entry(node, csn_api_verb, link);

        end_verb(v, csn_fail(&err, CSN_E_CANCELLED, "%s: the engine was closed", v->what), &err);
    }
}
