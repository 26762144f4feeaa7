/* Delegation asked for by the host: one query or several, at most four children at once. The caller's thread is the
 * interpreter's, so while children run on threads of their own it turns the loop for their errands. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/time.h"
#include "base/utf8.h"
#include "interp.h"

enum { AT_ONCE = 4, TURN_MS = 200 };

struct outcome {
    const char *reason; /* NULL: it has an answer */
    csn_buf text;       /* the answer, or what went wrong */
};

static void fail(struct outcome *o, const char *reason, const char *why)
{
    o->reason = reason;
    csn_buf_clear(&o->text);
    csn_buf_puts(&o->text, why);
}

static void run_one(csn_interp *i, const char *query, const char *context, int64_t lease,
                    struct outcome *o)
{
    csn_auto(buf) csn_buf why = CSN_BUF_INIT;

    if (csn_delegate_run(i, query, context, lease, &o->text, &why) < 0)
        fail(o, "child_error", why.data);
    else if (!o->text.len)
        fail(o, "null_answer", "the child gave no answer");
}

static bool is_blank(const char *text)
{
    return !text || !csn_str_trim(csn_str_of(text)).len;
}

/* What speaks against asking at all. */
static bool is_refused(csn_interp *i, size_t n, struct outcome *o)
{
    if (csn_budget_left(i->budget) < (int64_t) n)
        fail(o, "budget_exhausted", "no LLM calls are left");
    else if (i->n_delegated + n > (size_t) i->o.delegate_max_calls)
        fail(o, "budget_exhausted", "no more delegations before the next execute");
    else if (csn_session_ensure(i, NULL) < 0)
        fail(o, "broker_unavailable", "the session could not be started");
    else
        i->n_delegated += n;
    return o->reason != NULL;
}

static void put_outcome(csn_interp *i, csn_jw *w, const struct outcome *o)
{
    size_t at = 0;

    csn_jw_begin_object(w);
    csn_jw_kstr(w, "status", o->reason ? "error" : "ok");
    if (o->reason) {
        csn_jw_kstr(w, "reason", o->reason);
        csn_jw_kstr(w, "error", o->text.data);
    } else {
        for (int64_t n = 0; at < o->text.len && n < i->o.delegate_result_chars; n++) {
            unsigned c;
            int step = csn_utf8_next(o->text.data + at, o->text.len - at, &c);

            at += step > 0 ? (size_t) step : 1;
        }
        csn_jw_key(w, "answer");
        csn_jw_string(w, o->text.data, at);
    }
    csn_jw_end_object(w);
}

static int give(csn_buf *out, char **ret_json, csn_error *err)
{
    *ret_json = csn_buf_take(out, NULL);
    return *ret_json ? CSN_OK : csn_fail_sys(err, -ENOMEM, "write the answer");
}

int csn_interp_delegate(csn_interp *i, const char *query, const char *context, char **ret_json,
                        csn_error *err)
{
    struct outcome o = { .text = CSN_BUF_INIT };
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    if (is_blank(query))
        fail(&o, "invalid_query", "the query is empty");
    else if (!is_refused(i, 1, &o))
        run_one(i, query, context ? context : "", 0, &o);
    put_outcome(i, &w, &o);
    csn_buf_free(&o.text);
    return give(&out, ret_json, err);
}

/* ---- several ---------------------------------------------------------------------------------------------------- */

struct fan {
    csn_interp *i;
    const char *const *queries;
    const char *context;
    size_t n;
    int64_t budget;
    atomic_size_t next, n_threads;
    struct outcome *outcomes;
};

static void *run_some(void *user)
{
    struct fan *f = user;
    csn_interp *i = f->i;
    size_t at;

    while ((at = atomic_fetch_add(&f->next, 1)) < f->n) {
        int64_t n = (int64_t) f->n;

        run_one(i, f->queries[at], f->context, f->budget / n + ((int64_t) at < f->budget % n),
                &f->outcomes[at]);
    }
    atomic_fetch_sub(&f->n_threads, 1);
    csn_loop_wake(i->loop);
    return NULL;
}

