/* Sessions against real sandboxes: state from command to command, streams apart, ends told truly, and shells that are
 * used against us. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/time.h"
#include "server/session.h"
#include "story/story.h"

static csn_loop *loop;
static csn_session *session;
static int log_dir = -1;

static void on_engine(csn_source *src, uint32_t events, void *user)
{
    (void) src;
    (void) events;
    (void) user;
    csn_engine_dispatch(the_engine(), 0, NULL);
}

/* What was read of logs, until the test ends. */
static csn_buf texts[256];
static size_t n_texts;

static void free_all(void *user)
{
    (void) user;
    for (size_t i = 0; i < CSN_COUNT(texts); i++)
        csn_buf_free(&texts[i]);
    session = csn_session_free(session);
    loop = csn_loop_free(loop);
}

typedef struct outcome {
    bool is_done;
    int result;
    char message[248];
} outcome;

static void note(csn_session *s, int result, const csn_error *err, void *user)
{
    outcome *o = user;

    (void) s;
    o->is_done = true;
    o->result = result;
    (void) snprintf(o->message, sizeof(o->message), "%s", err ? err->message : "");
}

static void until_true(const bool *flag)
{
    int64_t deadline = csn_deadline_in_ms(50000);

    while (!*flag && !csn_deadline_passed(deadline))
        CHECK(csn_loop_run_once(loop, deadline) >= 0);
    CHECK(*flag);
}

