/* Commands with sessions of their own, in a sandbox of the server that DAYTONA_API_URL names: they behave as here. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "story/story.h"

typedef struct world {
    csn_engine *engine;
    csn_sandbox *box;
} world;

static world w;

static void free_world(void *unused)
{
    (void) unused;
    csn_sandbox_free(w.box);
    csn_engine_free(w.engine);
}

static csn_sandbox *a_box(void)
{
    csn_engine_options o = { .size = sizeof(o),
                             .remote_url = getenv("DAYTONA_API_URL"),
                             .remote_key = getenv("DAYTONA_API_KEY") };

    OK(csn_engine_open(&o, &w.engine, err));
    OK(csn_sandbox_create(w.engine, NULL, &w.box, err));
    csn_test_defer(free_world, NULL);
    return w.box;
}

static csn_run_result run_there(csn_sandbox *box, csn_process_options o)
{
    csn_run_result result;

    o.size = sizeof(o);
    OK(csn_run(box, &o, &result, err));
    return result;
}
#define RUN(box, ...) run_there(box, (csn_process_options){ __VA_ARGS__ })

/* How many processes of the sandbox have `text` in their command line. */
static int count_of(csn_sandbox *box, const char *text)
{
    csn_auto(buf) csn_buf shell = CSN_BUF_INIT;
    csn_run_result r;
    int n;

    csn_buf_printf(&shell, /* the brackets: not grep itself */
                   "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx '[%c]%s'",
                   text[0], text + 1);
    r = RUN(box, .shell = shell.data, .merge_stderr = 1);
    n = (int) strtol(r.out, NULL, 10);
    csn_run_result_done(&r);
    return n;
}

TEST(streams_are_told_apart_and_the_exit_code_comes)
{
    csn_run_result r = RUN(a_box(), .shell = "printf out; printf err >&2; pwd; exit 4");

    CHECK_MEM(r.out, r.out_len, "out/home/daytona\n", 17);
    CHECK_MEM(r.err, r.err_len, "err", 3);
    CHECK(r.receipt.ended == CSN_ENDED_EXIT && r.receipt.exit_code == 4);
    CHECK(r.receipt.rung == CSN_RUNG_REMOTE && r.receipt.peak_memory_bytes == -1);
    CHECK(r.receipt.stdout_bytes == 17 && r.receipt.stderr_bytes == 3);
    csn_run_result_done(&r);
}

TEST(arguments_environment_and_directory_arrive_as_they_are)
{
    static const char *const argv[] = { "printf", "%s|",      "a b",       "it's", "$HOME `x` \\",
                                        "",       "\xff\xfe", "new\nline", NULL };
    static const char *const env[] = { "WORD=two words 'and' \"quotes\"", NULL };
    csn_run_result r = RUN(a_box(), .argv = argv);

    CHECK_STR(r.out, "a b|it's|$HOME `x` \\||\xff\xfe|new\nline|");
    csn_run_result_done(&r);
    r = RUN(w.box, .shell = "echo \"$WORD\"; pwd; cat; exit 0", .env = env, .cwd = "/tmp");
    CHECK_STR(r.out, "two words 'and' \"quotes\"\n/tmp\n"); /* stdin is at its end */
    csn_run_result_done(&r);
}

TEST(bytes_that_are_no_text_come_through)
{
    csn_run_result r =
        RUN(a_box(), .shell = "head -c 300000 /dev/zero; printf '\\001\\002\\377\\001\\001x' >&2");

    CHECK_INT(r.out_len, 300000);
    CHECK_MEM(r.err, r.err_len, "\001\002\377\001\001x", 6);
    csn_run_result_done(&r);
}

TEST(what_can_not_be_started_is_an_error_of_the_start)
{
    csn_sandbox *box = a_box();
    static const char *const absent[] = { "no-such-program", NULL };
    static const char *const passwd[] = { "/etc/passwd", NULL };
    csn_process_options o = { .size = sizeof(o), .argv = absent };
    csn_process *p;

    FAILS(csn_process_start(box, &o, &p, err), CSN_E_NOT_FOUND);
    o.argv = passwd;
    FAILS(csn_process_start(box, &o, &p, err), CSN_E_DENIED);
    o = (csn_process_options){ .size = sizeof(o), .shell = "true", .cwd = "/nowhere" };
    FAILS(csn_process_start(box, &o, &p, err), CSN_E_NOT_FOUND);
}

