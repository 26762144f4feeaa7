/* The driver's process inside: started or found again, spoken to over its channel, and given up when it is lost. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/time.h"
#include "interp.h"
#include "interp/driver_source.h"

enum { PIECE = 64 * 1024, PACKETS_PER_TURN = 64 };

/* The source runs with builtins of its own, so that user code that breaks them breaks itself. */
static const char boot[] = "import builtins,sys;sys.path[:]=[p for p in sys.path if p];"
                           "exec(compile(sys.argv[1],'<caisson-driver>','exec'),"
                           "{'__name__':'caisson_driver','__builtins__':dict(vars(builtins))})";

/* ---- sending ---------------------------------------------------------------------------------------------------- */

static int flush(csn_interp *i)
{
    char packet[CSN_PACKET_MAX];
    csn_list *first;

    while ((first = csn_list_first(&i->out))) {
        csn_frame_out *frame = csn_list_entry(first, csn_frame_out, link);
        size_t n = csn_frame_packet(frame, packet);

        if (n == 0) {
            csn_list_remove(first);
            free(frame);
            continue;
        }
        if (send(i->channel_fd, packet, n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            return errno == EAGAIN ? csn_source_mod(i->channel_source, EPOLLIN | EPOLLOUT) : -errno;
        csn_frame_sent(frame);
        if (frame->at == frame->len) {
            csn_list_remove(first);
            free(frame);
        }
    }
    return csn_source_mod(i->channel_source, EPOLLIN);
}

int csn_worker_send(csn_interp *i, const csn_buf *text)
{
    csn_frame_out *frame =
        text->error < 0 || i->channel_fd < 0 ? NULL : csn_frame_new(text->data, text->len);
    bool was_idle = csn_list_empty(&i->out);

    if (!frame)
        return -ENOMEM;
    csn_list_append(&i->out, &frame->link);
    return was_idle ? flush(i) : 0;
}

/* ---- receiving -------------------------------------------------------------------------------------------------- */

static int on_ready(csn_interp *i, const csn_json *frame)
{
    if (csn_json_get_int(frame, "epoch", -1) != i->epoch)
        return 0; /* meant for another client */
    i->is_ready = true;
    i->busy_id = csn_json_get_int(frame, "busy", 0);
    return 0;
}

static int on_probed(csn_interp *i, const csn_json *frame)
{
    const char *state = csn_json_get_str(frame, "state", "");

    i->probed = csn_streq(state, "complete") ? 1 : csn_streq(state, "incomplete") ? 0 : -1;
    return 0;
}

/* The driver could not read what we sent: then one of us is broken. */
static int on_error(csn_interp *i, const csn_json *frame)
{
    (void) i;
    (void) frame;
    return -EBADMSG;
}

static const struct handler {
    const char *op;
    int (*run)(csn_interp *i, const csn_json *frame);
} handlers[] = {
    { "ready", on_ready },           { "probed", on_probed },    { "error", on_error },
    { "tool_call", csn_call_begin }, { "final", csn_job_final }, { "done", csn_job_done },
};

static int handle_frame(csn_interp *i)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_str object = csn_frame_object(&i->in.data, &i->behind_frame);
    int r = csn_json_parse(object.data, object.len, &doc, NULL);
    const char *op = csn_json_get_str(doc, "op", "");

    for (size_t k = 0; r == 0 && k < CSN_COUNT(handlers); k++)
        if (csn_streq(handlers[k].op, op))
            return handlers[k].run(i, doc);
    return r == -ENOMEM ? r : -EBADMSG;
}

/* One packet: 1, 0 when there is none, -errno when the channel is no longer to be trusted. */
static int take_packet(csn_interp *i)
{
    char packet[CSN_PACKET_MAX];
    ssize_t n = recv(i->channel_fd, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC);
    bool was_ready = i->is_ready;
    int r;

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    if (n == 0)
        return -EPIPE;
    r = (size_t) n > sizeof(packet) ? -EBADMSG : csn_frame_take(&i->in, packet, (size_t) n);
    if (r == 1)
        r = handle_frame(i);
    if (r < 0 && !was_ready && r != -ENOMEM)
        r = 0; /* left over from a client before us */
    return r < 0 ? r : 1;
}

static void on_channel(csn_source *src, uint32_t events, void *user)
{
    csn_interp *i = user;
    int r = 1;

    (void) src;
    if (events & EPOLLOUT)
        r = flush(i) < 0 ? -EPIPE : 1;
    for (int n = 0; r == 1 && n < PACKETS_PER_TURN && i->channel_fd >= 0; n++)
        r = take_packet(i);
    if (r == -EBADMSG)
        csn_worker_lost(i, "driver_protocol_error", "the driver sent what it must not");
    else if (r < 0)
        csn_worker_lost(i, "worker_crashed", "the interpreter process ended");
}

/* ---- output ----------------------------------------------------------------------------------------------------- */

/* Reads once; false: nothing is there. */
static bool read_output(csn_interp *i, int k)
{
    char piece[PIECE];
    ssize_t n = i->out_fd[k] < 0 ? 0 : csn_read(i->out_fd[k], piece, sizeof(piece));

    if (n == -EAGAIN)
        return false;
    if (n <= 0) { /* nobody inside holds the other end any more */
        i->out_source[k] = csn_source_remove(i->out_source[k]);
        i->out_fd[k] = -1;
        return false;
    }
    if (k == 1 && !i->is_ready)                                   /* why it will never be */
        (void) csn_buf_append(&i->last_words, piece, (size_t) n); /* full: the beginning will do */
    csn_job_take_output(i, k, piece, (size_t) n);
    return true;
}

static void on_output(csn_source *src, uint32_t events, void *user)
{
    csn_interp *i = user;

    (void) events;
    (void) read_output(i, src == i->out_source[1]);
}

/* What was written before now is at most what the pipes hold. */
void csn_worker_drain(csn_interp *i)
{
    for (int k = 0; k < 2; k++)
        for (int n = 0; n < 16 && read_output(i, k); n++)
            continue;
}

/* ---- the process ------------------------------------------------------------------------------------------------ */

static void forget_frames(csn_interp *i)
{
    csn_list *node;

    while ((node = csn_list_pop(&i->out)))
        free(csn_list_entry(node, csn_frame_out, link));
    csn_frame_forget(&i->in);
}

bool csn_worker_is_there(const csn_interp *i)
{
    return i->process || i->relay;
}

uint32_t csn_worker_number(const csn_interp *i)
{
    return i->process ? csn_process_id(i->process) : i->relay ? csn_relay_number(i->relay) : 0;
}

void csn_worker_interrupt(csn_interp *i)
{
    if (i->process)
        (void) csn_process_signal(i->process, SIGINT, 0,
                                  NULL); /* gone: its end is told elsewhere */
    else if (i->relay)
        csn_relay_signal(i->relay, SIGINT);
}

void csn_worker_kill(csn_interp *i)
{
    if (i->process)
        (void) csn_process_signal(i->process, SIGKILL, 1, NULL); /* dead already is fine */
    else if (i->relay)
        csn_relay_kill(i->relay);
}

void csn_worker_drop(csn_interp *i)
{
    i->channel_source = csn_source_remove(i->channel_source);
    for (int k = 0; k < 2; k++) {
        i->out_source[k] = csn_source_remove(i->out_source[k]);
        i->out_fd[k] = -1;
    }
    i->channel_fd = -1;
    i->is_ready = false;
    csn_op_drop(i->watch);
    i->watch = NULL;
    i->process = csn_process_free(i->process);
    i->relay = csn_relay_free(i->relay);
    forget_frames(i);
}

void csn_worker_lost(csn_interp *i, const char *category, const char *why)
{
    csn_worker_drain(i);
    csn_worker_kill(i);
    csn_worker_drop(i);
    csn_calls_abandon(i);
    i->was_lost = true;
    csn_jobs_fail_all(i, CSN_E_LOST, category, why);
}

static void on_ended(int result, const csn_error *err, void *user)
{
    csn_interp *i = user;

    (void) result;
    (void) err;
    i->watch = NULL;
    while (i->channel_fd >= 0 && take_packet(i) == 1) /* its last words */
        continue;
    if (i->process)
        csn_worker_lost(i, "worker_crashed", "the interpreter process ended");
}

static int watch_process(csn_interp *i, csn_error *err)
{
    csn_error own = { 0 };

    i->watch = csn_process_wait_log_async(i->process, INT64_MAX, on_ended, i, err ? err : &own);
    return i->watch ? CSN_OK : (err ? err : &own)->code;
}

static int open_streams(csn_interp *i, csn_error *err)
{
    int r;

    i->channel_fd = i->relay ? csn_relay_channel(i->relay) : csn_process_channel(i->process);
    for (int k = 0; k < 2; k++)
        i->out_fd[k] = i->relay ? csn_relay_pipe(i->relay, k ? CSN_STDERR : CSN_STDOUT)
                                : csn_process_pipe(i->process, k ? CSN_STDERR : CSN_STDOUT);
    if (i->channel_fd < 0)
        return csn_fail(err, CSN_E_NOT_FOUND, "the interpreter process has no channel");
    r = csn_loop_add(i->loop, i->channel_fd, EPOLLIN, on_channel, i, &i->channel_source);
    for (int k = 0; r == 0 && k < 2; k++)
        if (i->out_fd[k] >= 0)
            r = csn_loop_add(i->loop, i->out_fd[k], EPOLLIN, on_output, i, &i->out_source[k]);
    if (r < 0)
        return csn_fail_sys(err, r, "watch the interpreter's channel");
    return i->relay ? CSN_OK : watch_process(i, err); /* a relay's end is its channel's */
}

/* What stands behind the first three is for both. */
static const char *const *driver_command(const char *argv[7])
{
    static const char *const python[] = { "python3", "-u", "-c" };

    memcpy(argv, python, sizeof(python));
    argv[3] = boot;
    argv[4] = (const char *) csn_driver_source;
    argv[5] = csn_documents_program();
    argv[6] = NULL;
    return argv;
}

static int fail_late(const csn_interp *i, csn_error *err)
{
    return csn_fail(err, CSN_E_TIMEOUT, "Broker server failed to start within timeout (%lld s)",
                    (long long) i->o.health_timeout_s);
}

static int launch(csn_interp *i, csn_error *err)
{
    const char *argv[7];
    csn_process_options o = { .size = sizeof(o),
                              .argv = driver_command(argv),
                              .is_background = 1,
                              .has_channel = 1,
                              .timeout_ms = CSN_UNLIMITED,
                              .output_bytes = CSN_UNLIMITED };

    if (csn_engine_is_remote(i->engine)) {
        int r = csn_relay_start(i->box, i->loop, argv + 3, i->o.health_timeout_s * 1000, &i->relay,
                                err);

        return r == CSN_E_TIMEOUT ? fail_late(i, err) : r;
    }
    return csn_process_start(i->box, &o, &i->process, err);
}

static int start_once(csn_interp *i, csn_error *err)
{
    int r;

    csn_buf_free(&i->last_words);
    i->last_words = (csn_buf) CSN_BUF_INIT_MAX(8192);
    r = launch(i, err);
    if (r >= 0)
        r = open_streams(i, err);
    if (r >= 0)
        r = csn_worker_hello(i, true, err);
    if (r < 0) {
        csn_worker_kill(i); /* it did not start well */
        csn_worker_drop(i);
    }
    return r;
}

int csn_worker_start(csn_interp *i, csn_error *err)
{
    int r = -1;

    for (int tries = 0; r < 0 && tries <= i->o.start_retries; tries++) {
        r = start_once(i, err);
        if (r == CSN_E_CANCELLED || r == CSN_E_NOT_FOUND)
            break; /* another try would not help */
    }
    if (r < 0) {
        csn_note_failure(i, "driver_handshake_error", "driver_start");
        return csn_fail_in(err, r, "start the interpreter");
    }
    return r;
}

/* A relay has one client at a time: the program before us may still be at it. */
static int await_turn(csn_interp *i, csn_error *err)
{
    int64_t deadline = csn_deadline_in_ms(CSN_LOCK_WAIT_MS);
    int r = CSN_OK;

    while (r >= 0 && i->relay && !csn_relay_is_ours(i->relay)) {
        if (csn_deadline_passed(deadline))
            return csn_session_in_use(err);
        r = csn_interp_turn(i, deadline);
    }
    if (r < 0)
        return csn_fail(err, r, "wait for the interpreter");
    return csn_worker_is_there(i) ? CSN_OK
                                  : csn_fail(err, CSN_E_LOST, "the interpreter process has ended");
}

/* What a client that is gone left running. */
static int end_left_execute(csn_interp *i)
{
    int64_t grace = csn_deadline_in_ms(CSN_GRACE_MS);
    int r = CSN_OK;

    csn_worker_interrupt(i);
    while (r >= 0 && i->busy_id && csn_worker_is_there(i) && !csn_deadline_passed(grace))
        r = csn_interp_turn(i, grace);
    if (r >= 0 && csn_worker_is_there(i) && i->busy_id) {
        csn_worker_lost(i, "worker_crashed", "an execute left behind did not end");
        r = CSN_E_LOST;
    }
    return r;
}

int csn_worker_attach(csn_interp *i, uint32_t number, csn_error *err)
{
    int r = csn_engine_is_remote(i->engine)
                ? csn_relay_attach(i->box, i->loop, number, &i->relay, err)
                : csn_process_open(i->box, number, &i->process, err);

    if (r >= 0)
        r = open_streams(i, err);
    if (r >= 0)
        r = await_turn(i, err);
    if (r >= 0)
        r = csn_worker_hello(i, false, err);
    if (r >= 0 && i->busy_id)
        r = end_left_execute(i);
    if (r >= 0 && !csn_worker_is_there(i))
        r = CSN_E_LOST;
    if (r < 0)
        csn_worker_drop(i);
    return r;
}

/* ---- hello ------------------------------------------------------------------------------------------------------ */

static void put_config(csn_interp *i, bool enter, csn_jw *w)
{
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "repo_path", i->workspace);
    csn_jw_kstr(w, "memory_root", CSN_MEMORY_ROOT);
    csn_jw_kbool(w, "has_volume", i->in_place.volume_name != NULL);
    csn_jw_kbool(w, "enter", enter);
    csn_jw_kstr(w, "repo_url", i->in_place.repo_url);
    csn_jw_kstr(w, "repo_ref", i->in_place.repo_ref);
    csn_jw_kint(w, "depth", i->depth);
    csn_jw_kint(w, "submit_limit", i->o.submit_bytes);
    csn_jw_kbool(w, "final_global", i->o.has_final_global);
    if (i->context_json.len) {
        csn_jw_key(w, "context_sources");
        csn_jw_raw(w, i->context_json.data, i->context_json.len);
    }
    csn_jw_key(w, "tools");
    csn_jw_begin_array(w);
    csn_list_foreach (node, &i->tools) {
        const csn_tool *t = csn_list_entry(node, csn_tool, link);

        csn_jw_begin_array(w);
        csn_jw_str(w, t->name);
        csn_jw_str(w, t->signature);
        csn_jw_end_array(w);
    }
    csn_jw_end_array(w);
    csn_jw_end_object(w);
}

