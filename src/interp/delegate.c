/* Children: a task handed to an interpreter of its own, on the call's thread with an engine of its own, since an engine
 * belongs to one thread; several run at once. Only the parent's thread may copy the parent's sandbox, so the call's thread
 * sends it on that errand. The copy is attached to the parent's engine and shared with the child's: it ends with whoever
 * asked for it, however that ends. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/id.h"
#include "base/redact.h"
#include "base/time.h"
#include "interp.h"

enum { TOKEN_MAX = 80 };

/* What of the parent's id may stand in a path. */
static void put_token(csn_buf *out, const char *text)
{
    size_t start = out->len;

    for (; *text && out->len - start < TOKEN_MAX; text++) {
        bool is_plain = (*text >= '0' && *text <= '9') || (*text >= 'a' && *text <= 'z') ||
                        (*text >= 'A' && *text <= 'Z') || *text == '-' || *text == '_';

        csn_buf_putc(out, is_plain ? *text : '-');
    }
    if (out->len == start)
        csn_buf_puts(out, "unknown");
}

struct child {
    csn_interp *parent;
    csn_engine *engine;
    csn_interp *interp;
    csn_budget lease;
    const char *strategy, *reason; /* reason: why it is this one */
    bool is_fallback;
    char parent_box[40], box_id[40]; /* ids; "": none */
    char name[64];
    char subpath[192];
};

static int name_child(struct child *c)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    char hex[16], token[24];

    if (csn_id_hex(hex, 6) < 0 || csn_id_hex(token, 8) < 0)
        return -EIO;
    (void) snprintf(c->name, sizeof(c->name), "fleet-rlm-%s-child-%s", c->strategy, hex);
    csn_buf_puts(&path, "meta/rlm-children/");
    put_token(&path, c->parent_box);
    csn_buf_printf(&path, "/%s", token);
    (void) snprintf(c->subpath, sizeof(c->subpath), "%s", path.data);
    return path.error;
}

/* Which place the child gets: the parent's own sandbox, the same volume narrowed, or a copy. */
static void choose_strategy(struct child *c)
{
    const csn_interp *parent = c->parent;

    c->strategy = "clean";
    c->reason = "the parent has no sandbox";
    if (parent->box && csn_streq(parent->o.child_isolation_mode, "context")) {
        c->strategy = "context";
        c->reason = "isolation mode 'context'";
    } else if (parent->in_place.volume_name) {
        c->strategy = "volume";
        c->reason = "a volume is mounted";
    } else if (parent->box) {
        c->strategy = "fork";
        c->reason = "the parent's sandbox can be copied";
    }
}

static int make_interp(struct child *c, csn_error *err)
{
    const csn_interp *p = c->parent;
    bool has_volume = csn_streq(c->strategy, "volume");
    csn_interp_options o = { .size = sizeof(o),
                             .timeout_s = p->o.delegate_execution_timeout_s,
                             .execute_timeout_s = p->o.delegate_execution_timeout_s,
                             .health_timeout_s = p->o.health_timeout_s,
                             .tool_timeout_s = p->o.tool_timeout_s,
                             .name = c->name,
                             .image = p->o.image,
                             .snapshot = p->o.snapshot,
                             .env = p->o.env,
                             .memory_bytes = p->o.memory_bytes,
                             .cpu_milli = p->o.cpu_milli,
                             .has_network = p->o.has_network,
                             .volume_name = has_volume ? p->in_place.volume_name : NULL,
                             .volume_subpath = has_volume ? c->subpath : NULL,
                             .max_recursion_depth =
                                 p->o.max_recursion_depth ? p->o.max_recursion_depth : -1,
                             .is_depth_strict = p->o.is_depth_strict,
                             .delegate_max_iterations = p->o.delegate_max_iterations,
                             .llm_call_timeout_s = p->o.llm_call_timeout_s,
                             .child_isolation_mode = p->o.child_isolation_mode,
                             .child_fork_fallback = p->o.child_fork_fallback,
                             .is_sync = p->o.is_sync };
    int r = csn_interp_new(c->engine, &o, &c->interp, err);

    if (r < 0)
        return r;
    csn_model_free(c->interp->model); /* it asks its parent's, and pays from its lease */
    c->interp->model = p->model;
    c->interp->owns_model = false;
    c->interp->depth = p->depth + 1;
    c->interp->budget = &c->lease;
    return CSN_OK;
}

/* On the parent's thread, since nobody else may look at its session: what the child is to be. */
struct preparing {
    struct child *c;
    csn_error err;
    int result;
};