typedef struct seen {
    csn_buf text;
    int n_pieces, n_left; /* until a pause; < 0: never */
} seen;

static int note_output(csn_process *p, csn_stream stream, const void *data, size_t len, void *user)
{
    seen *s = user;

    (void) p;
    (void) stream;
    csn_buf_append(&s->text, data, len);
    s->n_pieces++;
    return s->n_left > 0 && --s->n_left == 0;
}

static bool has_text(csn_engine *engine, const seen *s, const char *text)
{
    for (int i = 0; i < 200 && !strstr(s->text.data, text); i++)
        OK(csn_engine_dispatch(engine, 100, err));
    return strstr(s->text.data, text) != NULL;
}

static bool are_two(void *unused)
{
    (void) unused;
    return count_of(w.box, "4711") == 2;
}

TEST(output_comes_while_the_command_runs_and_a_kill_takes_the_whole_tree)
{
    csn_sandbox *box = a_box();
    seen s = { .text = CSN_BUF_INIT, .n_left = -1 };
    csn_process_options o = { .size = sizeof(o),
                              .shell =
                                  "echo first; sleep 4711 & trap '' TERM; sleep 4711; echo never",
                              .on_output = note_output,
                              .user_data = &s };
    csn_process *p;
    csn_receipt receipt;

    OK(csn_process_start(box, &o, &p, err));
    CHECK(csn_process_id(p) > 0 && has_text(w.engine, &s, "first\n"));
    CHECK(until(are_two, NULL));
    OK(csn_process_signal(p, SIGKILL, 1, err));
    OK(csn_process_wait(p, 20000, &receipt, err));
    CHECK(receipt.ended == CSN_ENDED_SIGNAL && receipt.signal == SIGKILL);
    CHECK_INT(count_of(box, "4711"), 0);
    CHECK_STR(s.text.data, "first\n");
    csn_process_free(p);
    csn_buf_free(&s.text);
}

TEST(a_signal_goes_to_the_command)
{
    csn_sandbox *box = a_box();
    seen s = { .text = CSN_BUF_INIT, .n_left = -1 };
    csn_process_options o = { .size = sizeof(o),
                              .shell = "trap 'echo caught; exit 7' USR1; echo ready; "
                                       "while :; do sleep 0.05; done",
                              .on_output = note_output,
                              .user_data = &s };
    csn_process *p;
    csn_receipt receipt;

    OK(csn_process_start(box, &o, &p, err));
    CHECK(has_text(w.engine, &s, "ready\n"));
    OK(csn_process_signal(p, SIGUSR1, 0, err));
    OK(csn_process_wait(p, 20000, &receipt, err));
    CHECK(receipt.ended == CSN_ENDED_EXIT && receipt.exit_code == 7);
    CHECK_STR(s.text.data, "ready\ncaught\n");
    FAILS(csn_process_signal(p, SIGTERM, 1, err), CSN_E_STATE);
    csn_process_free(p);
    o.shell = "echo ready; sleep 4712";
    csn_buf_clear(&s.text);
    OK(csn_process_start(box, &o, &p, err));
    CHECK(has_text(w.engine, &s, "ready\n"));
    OK(csn_process_signal(p, SIGTERM, 1, err));
    OK(csn_process_wait(p, 20000, &receipt, err));
    CHECK(receipt.ended == CSN_ENDED_SIGNAL && receipt.signal == SIGTERM);
    csn_process_free(p);
    csn_buf_free(&s.text);
}

TEST(after_a_time_limit_there_is_what_was_printed)
{
    csn_run_result r =
        RUN(a_box(), .shell = "echo before; echo trouble >&2; sleep 4713", .timeout_ms = 700);

    CHECK_INT(r.receipt.ended, CSN_ENDED_TIMEOUT);
    CHECK_STR(r.out, "before\n");
    CHECK_STR(r.err, "trouble\n");
    CHECK(r.receipt.wall_us >= 700000);
    csn_run_result_done(&r);
    CHECK_INT(count_of(w.box, "4713"), 0);
}