static void run_all(struct fan *f)
{
    pthread_t threads[AT_ONCE];
    size_t n = 0;

    while (n < AT_ONCE && n < f->n && !f->i->o.is_sync) {
        atomic_fetch_add(&f->n_threads, 1);
        if (pthread_create(&threads[n], NULL, run_some, f) != 0) {
            atomic_fetch_sub(&f->n_threads, 1);
            break;
        }
        n++;
    }
    if (n == 0) { /* on this thread, then */
        atomic_fetch_add(&f->n_threads, 1);
        (void) run_some(f);
    }
    while (atomic_load(&f->n_threads))
        (void) csn_interp_turn(f->i,
                               csn_deadline_in_ms(TURN_MS)); /* they end by their own limits */
    while (n)
        pthread_join(threads[--n], NULL);
}

static void put_all(struct fan *f, csn_buf *out)
{
    csn_jw w = CSN_JW_INIT(out, false);
    size_t n_failed = 0;

    for (size_t k = 0; k < f->n; k++)
        n_failed += f->outcomes[k].reason != NULL;
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "status", n_failed ? "error" : "ok");
    csn_jw_key(&w, "results");
    csn_jw_begin_array(&w);
    for (size_t k = 0; k < f->n; k++)
        put_outcome(f->i, &w, &f->outcomes[k]);
    csn_jw_end_array(&w);
    csn_jw_key(&w, "errors");
    csn_jw_begin_array(&w);
    for (size_t k = 0; k < f->n; k++)
        if (f->outcomes[k].reason) {
            csn_jw_begin_object(&w);
            csn_jw_kint(&w, "index", (int64_t) k);
            csn_jw_kstr(&w, "reason", f->outcomes[k].reason);
            csn_jw_kstr(&w, "error", f->outcomes[k].text.data);
            csn_jw_end_object(&w);
        }
    csn_jw_end_array(&w);
    csn_jw_end_object(&w);
}

/* The document's text before the context; fetched inside, by the session itself. */
static int put_document(csn_interp *i, const char *url, csn_buf *out, struct outcome *o)
{
    csn_auto(buf) csn_buf code = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&code, false);
    csn_exec_result *r = NULL;
    size_t len = 0, n = i->n_delegated;
    const char *text;

    csn_buf_puts(&code, "SUBMIT(text=fetch_document_text(");
    csn_jw_str(&w, url);
    csn_buf_puts(&code, "))");
    (void) csn_interp_execute(i, code.data, code.len, NULL, &r, NULL); /* the result says it */
    i->n_delegated = n; /* ours was no turn of the caller's */
    text = r ? csn_final_str(r, "text", &len) : NULL;
    if (text) {
        csn_buf_append(out, text, len);
        csn_buf_puts(out, "\n\n");
    } else {
        fail(o, "child_error", r ? csn_result_text(r, NULL) : "the document can't be had");
    }
    csn_result_free(r);
    return text ? 0 : -1;
}

static int refuse_all(csn_interp *i, const struct outcome *o, char **ret_json, csn_error *err)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    put_outcome(i, &w, o);
    return give(&out, ret_json, err);
}

int csn_interp_delegate_batch(csn_interp *i, const char *const *queries, const char *context,
                              const char *document_url, char **ret_json, csn_error *err)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT_MAX((size_t) 128 << 20);
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    struct outcome refused = { .text = CSN_BUF_INIT };
    struct fan f = { .i = i, .queries = queries };
    int r;

    while (queries && queries[f.n])
        if (is_blank(queries[f.n++]))
            fail(&refused, "invalid_query", "a query is empty");
    if (!refused.reason && !is_refused(i, f.n, &refused) && document_url)
        (void) put_document(i, document_url, &text, &refused); /* refused says it */
    if (!refused.reason) {
        csn_buf_puts(&text, context ? context : "");
        f.context = text.data;
        f.budget = csn_budget_left(i->budget);
        f.outcomes = csn_calloc(f.n + 1, sizeof(*f.outcomes));
        for (size_t k = 0; f.outcomes && k < f.n; k++)
            f.outcomes[k].text = (csn_buf) CSN_BUF_INIT;
        if (!f.outcomes)
            fail(&refused, "child_error", "out of memory");
    }
    if (refused.reason) {
        r = refuse_all(i, &refused, ret_json, err);
    } else {
        if (f.n)
            run_all(&f);
        put_all(&f, &out);
        r = give(&out, ret_json, err);
    }
    for (size_t k = 0; f.outcomes && k < f.n; k++)
        csn_buf_free(&f.outcomes[k].text);
    free(f.outcomes);
    csn_buf_free(&refused.text);
    return r;
}