/* Python's own last line says it best. */
static int fail_unready(const csn_interp *i, csn_error *err)
{
    csn_str words = csn_str_trim(csn_str_n(i->last_words.data, i->last_words.len));
    const char *start = words.len ? memrchr(words.data, '\n', words.len) : NULL;

    if (start)
        words = csn_str_n(start + 1, words.len - (size_t) (start + 1 - words.data));
    if (!words.len)
        return csn_fail(err, CSN_E_LOST,
                        "the interpreter process ended before it was ready: is python3 there?");
    return csn_fail(err, CSN_E_LOST, "the interpreter process ended before it was ready: %.*s",
                    (int) (words.len < 160 ? words.len : 160), words.data);
}

int csn_worker_hello(csn_interp *i, bool enter, csn_error *err)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&text, false);
    int64_t deadline = csn_deadline_in_ms(i->o.health_timeout_s * 1000);
    int r;

    i->is_ready = false;
    i->epoch = i->next_id++;
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "op", "hello");
    csn_jw_kint(&w, "epoch", i->epoch);
    csn_jw_key(&w, "config");
    put_config(i, enter, &w);
    csn_jw_end_object(&w);
    r = csn_worker_send(i, &text);
    if (r < 0 && r != -EPIPE && r != -ECONNRESET) /* dead already: why is still to be read */
        return csn_fail_sys(err, r, "greet the interpreter");
    while (!i->is_ready && csn_worker_is_there(i) && !csn_deadline_passed(deadline)) {
        r = csn_interp_turn(i, deadline);
        if (r < 0)
            return csn_fail(err, r, "wait for the interpreter");
    }
    if (!csn_worker_is_there(i))
        return fail_unready(i, err);
    if (!i->is_ready)
        return fail_late(i, err);
    i->tools_changed = false;
    return CSN_OK;
}

int csn_interp_probe(csn_interp *i, const char *code, size_t len)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&text, false);
    int64_t deadline = csn_deadline_in_ms(i->o.health_timeout_s * 1000);

    if (csn_session_ensure(i, NULL) < 0)
        return -1;
    i->probed = 2;
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "op", "probe");
    csn_jw_key(&w, "code");
    csn_jw_string(&w, code, len);
    csn_jw_end_object(&w);
    if (csn_worker_send(i, &text) < 0)
        return -1;
    while (i->probed == 2 && csn_worker_is_there(i) && !csn_deadline_passed(deadline))
        if (csn_interp_turn(i, deadline) < 0)
            break;
    return i->probed == 2 ? -1 : i->probed;
}