TEST(too_much_output_is_cut_or_ends_the_command)
{
    csn_run_result r = RUN(a_box(), .shell = "head -c 100000 /dev/zero", .output_bytes = 1000);

    CHECK(r.out_len == 1000 && r.receipt.is_output_cut && r.receipt.stdout_bytes == 100000);
    CHECK_INT(r.receipt.ended, CSN_ENDED_EXIT);
    csn_run_result_done(&r);
    r = RUN(w.box, .shell = "echo begin; yes", .output_bytes = 1000,
            .output_policy = CSN_OUTPUT_KILL);
    CHECK_INT(r.receipt.ended, CSN_ENDED_OUTPUT_LIMIT);
    CHECK_INT(r.out_len, 1000);
    csn_run_result_done(&r);
    CHECK_INT(count_of(w.box, "yes"), 0);
}

TEST(a_slow_reader_pauses_the_stream_and_loses_nothing)
{
    csn_sandbox *box = a_box();
    seen s = { .text = CSN_BUF_INIT_MAX(8 << 20), .n_left = 1 };
    csn_process_options o = { .size = sizeof(o),
                              .shell = "seq 1 200000; echo end",
                              .on_output = note_output,
                              .user_data = &s };
    csn_auto(buf) csn_buf wanted = CSN_BUF_INIT_MAX(8 << 20);
    csn_process *p;
    csn_receipt receipt;

    OK(csn_process_start(box, &o, &p, err));
    for (int i = 0; i < 200 && s.n_pieces == 0; i++)
        OK(csn_engine_dispatch(w.engine, 100, err));
    while (csn_engine_dispatch(w.engine, 300, NULL) > 0)
        ;
    CHECK_INT(s.n_pieces, 1);
    s.n_left = -1;
    CHECK_INT(csn_process_resume(p), CSN_OK);
    OK(csn_process_wait(p, 30000, &receipt, err));
    for (int i = 1; i <= 200000; i++)
        csn_buf_printf(&wanted, "%d\n", i);
    csn_buf_puts(&wanted, "end\n");
    CHECK_MEM(s.text.data, s.text.len, wanted.data, wanted.len);
    csn_process_free(p);
    csn_buf_free(&s.text);
}

static bool is_gone(void *text)
{
    return count_of(w.box, text) == 0;
}

TEST(a_command_that_nobody_holds_is_ended)
{
    csn_sandbox *box = a_box();
    csn_process_options o = { .size = sizeof(o), .shell = "trap '' TERM; sleep 4714; :" };
    char sleeps[] = "4714";
    csn_process *p;

    OK(csn_process_start(box, &o, &p, err));
    CHECK(!is_gone(sleeps));
    csn_process_free(p);
    CHECK(until(is_gone, sleeps));
}

TEST(many_at_once)
{
    csn_sandbox *box = a_box();
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 0.2; echo $((6 * 7))" };
    csn_process *p[20];
    csn_receipt receipt;
    const char *text;
    size_t len;

    for (int i = 0; i < 20; i++)
        OK(csn_process_start(box, &o, &p[i], err));
    for (int i = 0; i < 20; i++) {
        OK(csn_process_wait(p[i], 30000, &receipt, err));
        CHECK_INT(csn_process_output(p[i], CSN_STDOUT, &text, &len), CSN_OK);
        CHECK_MEM(text, len, "42\n", 3);
        csn_process_free(p[i]);
    }
}

TEST(an_engine_that_closes_tells_who_waits)
{
    csn_sandbox *box = a_box();
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 4715" };
    csn_process *p;

    OK(csn_process_start(box, &o, &p, err));
    csn_sandbox_free(box);
    csn_engine_free(w.engine);
    w = (world){ 0 };
    csn_process_free(p);
}

