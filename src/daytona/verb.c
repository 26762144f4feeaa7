/* SPDX-License-Identifier: Apache-2.0 */
#include "verb.h"

#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/time.h"

enum { PAUSE_FIRST_MS = 100, PAUSE_MOST_MS = 1000 };

static csn_op *free_verb(csn_api_verb *v)
{
    csn_op *op = v->op;

    csn_list_remove(&v->link);
    csn_timer_cancel(&v->timer);
    csn_api_call_cancel(v->call);
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

static void on_answer(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    csn_api_verb *v = user;
    csn_error own = err ? *err : (csn_error){ 0 };

    v->call = NULL;
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
