/* Imports side by side, and those that don't come to their end: whatever happens, nothing half-made stays. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/time.h"
#include "image/test_state.h"
#include "tar_maker.h"

static const char *a_long_tar(void)
{
    tar_make_long(at("long.tar"));
    return at("long.tar");
}

typedef struct ending {
    int n, result;
    csn_error err;
} ending;

static void on_done(int result, const csn_error *e, void *user)
{
    ending *end = user;

    end->n++;
    end->result = result;
    if (e)
        end->err = *e;
}

static void run_until(const int *n, int want)
{
    int64_t deadline = csn_deadline_in_ms(30000 * csn_test_slow());

    while (*n < want && !csn_deadline_passed(deadline))
        CHECK(csn_engine_dispatch(engine, 1000, &err) >= 0);
    CHECK_INT(*n, want);
}

TEST(a_broken_archive_leaves_nothing)
{
    open_engine();
    make_tree();
    RUN("tar", "czf", at("t.tgz"), "-C", at("tree"), ".");
    CHECK(truncate(at("t.tgz"), 5000) == 0);
    CHECK_INT(csn_image_import(engine, "cut", at("t.tgz"), &err), CSN_E_INVALID);
    CHECK(strstr(err.message, "import image 'cut': "));
    check_state(0, 0);
}

TEST(imports_run_side_by_side)
{
    ending a = { 0 }, b = { 0 };

    open_engine();
    CHECK(csn_image_import_async(engine, "a", make_tree(), on_done, &a, &err));
    CHECK(csn_image_import_async(engine, "b", at("tree"), on_done, &b, &err));
    run_until(&a.n, 1);
    run_until(&b.n, 1);
    CHECK_INT(a.result, CSN_OK);
    CHECK_INT(b.result, CSN_OK);
    check_state(2, 2);
}

TEST(of_two_imports_for_one_name_one_wins)
{
    ending a = { 0 }, b = { 0 };

    open_engine();
    CHECK(csn_image_import_async(engine, "same", make_tree(), on_done, &a, &err));
    CHECK(csn_image_import_async(engine, "same", at("tree"), on_done, &b, &err));
    run_until(&a.n, 1);
    run_until(&b.n, 1);
    CHECK((a.result == CSN_OK) != (b.result == CSN_OK));
    CHECK_INT(a.result + b.result, CSN_E_EXISTS);
    OK(csn_engine_gc(engine, NULL, &err));
    check_state(1, 1);
}

TEST(an_import_ends_with_its_engine)
{
    ending end = { 0 };

    open_engine();
    CHECK(csn_image_import_async(engine, "long", a_long_tar(), on_done, &end, &err));
    CHECK(csn_engine_dispatch(engine, 50, &err) >= 0);
    engine = csn_engine_free(engine);
    CHECK_INT(end.n, 1);
    CHECK_INT(end.result, CSN_E_CANCELLED);
    check_state(0, 0);
}

/* The one child of this process. */
static pid_t our_child(void)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    char path[64];

    (void) snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int) getpid());
    if (csn_read_file(AT_FDCWD, path, &text, 4096) < 0)
        SKIP("kernel: it doesn't list a process's children");
    return (pid_t) strtol(text.data, NULL, 10);
}

TEST(an_import_whose_helper_is_killed_leaves_nothing)
{
    ending end = { 0 };

    open_engine();
    CHECK(csn_image_import_async(engine, "long", a_long_tar(), on_done, &end, &err));
    CHECK(csn_engine_dispatch(engine, 50, &err) >= 0);
    CHECK(our_child() > 1);
    CHECK(kill(our_child(), SIGKILL) == 0);
    run_until(&end.n, 1);
    CHECK_INT(end.result, CSN_E_SYSTEM);
    CHECK_STR(end.err.message, "import image 'long': caisson-unpack was killed by signal 9");
    check_state(0, 0);
}

static void interrupt(int sig)
{
    (void) sig;
    csn_engine_interrupt(engine);
}

TEST(an_import_can_be_interrupted)
{
    struct sigaction act = { .sa_handler = interrupt };

    open_engine();
    CHECK(sigaction(SIGALRM, &act, NULL) == 0);
    (void) alarm(1);
    CHECK_INT(csn_image_import(engine, "long", a_long_tar(), &err), CSN_E_CANCELLED);
    check_state(0, 0);
}

/* The helper's directory is its own until it ends; then a sweep takes what it left. */
TEST(an_import_of_a_killed_client_is_swept)
{
    int64_t deadline = csn_deadline_in_ms(20000);
    pid_t pid;

    (void) a_long_tar();
    pid = fork();
    if (pid == 0) {
        ending end = { 0 };
        csn_engine_options o = { .size = sizeof(o),
                                 .state_dir = at("state"),
                                 .libexec_dir = getenv("CSN_BUILD") };

        if (csn_engine_open(&o, &engine, NULL) < 0 ||
            !csn_image_import_async(engine, "long", at("long.tar"), on_done, &end, NULL))
            _exit(1);
        (void) csn_engine_dispatch(engine, 50, NULL);
        (void) kill(getpid(), SIGKILL);
    }
    CHECK(pid > 0);
    CHECK(waitpid(pid, NULL, 0) == pid);
    open_engine();
    while (count_in("layers", true) > 0 && !csn_deadline_passed(deadline)) {
        OK(csn_engine_gc(engine, NULL, &err));
        (void) poll(NULL, 0, 10); /* a look every 10 ms, until the deadline */
    }
    check_state(0, 0);
}
