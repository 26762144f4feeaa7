/* Interpreter contexts against real sandboxes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/loop.h"
#include "base/time.h"
#include "server/context.h"
#include "story/story.h"

static csn_loop *loop;
static csn_context *context;

static void on_engine(csn_source *src, uint32_t events, void *user)
{
    (void) src;
    (void) events;
    (void) user;
    csn_engine_dispatch(the_engine(), 0, NULL);
}

static void free_all(void *user)
{
    (void) user;
    context = csn_context_free(context);
    loop = csn_loop_free(loop);
}

static csn_sandbox *a_context(void)
{
    static const char *const env[] = { "COLOUR=red", NULL };
    csn_sandbox *box = an_ephemeral(.memory_bytes = 512 << 20);

    if (strcmp(ending(run(box, .argv = ARGV("python3", "-c", ""))), "exit 0") != 0)
        SKIP("python3 is not there");
    signal(SIGPIPE, SIG_IGN);
    CHECK(csn_loop_new(&loop) == 0);
    csn_test_defer(free_all, NULL);
    CHECK(csn_loop_add(loop, csn_engine_fd(the_engine()), EPOLLIN, on_engine, NULL, NULL) == 0);
    context = csn_context_new(loop, box, "c", "/home/daytona", env);
    CHECK(context != NULL);
    return box;
}

typedef struct seen {
    bool is_over;
    csn_ctxrun_end how;
    char why[256];
    csn_buf out[2];
    char name[64], value[512], trace[4096];
    csn_ctxrun *run;
} seen;

static void free_seen(void *user)
{
    seen *s = user;

    csn_buf_free(&s->out[0]);
    csn_buf_free(&s->out[1]);
    free(s);
}

static void on_output(csn_ctxrun *r, csn_stream stream, const char *data, size_t len, void *user)
{
    seen *s = user;

    (void) r;
    CHECK(csn_buf_append(&s->out[stream == CSN_STDERR], data, len) == 0);
}

static void on_error(csn_ctxrun *r, const char *name, const char *value, const char *trace,
                     void *user)
{
    seen *s = user;

    (void) r;
    (void) snprintf(s->name, sizeof(s->name), "%s", name);
    (void) snprintf(s->value, sizeof(s->value), "%s", value);
    (void) snprintf(s->trace, sizeof(s->trace), "%s", trace);
}

static void on_end(csn_ctxrun *r, csn_ctxrun_end how, const char *why, void *user)
{
    seen *s = user;

    (void) r;
    s->is_over = true;
    s->how = how;
    (void) snprintf(s->why, sizeof(s->why), "%s", why ? why : "");
}

static const csn_ctxrun_events events = { on_output, on_error, on_end };

static seen *begin(const char *code, const char *envs, int64_t timeout_ms)
{
    seen *s = calloc(1, sizeof(*s));
    csn_json *doc = NULL;

    s->out[0] = s->out[1] = (csn_buf) CSN_BUF_INIT;
    csn_test_defer(free_seen, s);
    if (envs)
        CHECK(csn_json_parse(envs, strlen(envs), &doc, NULL) == 0);
    OK(csn_context_run(context, code, strlen(code), doc, timeout_ms, &events, s, &s->run, err));
    csn_json_free(doc);
    return s;
}

static seen *over(seen *s)
{
    int64_t deadline = csn_deadline_in_ms(50000);

    while (!s->is_over && !csn_deadline_passed(deadline))
        CHECK(csn_loop_run_once(loop, deadline) >= 0);
    CHECK(s->is_over);
    return s;
}

static seen *ran(const char *code)
{
    return over(begin(code, NULL, 0));
}

TEST(names_stay_from_run_to_run)
{
    a_context();
    seen *s =
        ran("import os\nx = 41\ndef f(): return x + 1\nprint(os.getcwd(), os.environ['COLOUR'])");
    CHECK_INT(s->how, CSN_CTXRUN_COMPLETED);
    CHECK_STR(s->out[0].data, "/home/daytona red\n");
    CHECK_STR(ran("print(f()); os.chdir('/tmp')")->out[0].data, "42\n");
    CHECK_STR(ran("print(os.getcwd(), __name__); import __main__; print(__main__.x)")->out[0].data,
              "/tmp __main__\n41\n");
}

TEST(errors_name_the_users_lines_only)
{
    a_context();
    seen *s = ran("def f():\n    return 1 / 0\nprint('a')\nf()");
    CHECK_STR(s->name, "ZeroDivisionError");
    CHECK_STR(s->value, "division by zero");
    CHECK(strstr(s->trace, "File \"<stdin>\", line 4") && strstr(s->trace, "line 2, in f"));
    CHECK(!strstr(s->trace, "caisson"));
    CHECK_STR(s->out[0].data, "a\n");
    CHECK_STR(ran("def (")->name, "SyntaxError");
    CHECK_STR(ran("import sys; sys.exit(3)")->name, "");
    CHECK_STR(ran("class E(Exception):\n def __str__(self): raise E\nraise E")->name, "E");
    CHECK_STR(ran("raise ValueError('nul \\0 and \\ud800')")->name, "ValueError");
    CHECK_STR(ran("print('alive')")->out[0].data, "alive\n");
}

TEST(variables_of_one_run_are_taken_back)
{
    a_context();
    const char *code = "import os; print(os.environ.get('A'), os.environ['COLOUR'])";
    CHECK_STR(over(begin(code, "{\"A\":\"1\",\"COLOUR\":\"blue\"}", 0))->out[0].data, "1 blue\n");
    CHECK_STR(ran(code)->out[0].data, "None red\n");
}

TEST(output_comes_while_code_runs_and_children_are_heard)
{
    a_context();
    seen *s =
        begin("import subprocess, sys\nprint('first')\nsubprocess.run(['cat', '/dev/zero'][:1] + "
              "['/tmp/fifo'])\nprint('err', file=sys.stderr)",
              NULL, 0);
    ran("1"); /* waits its turn: by then the first is over, /tmp/fifo is not there */
    CHECK(s->is_over);
    CHECK(strstr(s->out[0].data, "first\n"));
    CHECK(strstr(s->out[1].data, "No such file") && strstr(s->out[1].data, "err\n"));
    s = begin("import time\nprint('live')\ntime.sleep(1000)", NULL, 0);
    int64_t deadline = csn_deadline_in_ms(50000);
    while (s->out[0].len == 0)
        CHECK(csn_loop_run_once(loop, deadline) > 0);
    CHECK_STR(s->out[0].data, "live\n");
    csn_ctxrun_cancel(s->run);
    CHECK_STR(ran("print('next')")->out[0].data, "next\n");
}

