/* Theory of operation: the library reads the command's pipes and hands us each piece in arrival order; we write it on
 * and thereby hold the command up when our own reader is slow. A signal to us makes csn_process_wait() return
 * CSN_E_CANCELLED: the first one is passed on to the command's whole tree, which then has GRACE_MS to leave; the second
 * one, or the end of the grace, kills the tree. Whatever happens, we return through the caller's cleanup, which deletes
 * the sandbox. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "out.h"
#include "pty.h"
#include "session.h"
#include "stream.h"

enum { GRACE_MS = 2000 };

#define AT(field) offsetof(cli_command_values, field)

const cli_opt cli_command_options[] = {
    { 'i', "interactive", CLI_FLAG, AT(interactive), NULL,
      "pass standard input on (same as --stdin -)", NULL, NULL },
    { 0, "stdin", CLI_TEXT, AT(stdin_from), "none|-|FILE",
      "what the command reads: nothing (default), our standard input, or a file", "@file", "-" },
    { 't', "tty", CLI_FLAG, AT(tty), NULL, "give it a terminal of its own", NULL, NULL },
    { 'd', "detach", CLI_FLAG, AT(detach), NULL,
      "leave it running in the background; its output goes to 'caisson logs'", NULL, NULL },
    { 0, "merge", CLI_FLAG, AT(merge), NULL, "stderr into stdout, in exact order", NULL, NULL },
    { 0, "json", CLI_FLAG, AT(json), NULL, "one JSON document: output, exit status, receipt", NULL,
      NULL },
    { 0, "raw", CLI_FLAG, AT(raw), NULL, "let control characters through to a terminal", NULL,
      NULL },
    { 0, "receipt", CLI_FLAG, AT(receipt), NULL,
      "print the receipt on stderr (default on a terminal)", NULL, NULL },
    { 'q', "quiet", CLI_FLAG, AT(quiet), NULL, "no receipt and no remarks on stderr", NULL, NULL },
    CLI_END
};

static int open_input(const cli_command *cmd, const char *from, csn_process_options *o)
{
    if (!from || csn_streq(from, "none")) {
        o->stdin_kind = CSN_STDIN_NONE;
        return -1;
    }
    o->stdin_kind = CSN_STDIN_FD;
    o->stdin_fd = STDIN_FILENO;
    if (csn_streq(from, "-"))
        return -1;
    o->stdin_fd = open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY); /* closed when the program ends */
    if (o->stdin_fd < 0)
        return cli_usage(cmd, "--stdin '%s': %s", from, csn_strerror(errno));
    return -1;
}

int cli_command_prepare(const cli_command *cmd, const cli_command_values *v, csn_process_options *o)
{
    const char *from = v->stdin_from ? v->stdin_from : v->interactive ? "-" : NULL;

    o->size = sizeof(*o);
    o->merge_stderr = v->merge;
    if (v->json)
        cli_want_json(true);
    if (v->tty && v->json)
        return cli_usage(cmd, "--tty and --json exclude each other");
    if (v->tty && v->detach)
        return cli_usage(cmd, "--tty and --detach exclude each other");
    if (v->detach && from && !csn_streq(from, "none"))
        return cli_usage(cmd, "--detach and standard input exclude each other");
    if (v->tty) {
        o->is_pty = 1;
        return -1;
    }
    return open_input(cmd, from, o);
}

int cli_start_failed(const csn_error *err)
{
    int status = CLI_ENGINE;

    if (err->code == CSN_E_CANCELLED)
        return cli_cancelled_status();
    if (err->code == CSN_E_NOT_FOUND)
        status = CLI_MISSING;
    else if (err->code == CSN_E_DENIED)
        status = CLI_CANNOT;
    (void) cli_fail(err, NULL);
    return status;
}

void cli_jw_receipt(csn_jw *w, const csn_receipt *receipt)
{
    size_t len = csn_receipt_json(receipt, NULL, 0);
    char *text = malloc(len + 1);

    if (!text)
        cli_out_of_memory();
    (void) csn_receipt_json(receipt, text, len + 1);
    csn_jw_raw(w, text, len);
    free(text);
}

/* "·" takes two bytes, which a terminal without UTF-8 shows as two strange letters. */
static void replace_dots(char *text)
{
    char *to = text;

    for (const char *at = text; *at; at++) {
        bool is_dot = csn_starts_with(at, "·");
        *to++ = is_dot ? '-' : *at;
        at += is_dot;
    }
    *to = '\0';
}