TEST(bytes_go_to_stdin_and_end)
{
    csn_sandbox *box = a_box();
    csn_auto(buf) csn_buf data = CSN_BUF_INIT;
    csn_run_result r;

    for (int i = 0; i < 100000; i++)
        csn_buf_putc(&data, (char) (i * 7 + i / 256));
    r = RUN(box, .shell = "cat", .stdin_kind = CSN_STDIN_BYTES, .stdin_data = data.data,
            .stdin_len = data.len);
    CHECK_INT(r.out_len, (int64_t) data.len);
    csn_run_result_done(&r);
    r = RUN(box, .shell = "sha256sum | cut -c1-8; cat >&2", .stdin_kind = CSN_STDIN_BYTES,
            .stdin_data = "a\0b", .stdin_len = 3);
    CHECK_STR(r.out, "59b271ae\n");
    csn_run_result_done(&r);
    r = RUN(box, .shell = "cat; echo end", .stdin_kind = CSN_STDIN_BYTES, .stdin_data = "",
            .stdin_len = 0);
    CHECK_STR(r.out, "end\n");
    csn_run_result_done(&r);
    r = RUN(box, .shell = "head -c 5", .stdin_kind = CSN_STDIN_BYTES, .stdin_data = data.data,
            .stdin_len = data.len);
    CHECK_INT(r.out_len, 5); /* who does not read on is not waited for */
    csn_run_result_done(&r);
}

TEST(a_command_that_reads_late_gets_everything)
{
    csn_sandbox *box = a_box();
    const size_t size = 2 << 20; /* more than the service holds for it */
    char *data = calloc(1, size);
    csn_run_result r;

    CHECK(data != NULL);
    r = RUN(box, .shell = "sleep 1; wc -c", .stdin_kind = CSN_STDIN_BYTES, .stdin_data = data,
            .stdin_len = size);
    CHECK_INT(strtol(r.out, NULL, 10), (int64_t) size);
    csn_run_result_done(&r);
    free(data);
}

/* Another program's command in a sandbox that stays: the helper ends it. */
TEST(a_killed_program_takes_its_command_along)
{
    csn_sandbox_options kept = { .size = sizeof(kept), .is_detached = 1, .name = "kept-commands" };
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 4716" };
    csn_sandbox *box;
    char sleeps[] = "4716", word;
    int ends[2];
    pid_t pid;

    csn_sandbox_free(a_box());
    OK(csn_sandbox_create(w.engine, &kept, &box, err));
    w.box = box;
    CHECK(pipe(ends) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        csn_engine_options eo = { .size = sizeof(eo),
                                  .remote_url = getenv("DAYTONA_API_URL"),
                                  .remote_key = getenv("DAYTONA_API_KEY") };
        csn_engine *engine = NULL;
        csn_process *p;

        OK(csn_engine_open(&eo, &engine, err));
        OK(csn_sandbox_open(engine, "kept-commands", &box, err));
        OK(csn_process_start(box, &o, &p, err));
        CHECK(write(ends[1], "x", 1) == 1);
        for (;;)
            (void) pause();
    }
    CHECK(read(ends[0], &word, 1) == 1);
    CHECK(!is_gone(sleeps));
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    CHECK(until(is_gone, sleeps));
    OK(csn_sandbox_delete(box, err));
    close(ends[0]);
    close(ends[1]);
}

TEST(a_descriptor_is_read_to_its_end)
{
    csn_sandbox *box = a_box();
    csn_run_result r;
    int ends[2];

    CHECK(pipe(ends) == 0 && write(ends[1], "through a pipe", 14) == 14);
    close(ends[1]);
    r = RUN(box, .shell = "cat", .stdin_kind = CSN_STDIN_FD, .stdin_fd = ends[0]);
    CHECK_STR(r.out, "through a pipe");
    csn_run_result_done(&r);
    close(ends[0]);
}

TEST(a_conversation)
{
    csn_sandbox *box = a_box();
    seen s = { .text = CSN_BUF_INIT, .n_left = -1 };
    csn_process_options o = { .size = sizeof(o),
                              .shell = "while read -r l; do echo \"you said $l\"; done; echo bye",
                              .stdin_kind = CSN_STDIN_PIPE,
                              .on_output = note_output,
                              .user_data = &s };
    csn_process *p;
    csn_receipt receipt;
    size_t n;

    OK(csn_process_start(box, &o, &p, err));
    OK(csn_process_write(p, "one\n", 4, &n, err));
    CHECK(n == 4 && has_text(w.engine, &s, "you said one\n"));
    OK(csn_process_write(p, "two\n", 4, &n, err));
    CHECK(n == 4 && has_text(w.engine, &s, "you said two\n"));
    OK(csn_process_close_stdin(p, err));
    OK(csn_process_wait(p, 20000, &receipt, err));
    CHECK_STR(s.text.data, "you said one\nyou said two\nbye\n");
    csn_process_free(p);
    csn_buf_free(&s.text);
}
