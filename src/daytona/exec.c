/* SPDX-License-Identifier: Apache-2.0 */
/* Commands by process/execute: one request, answered when the command has ended, both streams in one text. So a command counts
 * as started when it has ended: its output, its end and the word that it ran come in a row. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "answer.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/time.h"
#include "base/utf8.h"
#include "call.h"
#include "command.h"
#include "script.h"

typedef struct daytona_exec {
    csn_daytona_command head;
    csn_api_call *call; /* NULL: answered */
    int sink;
    int64_t began_ns, timeout_ms;
    bool is_busy, is_dropped; /* dropped from inside a callback */
} daytona_exec;

static void free_exec(daytona_exec *e)
{
    csn_close(&e->sink);
    csn_box_unref(e->head.base.box);
    free(e);
}

static csn_exec *drop(csn_exec *exec)
{
    daytona_exec *e = csn_container_of(exec, daytona_exec, head.base);

    csn_api_call_cancel(e->call); /* the service ends a command whose asker has gone */
    e->call = NULL;
    e->is_dropped = true;
    if (!e->is_busy)
        free_exec(e);
    return NULL;
}

/* ---- the command line ---- */

static int put_env(csn_jw *w, char *const *env, csn_error *err)
{
    csn_jw_key(w, "envs");
    csn_jw_begin_object(w);
    for (; env && *env; env++) {
        const char *eq = strchr(*env, '=');
        csn_auto(mem) char *key = eq ? csn_strndup(*env, (size_t) (eq - *env)) : NULL;

        if (!key)
            return csn_fail(err, CSN_E_NO_MEMORY, "run a command");
        if (!csn_utf8_valid(*env, strlen(*env)))
            return csn_fail(err, CSN_E_UNSUPPORTED,
                            "the remote backend can't pass on '%.64s': its value is no UTF-8", key);
        csn_jw_kstr(w, key, eq + 1);
    }
    csn_jw_end_object(w);
    return CSN_OK;
}

static int write_command(csn_buf *out, const csn_exec_spec *spec, csn_error *err)
{
    const char *shell[] = { "/bin/sh", "-c", spec->argv[0], NULL };
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(out, false);
    int r;

    if (csn_shell_command(&line, spec->is_shell ? shell : spec->argv) < 0)
        return csn_fail_sys(err, line.error, "run a command");
    csn_jw_begin_object(&w);
    csn_jw_key(&w, "command");
    csn_jw_string(&w, line.data, line.len);
    csn_jw_kstr(&w, "cwd", spec->cwd);
    r = put_env(&w, spec->env, err);
    if (r < 0)
        return r;
    if (spec->timeout_ms > 0)
        csn_jw_kint(&w, "timeout", (spec->timeout_ms + 999) / 1000);
    csn_jw_end_object(&w);
    return out->error < 0 ? csn_fail_sys(err, out->error, "run a command") : CSN_OK;
}

/* ---- the answer ---- */

/* started, output, ended: any of them may drop the command. */
static void tell(daytona_exec *e, const char *output, size_t len)
{
    e->head.base.is_started = true;
    e->head.base.id = ++csn_daytona_box_of(e->head.base.box)->n_execs;
    e->is_busy = true;
    e->head.base.events->started(&e->head.base, CSN_OK, NULL);
    if (!e->is_dropped && len > 0)
        (void) e->head.base.events->output(&e->head.base, CSN_STDOUT, output, len);
    if (!e->is_dropped) {
        e->head.base.is_ended = true;
        e->head.base.events->ended(&e->head.base);
    }
    e->is_busy = false;
    if (e->is_dropped)
        free_exec(e);
}

static void tell_failure(daytona_exec *e, int result, const csn_error *err)
{
    e->is_busy = true;
    e->head.base.events->started(&e->head.base, result, err); /* drops it */
    e->is_busy = false;
    if (e->is_dropped)
        free_exec(e);
}

static int fail_start(const csn_exec_answer *answer, const char *secret, csn_error *err)
{
    char words[CSN_WORDS_SIZE];

    csn_words_of(answer->output, answer->output_len, secret, words);
    return csn_fail(err, CSN_E_SYSTEM, "the service could not run the command%s%s",
                    words[0] ? ": " : "", words);
}