static void prepare(void *user)
{
    struct preparing *p = user;
    struct child *c = p->c;
    const csn_interp *parent = c->parent;

    (void) snprintf(c->parent_box, sizeof(c->parent_box), "%s",
                    parent->box ? csn_sandbox_id(parent->box) : "");
    choose_strategy(c);
    if (name_child(c) < 0)
        p->result = csn_fail(&p->err, CSN_E_SYSTEM, "name the child");
    else
        p->result = make_interp(c, &p->err);
    if (p->result >= 0 && (csn_streq(c->strategy, "context") || csn_streq(c->strategy, "fork")))
        p->result = csn_session_take(c->interp, parent, &p->err);
}

static int prepare_child(struct child *c, csn_error *err)
{
    struct preparing p = { .c = c };

    if (!csn_errand_run(c->parent, prepare, &p))
        return csn_fail(err, CSN_E_CANCELLED, "the parent ends");
    if (p.result < 0)
        *err = p.err;
    return p.result;
}

/* Puts the child into a sandbox that is there already. It has no sources of its own to reconcile. */
static int adopt(struct child *c, csn_sandbox *box, csn_error *err)
{
    csn_interp *i = c->interp;
    int r = csn_session_adopt(i, box, err);

    if (r >= 0 && csn_sources_set(&i->sources, i->in_place.repo_url, i->in_place.repo_ref,
                                  (const char *const *) i->in_place.context_paths,
                                  i->in_place.volume_name) < 0)
        r = csn_fail_sys(err, -ENOMEM, "prepare the child");
    return r;
}

/* On the parent's thread: a copy of its sandbox that another engine can open and that ends with the parent's. */
struct copying {
    struct child *c;
    csn_error err;
    int result;
    char id[40];
};

static void copy_box(void *user)
{
    struct copying *k = user;
    const csn_interp *p = k->c->parent;
    csn_sandbox_options o = {
        .size = sizeof(o), .name = k->c->name, .is_ephemeral = 1, .is_shared = 1
    };
    csn_sandbox *box = NULL;

    o.ttl_ms = p->o.delegate_execution_timeout_s * 1000 + 30000;
    if (!p->box)
        k->result = csn_fail(&k->err, CSN_E_STATE, "the parent's sandbox is gone");
    else
        k->result = csn_sandbox_fork(p->box, &o, &box, &k->err);
    if (k->result >= 0)
        (void) snprintf(k->id, sizeof(k->id), "%s", csn_sandbox_id(box));
    csn_sandbox_free(box);
}

static int fork_box(struct child *c, csn_error *err)
{
    struct copying k = { .c = c };
    csn_sandbox *box = NULL;
    int r;

    r = csn_slot_take(c->interp, err);
    if (r < 0)
        return r;
    if (!csn_errand_run(c->parent, copy_box, &k))
        return csn_fail(err, CSN_E_CANCELLED, "the parent ends");
    if (k.result < 0) {
        *err = k.err;
        return k.result;
    }
    r = csn_sandbox_open(c->engine, k.id, &box, err);
    return r < 0 ? r : adopt(c, box, err);
}

static int settle(struct child *c, csn_error *err)
{
    csn_sandbox *box = NULL;
    int r;

    if (csn_streq(c->strategy, "clean") || csn_streq(c->strategy, "volume"))
        return csn_interp_start(c->interp, err);
    if (csn_streq(c->strategy, "context")) {
        r = csn_sandbox_open(c->engine, c->parent_box, &box, err);
        c->interp->borrows_box = r >= 0;
        return r < 0 ? r : adopt(c, box, err);
    }
    r = fork_box(c, err);
    if (r >= 0 || r == CSN_E_CANCELLED || !c->interp->has_slot ||
        csn_streq(c->parent->o.child_fork_fallback, "fail"))
        return r;
    csn_session_drop(c->interp, true); /* no copy to be had: a clean one */
    c->strategy = "clean";
    c->reason = "the parent's sandbox could not be copied";
    c->is_fallback = true;
    return csn_interp_start(c->interp, err);
}

/* What became of the child, for the parent's metadata. */
static void note_child(struct child *c, int result)
{
    csn_interp *p = c->parent;

    pthread_mutex_lock(&p->mutex);
    if (p->n_children++ < CSN_MAX_CHILDREN_TOLD) {
        csn_jw w = CSN_JW_INIT(&p->children_json, false);

        if (p->children_json.len)
            csn_buf_putc(&p->children_json, ',');
        csn_jw_begin_object(&w);
        csn_jw_kstr(&w, "name", c->name);
        csn_jw_kstr(&w, "mode", p->o.child_isolation_mode);
        csn_jw_kstr(&w, "strategy", c->strategy);
        csn_jw_kstr(&w, "reason", c->reason);
        csn_jw_kstr(&w, "parent_sandbox_id", c->parent_box[0] ? c->parent_box : NULL);
        csn_jw_kstr(&w, "child_sandbox_id", c->box_id[0] ? c->box_id : NULL);
        csn_jw_kbool(&w, "fallback", c->is_fallback);
        csn_jw_kint(&w, "lease", c->lease.max);
        csn_jw_kint(&w, "used", c->lease.used);
        csn_jw_kstr(&w, "status", result >= 0 ? "ok" : "error");
        csn_jw_kstr(&w, "cleanup",
                    csn_streq(c->strategy, "context") ? "context_deleted" : "sandbox_deleted");
        csn_jw_end_object(&w);
    }
    pthread_mutex_unlock(&p->mutex);
}