TEST(a_run_over_its_time_is_interrupted_and_names_stay)
{
    a_context();
    ran("x = 1");
    seen *s = over(begin("import time\ntime.sleep(1000)", NULL, 100));
    CHECK_INT(s->how, CSN_CTXRUN_TIMEOUT);
    CHECK_STR(s->name, "");
    CHECK_STR(ran("print(x)")->out[0].data, "1\n");
}

TEST(a_run_that_ignores_the_interrupt_is_killed)
{
    a_context();
    ran("x = 1");
    seen *s =
        over(begin("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
                   NULL, 100));
    CHECK_INT(s->how, CSN_CTXRUN_TIMEOUT);
    s = ran("print(x)");
    CHECK_STR(s->why, "");
    CHECK_STR(s->name, "NameError");
}

TEST(a_worker_that_dies_is_named_and_replaced)
{
    a_context();
    seen *s = ran("import os; print('last words', flush=True); os._exit(3)");
    CHECK_INT(s->how, CSN_CTXRUN_LOST);
    CHECK(strstr(s->why, "exit code 3"));
    CHECK_STR(s->out[0].data, "last words\n");
    s = ran("x = bytearray(2 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1");
    CHECK(s->how == CSN_CTXRUN_LOST ? strstr(s->why, "out of memory") != NULL
                                    : strcmp(s->name, "MemoryError") == 0);
    CHECK_STR(ran("print('back')")->out[0].data, "back\n");
}

TEST(hostile_code_harms_only_itself)
{
    a_context();
    ran("import os\nfor fd in range(3, 64):\n  try: os.write(fd, b'\\xff' * 64)\n  except OSError: pass");
    CHECK_STR(ran("print('a')")->out[0].data, "a\n");
    seen *s = ran("import os\nos.closerange(0, 64)");
    CHECK_INT(s->how, CSN_CTXRUN_LOST);
    ran("import os, sys\nif os.fork() == 0: raise ValueError\nos.wait()\nsys.stdout.close()\nimport builtins; del builtins.print");
    s = ran("import sys; sys.stdout.write('b\\n')");
    CHECK_STR(s->out[0].data, "b\n");
}
