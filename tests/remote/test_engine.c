/* A remote engine from C, against the server that DAYTONA_API_URL names: engine.py starts one. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "remote_world.h"
#include "story/op_walk.h"
#include "story/story.h"

TEST(a_sandbox_elsewhere_is_made_used_found_and_deleted)
{
    csn_engine *engine = remote_engine();
    csn_sandbox *box = a_box(engine), *same = NULL;
    csn_process_options po = { .size = sizeof(po),
                               .shell = "echo out; echo err >&2; pwd; exit 4",
                               .merge_stderr = 1 };
    csn_sandbox_info info;
    csn_run_result result;
    char id[80];

    csn_test_defer(free_engine, engine);
    (void) snprintf(id, sizeof(id), "%s", csn_sandbox_id(box));
    CHECK_INT(csn_engine_is_remote(engine), 1);
    CHECK_STR(csn_engine_state_dir(engine), getenv("DAYTONA_API_URL"));
    OK(csn_run(box, &po, &result, err));
    CHECK_STR(result.merged, "out\nerr\n/home/daytona\n");
    CHECK(result.receipt.ended == CSN_ENDED_EXIT && result.receipt.exit_code == 4);
    CHECK(result.receipt.rung == CSN_RUNG_REMOTE && result.receipt.peak_memory_bytes == -1);
    csn_run_result_done(&result);
    OK(csn_sandbox_open(engine, id, &same, err));
    OK(csn_sandbox_inspect(same, &info, err));
    CHECK_INT(info.state, CSN_STATE_STARTED);
    CHECK_INT(count_boxes(engine), 1);
    OK(csn_sandbox_delete(same, err));
    OK(csn_sandbox_delete(same, err)); /* once more is fine */
    CHECK_INT(count_boxes(engine), 0);
    FAILS(csn_sandbox_open(engine, id, &same, err), CSN_E_NOT_FOUND);
    csn_sandbox_free(same);
    csn_sandbox_free(box);
}

TEST(files_stream_both_ways)
{
    csn_engine *engine = remote_engine();
    csn_sandbox *box = a_box(engine);
    int in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC), pipe_fd[2];
    const int64_t size = 30 << 20;
    csn_process_options hide = { .size = sizeof(hide), .shell = "touch hidden; chmod 000 hidden" };
    csn_run_result result;
    char a[4096], b[4096], *data;
    int64_t n = 0;
    size_t len;

    csn_test_defer(free_engine, engine);
    CHECK(ftruncate(in, size) == 0);
    for (int64_t at = 0; at < size; at += 1 << 20)
        CHECK(pwrite(in, &at, sizeof(at), at) == sizeof(at));
    OK(csn_file_put_fd(box, "big file", in, 0755, &n, err));
    CHECK_INT(n, size);
    OK(csn_file_get_fd(box, "big file", out, &n, err));
    CHECK_INT(n, size);
    for (int64_t at = 0; at < size; at += 1 << 20) {
        CHECK(pread(in, a, sizeof(a), at) == sizeof(a) &&
              pread(out, b, sizeof(b), at) == sizeof(b));
        CHECK(memcmp(a, b, sizeof(a)) == 0);
    }
    CHECK(pipe(pipe_fd) == 0 && write(pipe_fd[1], "through a pipe", 14) == 14);
    close(pipe_fd[1]);
    OK(csn_file_put_fd(box, "deep/er/piped", pipe_fd[0], 0, NULL, err));
    OK(csn_file_get(box, "deep/er/piped", 0, &data, &len, err));
    CHECK_MEM(data, len, "through a pipe", 14);
    free(data);
    OK(csn_file_put(box, "empty", "", 0, 0, err));
    OK(csn_file_get(box, "empty", 0, &data, &len, err));
    CHECK_INT(len, 0);
    free(data);
    FAILS(csn_file_get(box, "big file", 1000, &data, &len, err), CSN_E_TOO_LARGE);
    FAILS(csn_file_get(box, "absent", 0, &data, &len, err), CSN_E_NOT_FOUND);
    FAILS(csn_file_get(box, "deep", 0, &data, &len, err), CSN_E_NOT_REGULAR);
    OK(csn_run(box, &hide, &result, err));
    csn_run_result_done(&result);
    FAILS(csn_file_get(box, "hidden", 0, &data, &len, err), CSN_E_DENIED);
    csn_sandbox_free(box);
    close(pipe_fd[0]);
    close(in);
    close(out);
}