static void end_child(struct child *c)
{
    csn_interp_free(c->interp);
    csn_engine_free(c->engine);
}

static int run_child(struct child *c, const char *prompt, const char *context, csn_buf *ret_answer,
                     csn_error *err)
{
    csn_rlm_options o = { .size = sizeof(o), .context = context };
    csn_rlm_result result = { 0 };
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *answer;
    int64_t most = c->lease.max > 1 ? c->lease.max : 1;
    int r;

    o.max_iterations = c->parent->o.delegate_max_iterations < most
                           ? c->parent->o.delegate_max_iterations
                           : (int) most;
    r = csn_rlm_run(c->interp, prompt, &o, &result, err);
    if (r < 0)
        return r;
    if (csn_json_parse(result.final_json, strlen(result.final_json), &doc, NULL) == 0 &&
        (answer = csn_json_get(doc, "answer"))) {
        if (csn_json_type_of(answer) == CSN_JSON_STRING)
            csn_buf_append(ret_answer, csn_json_str(answer, ""), csn_json_str_len(answer));
        else
            csn_json_dump(answer, false, ret_answer);
    } else {
        r = csn_fail(err, CSN_E_PROTOCOL, "Child RLM completed without SUBMIT(answer=...).");
    }
    csn_rlm_result_done(&result);
    return r;
}

/* At the limit of depth there are no more children, but the model can still be asked. */
static int ask_instead(csn_interp *i, const char *prompt, const char *context, csn_buf *ret_answer,
                       csn_buf *ret_why)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT_MAX((size_t) 128 << 20);
    int r;

    if (i->o.is_depth_strict) {
        csn_buf_printf(ret_why, "sub_rlm max recursion depth (%d) reached. Cannot recurse further.",
                       i->o.max_recursion_depth);
        return -1;
    }
    if (!csn_budget_charge(i->budget, 1, ret_why))
        return -1;
    csn_buf_printf(&text, "%s%s%s", context, *context ? "\n\n" : "", prompt);
    r = csn_model_ask(i->model, false, text.data, text.len, ret_answer);
    if (r == CSN_ASK_SKIPPED)
        csn_budget_give_back(i->budget, 1);
    if (r < 0)
        csn_buf_append(ret_why, ret_answer->data, ret_answer->len);
    return r < 0 ? -1 : 0;
}

/* A whole child. */
struct delegation {
    struct child c;
    const char *prompt, *context;
    csn_buf *answer;
    csn_error err;
    int result;
};

static void run_delegation(struct delegation *d)
{
    struct child *c = &d->c;
    int r = csn_engine_open_like(c->parent->engine, &c->engine, &d->err);

    if (r >= 0)
        r = prepare_child(c, &d->err);
    if (r >= 0)
        r = settle(c, &d->err);
    if (r >= 0) {
        (void) snprintf(c->box_id, sizeof(c->box_id), "%s", csn_interp_sandbox_id(c->interp));
        r = run_child(c, d->prompt, d->context, d->answer, &d->err);
    }
    end_child(c);
    note_child(c, r);
    d->result = r;
}

int csn_delegate_run(csn_interp *i, const char *prompt, const char *context, int64_t lease,
                     csn_buf *ret_answer, csn_buf *ret_why)
{
    struct delegation d = { .c = { .parent = i },
                            .prompt = prompt,
                            .context = context,
                            .answer = ret_answer,
                            .result = CSN_E_CANCELLED };

    if (i->depth >= i->o.max_recursion_depth)
        return ask_instead(i, prompt, context, ret_answer, ret_why);
    d.c.lease = (csn_budget){ 0, lease ? lease : csn_budget_left(i->budget), i->budget };
    if (d.c.lease.max <= 0) {
        csn_buf_puts(ret_why, "LLM call budget exhausted — cannot spawn sub_rlm child.");
        return -1;
    }
    run_delegation(&d);
    if (d.result >= 0)
        return 0;
    csn_buf_puts(ret_why, "sub_rlm failed: ");
    csn_redact(d.err.message[0] ? d.err.message : "the parent ends", ret_why);
    return -1;
}