static void on_executed(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    daytona_exec *e = user;
    csn_auto(buf) csn_buf text = CSN_BUF_INIT_MAX(CSN_API_LARGE_MAX);
    csn_auto(json) csn_json *doc = NULL;
    csn_receipt *receipt = &e->head.base.receipt;
    csn_exec_answer answer = { 0 };
    csn_error own = { 0 };

    e->call = NULL;
    csn_daytona_facts(receipt);
    receipt->wall_us = (csn_now_ns() - e->began_ns) / 1000;
    receipt->timeout_ms = e->timeout_ms;
    if (result < 0 && a && a->end.failure == CSN_WEB_OK && a->end.status == 408) {
        receipt->ended = CSN_ENDED_TIMEOUT;
        tell(e, "", 0);
        return;
    }
    if (result < 0) {
        tell_failure(e, result, err);
        return;
    }
    result = csn_api_read_sink(e->sink, a->end.n_bytes, "read a command's output", &text, &own);
    if (result >= 0)
        result = csn_exec_answer_parse(text.data, text.len, &doc, &answer, &own);
    csn_buf_free(&text);
    if (result >= 0 && answer.exit_code < 0)
        result = fail_start(&answer, csn_daytona_of(e->head.base.box->backend)->secret, &own);
    if (result < 0) {
        tell_failure(e, result, &own);
        return;
    }
    receipt->ended = CSN_ENDED_EXIT;
    receipt->exit_code = answer.exit_code;
    receipt->stdout_bytes = (int64_t) answer.output_len;
    tell(e, answer.output, answer.output_len);
}

/* ---- starting ---- */

static int send_command(daytona_exec *e, const csn_exec_spec *spec, csn_error *err)
{
    csn_daytona_box *box = csn_daytona_box_of(e->head.base.box);
    csn_auto(buf) csn_buf body = CSN_BUF_INIT;
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    int64_t limit_ms = spec->timeout_ms > 0 && spec->timeout_ms < CSN_DAYTONA_EXEC_MS
                           ? spec->timeout_ms + CSN_DAYTONA_EXEC_GRACE_MS
                           : CSN_DAYTONA_EXEC_MS;
    csn_api_call_spec call =
        CSN_API_CALL_SPEC(.what = "run a command", .method = "POST",
                          .content_type = "application/json", .max_bytes = CSN_API_LARGE_MAX,
                          .deadline_ns = csn_deadline_in_ms(limit_ms));
    int r = write_command(&body, spec, err);

    if (r < 0)
        return r;
    e->sink = memfd_create("csn-answer", MFD_CLOEXEC);
    if (e->sink < 0)
        return csn_fail_sys(err, -errno, "run a command");
    if (csn_buf_printf(&url, "%s/process/execute", box->toolbox) < 0)
        return csn_fail_sys(err, url.error, "run a command");
    call.url = url.data;
    call.body = body.data;
    call.body_len = body.len;
    call.sink_fd = e->sink;
    e->call = csn_api_call_start(csn_daytona_of(box->base.backend), &call, on_executed, e, err);
    return e->call ? CSN_OK : err->code;
}

static const csn_command_kind kind = { .free = drop };

int csn_execute_start(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events,
                      void *user, csn_exec **ret_exec, csn_error *err)
{
    csn_error own = { 0 };
    daytona_exec *e = csn_calloc(1, sizeof(*e));
    int r;

    if (!e)
        return csn_fail(err, CSN_E_NO_MEMORY, "run a command");
    e->head.base = (csn_exec){ .box = csn_box_ref(box), .events = events, .user = user };
    e->head.kind = &kind;
    e->sink = -1;
    e->began_ns = csn_now_ns();
    e->timeout_ms = spec->timeout_ms;
    r = send_command(e, spec, &own);
    if (r < 0) {
        if (err)
            *err = own;
        free_exec(e);
        return r;
    }
    *ret_exec = &e->head.base;
    return CSN_OK;
}