static void note_done(char *data, int64_t n, int result, const csn_error *err, void *user)
{
    (void) data;
    (void) n;
    (void) err;
    *(int *) user = result < 0 ? result : 1;
}

TEST(an_upload_from_a_pipe_that_gives_nothing_can_be_cancelled)
{
    csn_engine *engine = remote_engine();
    csn_sandbox *box = a_box(engine);
    csn_file_source from = { .size = sizeof(from), .is_fd = 1 };
    int pipe_fd[2], done = 0;

    csn_test_defer(free_engine, engine);
    CHECK(pipe(pipe_fd) == 0);
    from.fd = pipe_fd[0];
    csn_op *op = BEGUN(csn_file_put_async(box, "x", &from, 0, note_done, &done, err));
    while (csn_engine_dispatch(engine, 200, NULL) > 0)
        ;
    CHECK_INT(done, 0);
    csn_op_cancel(op);
    CHECK_INT(done, 0);
    while (!done)
        OK(csn_engine_dispatch(engine, 10000, err));
    CHECK_INT(done, CSN_E_CANCELLED);
    csn_sandbox_free(box);
}

TEST(what_it_can_not_do_it_says_by_name)
{
    csn_engine *engine = remote_engine();
    csn_sandbox *box = a_box(engine), *other;
    csn_sandbox_options limited = { .size = sizeof(limited), .memory_bytes = 64 << 20 };
    csn_error why = { 0 };
    int fd;

    csn_test_defer(free_engine, engine);
    FAILS(csn_file_open(box, "x", CSN_OPEN_READ, 0, &fd, err), CSN_E_UNSUPPORTED);
    FAILS(csn_sandbox_create(engine, &limited, &other, err), CSN_E_UNSUPPORTED);
    FAILS(csn_image_import(engine, "py", "x.tar", err), CSN_E_UNSUPPORTED);
    (void) csn_port_connect(box, 80, &fd, &why);
    CHECK_STR(why.message, "the remote backend can't connect to a port yet");
    csn_sandbox_free(box);
}

TEST_TIMEOUT(every_verb_is_given_up_at_every_step, 400)
{
    csn_engine *engine = remote_engine();

    csn_test_defer(free_engine, engine);
    for (size_t i = 0; i < n_op_verbs; i++)
        if (!op_verbs[i].is_local)
            walk_op(engine, &op_verbs[i]);
    CHECK_INT(count_boxes(engine), 0);
}

TEST(an_engine_takes_what_it_made_along)
{
    csn_engine *first = remote_engine(), *second = remote_engine();
    csn_sandbox_options kept = { .size = sizeof(kept), .is_detached = 1, .name = "kept-one" };
    csn_sandbox *a = a_box(first), *b = a_box(first), *c = NULL;

    csn_test_defer(free_engine, second);
    OK(csn_sandbox_create(first, &kept, &c, err));
    CHECK_INT(count_boxes(second), 3);
    csn_engine_free(first);
    CHECK_INT(count_boxes(second), 1); /* gone when it returns, but for the detached one */
    FAILS(csn_sandbox_delete(a, err), CSN_E_INVALID);
    csn_sandbox_free(a);
    csn_sandbox_free(b);
    csn_sandbox_free(c);
    OK(csn_sandbox_open(second, "kept-one", &c, err));
    OK(csn_sandbox_delete(c, err));
    csn_sandbox_free(c);
    CHECK_INT(count_boxes(second), 0);
}

/* A program of its own with one sandbox: says its id, then waits for its end. With `has_child` a fork of it stays behind. */
static pid_t a_program(bool has_child, char ret_id[80])
{
    int ends[2], stay[2];
    ssize_t n;
    pid_t pid;

    CHECK(pipe(ends) == 0 && pipe(stay) == 0); /* the writing end of `stay` is the test's alone */
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        csn_sandbox *box = a_box(remote_engine());

        (void) close(stay[1]);
        if (has_child && fork() == 0) {
            (void) close(ends[1]);
            (void) !read(stay[0], ret_id,
                         1); /* until the test ends; holds the engine's descriptors */
            _exit(0);
        }
        CHECK(write(ends[1], csn_sandbox_id(box), strlen(csn_sandbox_id(box))) > 0);
        (void) close(ends[1]);
        for (;;)
            (void) pause();
    }
    (void) close(ends[1]);
    n = read(ends[0], ret_id, 79);
    CHECK(n > 0);
    ret_id[n] = '\0';
    (void) close(ends[0]);
    return pid;
}