static void say_receipt(const csn_receipt *receipt)
{
    char text[512];

    (void) csn_receipt_text(receipt, text, sizeof(text));
    if (!cli_has_utf8())
        replace_dots(text);
    if (cli_has_color(STDERR_FILENO))
        (void) cli_write(STDERR_FILENO, "\033[2m", 4); /* dim; decoration only */
    cli_note("%s", text);
    if (cli_has_color(STDERR_FILENO))
        (void) cli_write(STDERR_FILENO, "\033[0m", 4);
}

/* What an exit status alone does not say. */
static void say_ending(const csn_receipt *r)
{
    switch (r->ended) {
    case CSN_ENDED_TIMEOUT:
        cli_note("killed: the time limit of %s was reached (--timeout)",
                 cli_duration_ms(r->timeout_ms));
        break;
    case CSN_ENDED_OOM:
        if (r->outer_limit > 0)
            cli_note(
                "killed: the job's limit of %s was reached (of the group that caisson runs in; --memory can't raise it)",
                cli_limit_size(r->outer_limit));
        else
            cli_note("killed: the memory limit of %s was reached (--memory)",
                     cli_limit_size(r->memory_limit_bytes));
        break;
    case CSN_ENDED_PIDS_LIMIT:
        if (r->outer_limit > 0)
            cli_note(
                "killed: the job's limit of %lld processes was reached (of the group that caisson runs in; --pids can't raise it)",
                (long long) r->outer_limit);
        else
            cli_note("killed: the limit of %lld processes was reached (--pids)",
                     (long long) r->pids_limit);
        break;
    case CSN_ENDED_DISK_FULL:
        cli_note("killed: the disk limit of %s was reached (--disk)",
                 cli_limit_size(r->disk_limit_bytes));
        break;
    case CSN_ENDED_OUTPUT_LIMIT:
        cli_note("killed: the output limit of %s was reached (--output-limit)",
                 cli_limit_size(r->output_limit_bytes));
        break;
    case CSN_ENDED_KILLED:
        cli_note("killed");
        break;
    case CSN_ENDED_LOST:
        cli_note("lost: the sandbox went away under the command");
        break;
    case CSN_ENDED_RUNNING:
    case CSN_ENDED_EXIT:
    case CSN_ENDED_SIGNAL:
        break;
    }
}

void cli_report_end(const cli_command_values *v, const csn_receipt *receipt)
{
    if (v->quiet)
        return;
    say_ending(receipt);
    if (receipt->is_output_cut)
        cli_note("output cut: %s were produced, %s of each stream are kept (--output-limit)",
                 cli_size(receipt->stdout_bytes + receipt->stderr_bytes),
                 cli_limit_size(receipt->output_limit_bytes));
    if (v->receipt || (cli_is_terminal(STDERR_FILENO) && !v->json))
        say_receipt(receipt);
}

struct live {
    csn_engine *engine;
    cli_stream out, err;
};

static int on_output(csn_process *process, csn_stream stream, const void *data, size_t len,
                     void *user)
{
    struct live *live = user;
    cli_stream *s = stream == CSN_STDERR ? &live->err : &live->out;

    (void) process;
    cli_stream_put(s, data, len);
    if (s->is_broken)
        csn_engine_interrupt(live->engine);
    return 0;
}

/* A pipe that lost its reader ends the command as it would end any program. */
static int signal_to_pass(const struct live *live)
{
    int number = cli_signal_take();

    if (number)
        return number;
    return live->out.is_broken || live->err.is_broken ? SIGPIPE : 0;
}

static int wait_for_end(csn_process *process, const struct live *live, csn_receipt *receipt,
                        csn_error *err)
{
    unsigned n_signals = 0;
    int64_t deadline_ms = 0;

    for (;;) {
        int r = csn_process_wait(process, deadline_ms, receipt, err);
        int number;

        if (r != CSN_E_CANCELLED && r != CSN_E_TIMEOUT)
            return r;
        number = r == CSN_E_TIMEOUT ? SIGKILL : signal_to_pass(live);
        if (!number)
            continue;
        if (n_signals++ > 0 || number == SIGPIPE)
            number = SIGKILL;
        (void) csn_process_signal(process, number, 1, NULL); /* it may just have ended */
        deadline_ms = GRACE_MS;
    }
}