static csn_session *a_session_in(csn_sandbox *box)
{
    static const char *const env[] = { "COLOUR=red", NULL };
    outcome o = { 0 };
    csn_error err = { 0 };

    signal(SIGPIPE, SIG_IGN);
    CHECK(csn_loop_new(&loop) == 0);
    csn_test_defer(free_all, NULL);
    CHECK(csn_loop_add(loop, csn_engine_fd(the_engine()), EPOLLIN, on_engine, NULL, NULL) == 0);
    log_dir = open(the_state(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    session = csn_session_new(loop, box, "s", env, "/home/daytona", log_dir, note, &o, &err);
    if (!session)
        FAIL("%s", err.message);
    until_true(&o.is_done);
    if (o.result < 0)
        FAIL("%s", o.message);
    return session;
}

static csn_session *a_session(void)
{
    return a_session_in(an_ephemeral());
}

static csn_session_command *begin(const char *text, bool is_async)
{
    csn_session_command *c = NULL;

    OK(csn_session_exec(session, text, is_async, false, &c, err));
    return c;
}

static csn_session_command *ran(const char *text)
{
    csn_session_command *c = begin(text, false);

    until_true(&c->is_ended);
    return c;
}

static const char *text_of(csn_session_command *c, int which, bool is_marked)
{
    csn_buf *out = &texts[n_texts++ % CSN_COUNT(texts)];
    csn_cmdlog_cursor cursor = { 0 };

    if (out->cap > 0)
        csn_buf_free(out);
    *out = (csn_buf) CSN_BUF_INIT;
    while (csn_cmdlog_read(&c->log, &cursor, which, is_marked, out))
        ;
    CHECK_INT(out->error, 0);
    csn_cmdlog_cursor_done(&cursor);
    return out->data;
}
#define stdout_of(c) text_of(c, CSN_STDOUT, false)
#define stderr_of(c) text_of(c, CSN_STDERR, false)

/* Turns the loop until the log says it. */
static void until_says(csn_session_command *c, const char *what)
{
    int64_t deadline = csn_deadline_in_ms(50000);

    while (!strstr(text_of(c, 0, false), what)) {
        CHECK(!csn_deadline_passed(deadline));
        CHECK(csn_loop_run_once(loop, deadline) >= 0);
    }
}

TEST(a_session_keeps_directory_variables_and_functions)
{
    a_session();
    CHECK_STR(stdout_of(ran("pwd; echo $COLOUR")), "/home/daytona\nred\n");
    ran("cd /tmp; export A='it'\\''s'; f() { echo \"f $1\"; }; B=2");
    CHECK_STR(stdout_of(ran("pwd; echo \"$A $B\"; f x; sh -c 'echo $A'")),
              "/tmp\nit's 2\nf x\nit's\n");
}

TEST(streams_and_status_belong_to_their_command)
{
    a_session();
    csn_session_command *c = ran("echo out; echo err >&2; (exit 7)");
    CHECK_INT(c->exit_code, 7);
    CHECK_STR(stdout_of(c), "out\n");
    CHECK_STR(stderr_of(c), "err\n");
    c = ran("printf half");
    CHECK_INT(c->exit_code, 0);
    CHECK_STR(text_of(c, 0, true), "\1\1\1half");
    CHECK_INT(ran("kill -9 $BASHPID")->exit_code, 137);
}

TEST(a_syntax_error_fails_its_command_alone)
{
    a_session();
    csn_session_command *c = ran("if then 'x");
    CHECK(c->exit_code != 0);
    CHECK(strstr(stderr_of(c), "syntax") || strstr(stderr_of(c), "unexpected"));
    c = ran("cat <<X\nhere $((1+1))\nX");
    CHECK_STR(stdout_of(c), "here 2\n");
    CHECK_INT(ran("# only a comment")->exit_code, 0);
}

TEST(commands_run_one_after_another_and_read_their_input)
{
    a_session();
    csn_session_command *a = begin("read x; echo got $x; read y; echo and $y", true);
    csn_session_command *b = begin("echo second", true);
    OK(csn_session_input(a, "one", 3, err));
    until_says(a, "got one");
    CHECK(!b->is_started);
    OK(csn_session_input(a, "two\n", 4, err));
    until_true(&b->is_ended);
    CHECK_STR(stdout_of(a), "one\ngot one\ntwo\nand two\n");
    CHECK_STR(stdout_of(b), "second\n");
    FAILS(csn_session_input(a, "x", 1, err), CSN_E_STATE);
    CHECK_STR(stdout_of(ran("cat; echo end")), "end\n"); /* sync ones read nothing */
}

TEST(output_of_a_child_left_behind_stays_with_its_command)
{
    a_session();
    csn_session_command *a =
        ran("mkfifo f g; (read x <f; echo late; read x <g; echo later >&2) & echo early");
    CHECK_STR(stdout_of(a), "early\n");
    csn_session_command *b = ran("echo go >f; echo mine");
    CHECK_STR(stdout_of(b), "mine\n");
    until_says(a, "late\n");
    ran("echo go >g"); /* not f: who opens that again before its writer has closed it reads an end */
    until_says(a, "later\n");
    CHECK_STR(stderr_of(a), "later\n");
}

TEST(a_shell_that_exits_gives_its_status_and_ends_the_session)
{
    csn_session_command *c, *waiting = NULL;
    csn_error err;

    a_session();
    c = begin("echo bye; exit 3", false);
    waiting = begin("echo never", true);
    until_true(&waiting->is_ended);
    CHECK(c->is_ended); /* they end in their order */
    CHECK_INT(c->exit_code, 3);
    CHECK_STR(stdout_of(c), "bye\n");
    CHECK_INT(waiting->exit_code, -1);
    CHECK(session->is_ended);
    CHECK_INT(csn_session_exec(session, "true", false, false, &c, &err), CSN_E_STATE);
}

TEST(what_a_program_prints_is_never_a_report)
{
    a_session();
    csn_session_command *c = ran(
        "for f in /proc/$$/fd/*; do n=${f##*/}; [ $n -gt 9 ] && "
        "{ printf '%032d 0\\n' 0; head -c 200 /dev/zero; printf '\\n\\n \\n'; } 2>&1 >&$n; done 2>&-; exit_code() { return 5; }; exit_code");
    CHECK_INT(c->exit_code, 5);
    CHECK_INT(ran("(exit 6)")->exit_code, 6);
}

TEST(a_large_command_and_a_flood_pass)
{
    a_session();
    size_t size = 600000;
    char *text = malloc(size + 64);
    (void) snprintf(text, 4, "x='");
    memset(text + 3, 'a', size);
    (void) snprintf(text + 3 + size, 32, "'; echo ${#x}");
    CHECK_STR(stdout_of(ran(text)), "600000\n");
    free(text);
    csn_session_command *c = ran("head -c 3000000 /dev/zero | tr '\\0' x; echo >&2 done");
    CHECK_INT(strlen(stdout_of(c)), 3000000);
    CHECK_STR(stderr_of(c), "done\n");
    CHECK(c->log.head.len <= CSN_CMDLOG_MEMORY);
    while (c->log.fd >= 0) /* until the courier is gone */
        CHECK(csn_loop_run_once(loop, csn_deadline_in_ms(50000)) > 0);
    c = ran("head -c 80000000 /dev/zero");
    CHECK(c->log.size <= CSN_CMDLOG_MAX && c->log.n_dropped > 0);
    CHECK_INT(ran("(exit 4)")->exit_code, 4);
}

TEST(deleting_asks_first_and_then_kills_everyone)
{
    outcome o = { 0 };
    csn_sandbox *box = an_ephemeral();

    a_session_in(box);
    ran("(trap 'echo asked >~/asked; exit' TERM; echo up >~/up; while :; do sleep 0.05; done) & "
        "setsid sh -c 'trap \"\" TERM; sleep 1000' & while ! [ -e ~/up ]; do sleep 0.01; done");
    csn_session_command *c = begin("sleep 1000", true);
    while (!c->has_pid)
        CHECK(csn_loop_run_once(loop, csn_deadline_in_ms(1000)) >= 0);
    csn_session_delete(session, note, &o);
    session = NULL;
    until_true(&o.is_done);
    CHECK_STR(sh(box, "cat ~/asked; pgrep sleep")->out, "asked\n");
}

TEST(who_waits_for_a_delete_is_told_when_the_session_goes_first)
{
    outcome o = { 0 };

    a_session();
    ran("trap '' TERM; sleep 1000 &");
    csn_session_delete(session, note, &o);
    CHECK(!o.is_done);
    session = csn_session_free(session); /* as when its sandbox is stopped */
    CHECK(o.is_done);
    CHECK_INT(o.result, CSN_OK);
}

TEST(a_session_whose_sandbox_dies_has_ended)
{
    csn_sandbox *box = an_ephemeral();

    a_session_in(box);
    csn_session_command *c = begin("sleep 1000", true);
    OK(csn_sandbox_delete(box, err));
    until_true(&c->is_ended);
    CHECK(session->is_ended);
    CHECK(c->exit_code != 0);
}

TEST(a_shell_with_strict_options_and_traps_goes_on)
{
    a_session();
    CHECK_INT(
        ran("set -u; set -o pipefail; IFS=x; trap 'echo bye' EXIT; alias eval=false")->exit_code,
        0);
    CHECK_STR(stdout_of(ran("set -x; echo a")), "a\n");
    CHECK_STR(stdout_of(ran("echo b")), "b\n");
    CHECK(ran("echo $undefined_one")->exit_code != 0);
}
