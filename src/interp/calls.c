/* Host callbacks under way: begun by a frame, answered on a thread (or at once, with is_sync), each with its limit. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/time.h"
#include "interp.h"

static void free_call(csn_call *call)
{
    free(call->name);
    free(call->args);
    free(call->kwargs);
    csn_buf_free(&call->value);
    free(call);
}

static void send_answer(csn_interp *i, int64_t number, const char *raised, const csn_buf *value)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT_MAX((size_t) 1 << 30);
    csn_jw w = CSN_JW_INIT(&text, false);

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "op", raised ? "tool_error" : "tool_result");
    csn_jw_kint(&w, "call", number);
    if (raised)
        csn_jw_kstr(&w, "type", raised);
    csn_jw_key(&w, raised ? "message" : "value");
    csn_jw_string(&w, value->data, value->len);
    csn_jw_end_object(&w);
    (void) csn_worker_send(i, &text); /* a lost process has no use for it */
}

/* Lets go of a call: a thread that still works on it frees it when it is done. */
static void let_go(csn_interp *i, csn_call *call)
{
    bool is_done;

    csn_timer_cancel(&call->timer);
    csn_list_remove(&call->link);
    i->n_calls--;
    pthread_mutex_lock(&i->mutex);
    is_done = call->is_done;
    call->is_abandoned = true;
    pthread_mutex_unlock(&i->mutex);
    if (is_done)
        free_call(call);
}

static void on_late(csn_timer *timer, void *user)
{
    csn_call *call = user;
    csn_interp *i = call->interp;
    csn_auto(buf) csn_buf why = CSN_BUF_INIT;

    (void) timer;
    csn_buf_puts(&why, "Tool call failed: Tool call timeout");
    send_answer(i, call->number, "RuntimeError", &why);
    let_go(i, call);
}

static void *run_thread(void *user)
{
    csn_call *call = user;
    csn_interp *i = call->interp;
    bool is_abandoned;

    csn_call_answer(call);
    pthread_mutex_lock(&i->mutex);
    call->is_done = true;
    is_abandoned = call->is_abandoned;
    pthread_mutex_unlock(&i->mutex);
    if (is_abandoned)
        free_call(call);
    csn_loop_wake(i->loop);
    pthread_mutex_lock(&i->mutex);
    i->n_threads--;
    pthread_cond_broadcast(&i->idle);
    pthread_mutex_unlock(&i->mutex);
    return NULL;
}

/* Signals belong to the program's own threads. */
static int start_thread(csn_call *call)
{
    csn_interp *i = call->interp;
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_t thread;
    int r;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 1 << 20);
    pthread_mutex_lock(&i->mutex);
    i->n_threads++;
    pthread_mutex_unlock(&i->mutex);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    r = pthread_create(&thread, &attr, run_thread, call);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (r == 0)
        return 0;
    pthread_mutex_lock(&i->mutex);
    i->n_threads--;
    pthread_mutex_unlock(&i->mutex);
    return -r;
}

static int copy_member(const csn_json *frame, const char *key, char **ret)
{
    const csn_json *v = csn_json_get(frame, key);

    if (csn_json_type_of(v) != CSN_JSON_STRING)
        return -EBADMSG;
    *ret = csn_strdup(csn_json_str(v, ""));
    return *ret ? 0 : -ENOMEM;
}

static int read_call(csn_call *call, const csn_json *frame)
{
    int r = copy_member(frame, "name", &call->name);

    if (r == 0)
        r = copy_member(frame, "args", &call->args);
    if (r == 0)
        r = copy_member(frame, "kwargs", &call->kwargs);
    return r;
}

int csn_call_begin(csn_interp *i, const csn_json *frame)
{
    csn_call *call;
    int r;

    if (!i->running || csn_json_get_int(frame, "id", -1) != i->running->id)
        return 0; /* nobody waits for it: the driver ends such calls itself */
    if (i->n_calls >= CSN_MAX_CALLS)
        return -EBADMSG;
    call = csn_calloc(1, sizeof(*call));
    if (!call)
        return -ENOMEM;
    csn_list_init(&call->link);
    call->interp = i;
    call->number = csn_json_get_int(frame, "call", -1);
    call->value = (csn_buf) CSN_BUF_INIT_MAX((size_t) 256 << 20);
    r = read_call(call, frame);
    if (r < 0) {
        free_call(call);
        return r;
    }
    i->running->result->n_callbacks++;
    csn_list_append(&i->calls, &call->link);
    i->n_calls++;
    r = csn_timer_set(i->loop, &call->timer, csn_deadline_in_ms(i->o.tool_timeout_s * 1000),
                      on_late, call);
    if (r == 0 && !i->o.is_sync && start_thread(call) == 0)
        return 0;
    csn_call_answer(call);
    call->is_done = true;
    csn_calls_collect(i);
    return r;
}

/* ---- errands ---------------------------------------------------------------------------------------------------- */

bool csn_errand_run(csn_interp *i, void (*fn)(void *user), void *user)
{
    csn_errand e = { .run = fn, .user = user };

    if (pthread_equal(pthread_self(), atomic_load(&i->thread))) {
        fn(user);
        return true;
    }
    pthread_mutex_lock(&i->mutex);
    csn_list_append(&i->errands, &e.link);
    pthread_mutex_unlock(&i->mutex);
    csn_loop_wake(i->loop);
    pthread_mutex_lock(&i->mutex);
    while (!e.is_done && !atomic_load(&i->is_closing))
        pthread_cond_wait(&i->idle, &i->mutex);
    csn_list_remove(&e.link);
    pthread_mutex_unlock(&i->mutex);
    return e.is_done;
}

static csn_errand *take_errand(csn_interp *i)
{
    csn_list *node;

    pthread_mutex_lock(&i->mutex);
    node = csn_list_pop(&i->errands);
    pthread_mutex_unlock(&i->mutex);
    return node ? csn_list_entry(node, csn_errand, link) : NULL;
}

static void run_errands(csn_interp *i)
{
    csn_errand *e;

    while (!atomic_load(&i->is_closing) && (e = take_errand(i))) {
        e->run(e->user);
        pthread_mutex_lock(&i->mutex);
        e->is_done = true;
        pthread_cond_broadcast(&i->idle);
        pthread_mutex_unlock(&i->mutex);
    }
}

void csn_calls_collect(csn_interp *i)
{
    csn_list_foreach (node, &i->calls) {
        csn_call *call = csn_list_entry(node, csn_call, link);
        bool is_done;

        pthread_mutex_lock(&i->mutex);
        is_done = call->is_done;
        pthread_mutex_unlock(&i->mutex);
        if (!is_done)
            continue;
        send_answer(i, call->number, call->raised, &call->value);
        let_go(i, call);
    }
    run_errands(i);
}

void csn_calls_abandon(csn_interp *i)
{
    csn_list_foreach (node, &i->calls)
        let_go(i, csn_list_entry(node, csn_call, link));
}

void csn_calls_wait_threads(csn_interp *i)
{
    pthread_mutex_lock(&i->mutex);
    pthread_cond_broadcast(&i->idle); /* whoever waits for an errand sees that there will be none */
    while (i->n_threads)
        pthread_cond_wait(&i->idle, &i->mutex);
    pthread_mutex_unlock(&i->mutex);
}