static int print_document(csn_sandbox *box, csn_process *process, const csn_receipt *receipt)
{
    csn_auto(buf) csn_buf doc = CSN_BUF_INIT_MAX((size_t) 1 << 30);
    csn_jw w = CSN_JW_INIT(&doc, true);
    const char *data = "";
    size_t len = 0;

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "sandbox", csn_sandbox_id(box));
    csn_jw_kint(&w, "status", csn_receipt_status(receipt));
    (void) csn_process_output(process, CSN_STDOUT, &data, &len); /* nothing collected is "" */
    cli_jw_bytes(&w, "stdout", data, len);
    data = "", len = 0;
    (void) csn_process_output(process, CSN_STDERR, &data, &len);
    cli_jw_bytes(&w, "stderr", data, len);
    data = "", len = 0;
    (void) csn_process_output_merged(process, &data, &len);
    cli_jw_bytes(&w, "output", data, len);
    csn_jw_key(&w, "receipt");
    cli_jw_receipt(&w, receipt);
    csn_jw_end_object(&w);
    return cli_print_json(&doc);
}

static void begin_live(struct live *live, csn_engine *engine, const cli_command_values *v,
                       csn_process_options *o)
{
    *live = (struct live){ .engine = engine };
    cli_stream_init(&live->out, STDOUT_FILENO, v->raw);
    cli_stream_init(&live->err, STDERR_FILENO, v->raw);
    o->on_output = v->json ? NULL : on_output;
    o->user_data = live;
    cli_hold_signals(
        true); /* its first output may come before its start is told: then it is to be told */
}

/* is_its_own: the sandbox was there. */
static int start_ended(const struct live *live, bool is_its_own, const csn_error *err)
{
    if (err->code == CSN_E_CANCELLED && (live->out.is_broken || live->err.is_broken))
        return 128 + SIGPIPE; /* its first words found no reader */
    return is_its_own || err->code == CSN_E_CANCELLED ? cli_start_failed(err) : cli_fail(err, NULL);
}

static int stay(struct live *live, csn_process *process, const cli_command_values *v)
{
    csn_receipt receipt;
    csn_error err = { 0 };
    int status;

    if (wait_for_end(process, live, &receipt, &err) < 0)
        return cli_fail(&err, NULL);
    cli_stream_finish(&live->out);
    cli_stream_finish(&live->err);
    status = csn_receipt_status(&receipt);
    if (v->json && print_document(csn_process_sandbox(process), process, &receipt) != 0)
        status = CLI_ENGINE;
    cli_report_end(v, &receipt);
    return live->out.is_broken || live->err.is_broken ? 128 + SIGPIPE : status;
}

static int run_attached(csn_engine *engine, csn_sandbox *box, const cli_command_values *v,
                        csn_process_options *o)
{
    struct live live;
    csn_process *process = NULL;
    csn_error err = { 0 };
    int status, r;

    begin_live(&live, engine, v, o);
    r = csn_process_start(box, o, &process, &err);
    cli_hold_signals(false);
    if (r < 0)
        return start_ended(&live, true, &err);
    status = stay(&live, process, v);
    csn_process_free(process);
    return status;
}

int cli_command_run_once(csn_engine *engine, const csn_sandbox_options *box,
                         const csn_once_file *file, const cli_command_values *v,
                         csn_process_options *o)
{
    struct live live;
    csn_process *process = NULL;
    csn_error err = { 0 };
    int status, is_made, r;

    begin_live(&live, engine, v, o);
    r = csn_run_once(engine, box, o, file, &process, &is_made, &err);
    cli_hold_signals(false);
    if (r < 0)
        return start_ended(&live, is_made, &err);
    status = stay(&live, process, v);
    if (cli_delete(csn_process_sandbox(process), &err) < 0)
        status = cli_fail(&err, NULL);
    csn_process_free(process);
    return status;
}

static int run_detached(csn_sandbox *box, const cli_command_values *v, csn_process_options *o)
{
    csn_auto(buf) csn_buf doc = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&doc, true);
    csn_process *process = NULL;
    csn_error err = { 0 };
    int status;

    o->is_background = 1;
    if (csn_process_start(box, o, &process, &err) < 0)
        return cli_start_failed(&err);
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "sandbox", csn_sandbox_id(box));
    csn_jw_kint(&w, "command", csn_process_id(process));
    csn_jw_end_object(&w);
    if (v->json) {
        status = cli_print_json(&doc);
    } else {
        csn_buf_clear(&doc);
        if (v->is_new_box)
            csn_buf_printf(&doc, "%s\n", csn_sandbox_id(box));
        else
            csn_buf_printf(&doc, "%u\n", (unsigned) csn_process_id(process));
        status = cli_print(&doc) < 0 ? CLI_ENGINE : 0;
    }
    csn_process_free(process);
    return status;
}

int cli_command_run(csn_engine *engine, csn_sandbox *box, const cli_command_values *v,
                    csn_process_options *o)
{
    if (v->tty)
        return cli_pty_run(engine, box, v, o);
    if (v->detach)
        return run_detached(box, v, o);
    return run_attached(engine, box, v, o);
}