static void end_program(pid_t pid)
{
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

static bool is_empty(void *engine)
{
    return count_boxes(engine) == 0;
}

TEST(a_killed_program_leaves_nothing_even_with_a_child_that_lives_on)
{
    char id[80];
    csn_engine *engine;
    pid_t pid = a_program(true, id);

    engine = remote_engine();
    csn_test_defer(free_engine, engine);
    CHECK_INT(count_boxes(engine), 1);
    end_program(pid);
    CHECK(until(is_empty, engine));
}

static pid_t helper_of(pid_t parent)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;
    char path[64];
    int64_t pid = 0;

    (void) snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int) parent, (int) parent);
    CHECK_INT(csn_read_file(AT_FDCWD, path, &line, 4096), 0);
    CHECK_INT(csn_parse_i64(csn_str_trim(csn_str_n(line.data, line.len)), &pid),
              0); /* it has one */
    return (pid_t) pid;
}

TEST(what_even_a_helper_could_not_delete_is_swept_later)
{
    csn_sandbox_options kept = { .size = sizeof(kept), .is_detached = 1, .name = "kept-two" };
    char id[80];
    pid_t pid = a_program(false, id);
    csn_engine *engine = remote_engine();
    csn_sandbox *own = a_box(engine), *detached = NULL;
    uint32_t n = 99;

    csn_test_defer(free_engine, engine);
    OK(csn_sandbox_create(engine, &kept, &detached, err));
    OK(csn_engine_gc(engine, &n, err));
    CHECK_INT(n, 0); /* both programs live */
    CHECK_INT(kill(helper_of(pid), SIGKILL), 0);
    end_program(pid);
    CHECK_INT(count_boxes(engine), 3);
    OK(csn_engine_gc(engine, &n, err));
    CHECK_INT(n, 1);
    CHECK_INT(count_boxes(engine), 2); /* our own, and the one that was to live on */
    OK(csn_sandbox_delete(detached, err));
    csn_sandbox_free(detached);
    csn_sandbox_free(own);
}

static void note_box(csn_sandbox *box, int result, const csn_error *err, void *user)
{
    (void) err;
    CHECK(!box);
    *(int *) user = result;
}

TEST(a_create_under_way_ends_with_its_engine_and_leaves_nothing)
{
    csn_engine *first = remote_engine(), *second = remote_engine();
    int results[5] = { 0 };

    csn_test_defer(free_engine, second);
    for (int i = 0; i < 5; i++)
        (void) BEGUN(csn_sandbox_create_async(first, NULL, note_box, &results[i], err));
    csn_engine_free(first);
    for (int i = 0; i < 5; i++)
        CHECK_INT(results[i], CSN_E_CANCELLED);
    CHECK_INT(count_boxes(second), 0);
}

TEST(options_that_make_no_sense_are_refused)
{
    csn_engine_options o = { .size = sizeof(o), .remote_url = "http://127.0.0.1:1/api" };
    csn_engine *engine;

    FAILS(csn_engine_open(&o, &engine, err), CSN_E_INVALID); /* no key */
    o.remote_key = "with a blank";
    FAILS(csn_engine_open(&o, &engine, err), CSN_E_INVALID);
    o.remote_key = "dtn_x";
    o.remote_url = "127.0.0.1/api";
    FAILS(csn_engine_open(&o, &engine, err), CSN_E_INVALID);
    o.remote_url = "http://127.0.0.1:1/api";
    o.libexec_dir = "/nonexistent";
    FAILS(csn_engine_open(&o, &engine, err), CSN_E_UNSUPPORTED);
}

TEST(nothing_stays_open)
{
    int before = csn_test_count_fds();
    csn_engine *engine = remote_engine();
    csn_sandbox *box = a_box(engine);
    csn_process_options po = { .size = sizeof(po), .shell = "true" };
    csn_run_result result;

    OK(csn_run(box, &po, &result, err));
    csn_run_result_done(&result);
    OK(csn_file_put(box, "x", "x", 1, 0, err));
    csn_sandbox_free(box);
    csn_engine_free(engine);
    CHECK_INT(csn_test_count_fds(), before);
}
