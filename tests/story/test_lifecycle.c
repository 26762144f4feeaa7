/* Sandboxes: create, find again, stop, start, delete; and what remains, which is nothing. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "story.h"

static csn_state state_of(csn_sandbox *box)
{
    csn_sandbox_info info;

    OK(csn_sandbox_inspect(box, &info, err));
    return info.state;
}

TEST(an_ephemeral_sandbox_leaves_nothing)
{
    char id[40];
    csn_sandbox *box = an_ephemeral(.name = "short");

    (void) snprintf(id, sizeof(id), "%s", csn_sandbox_id(box));
    CHECK_STR(ending(sh(box, "head -c 1000000 /dev/zero > f; mkdir -p a/b/c")), "exit 0");
    CHECK_INT(count_entries("boxes"), 1);
    CHECK_INT(count_entries("names"), 1);
    OK(csn_sandbox_delete(box, err));
    CHECK_INT(count_entries("boxes"), 0);
    CHECK_INT(count_entries("names"), 0);
    CHECK_INT(count_entries("ids"), 0);
    CHECK_INT(count_cgroups(id), 0);
    CHECK_INT(state_of(box), CSN_STATE_DELETED);
    OK(csn_sandbox_delete(box, err));
    csn_run_result r;
    csn_process_options o = { .size = sizeof(o), .shell = "true" };
    FAILS(csn_run(box, &o, &r, err), CSN_E_STATE);
}

TEST(closing_the_engine_ends_attached_sandboxes)
{
    an_ephemeral();
    an_ephemeral();
    CHECK_INT(count_sandboxes(the_engine()), 2);
    close_the_engine();
    CHECK_INT(count_entries("boxes"), 0);
    CHECK_INT(count_entries("ids"), 0);
}

TEST(a_handle_may_live_longer_than_its_engine)
{
    csn_sandbox *box = an_ephemeral();
    csn_sandbox_info info;
    csn_process *p = NULL;
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 300" };

    OK(csn_process_start(box, &o, &p, err));
    close_the_engine();
    FAILS(csn_sandbox_inspect(box, &info, err), CSN_E_INVALID);
    csn_process_free(p);
}

TEST(stop_and_start_keep_the_files)
{
    csn_sandbox *box = a_sandbox(.name = "kept", .is_detached = 1);

    CHECK_STR(ending(sh(box, "echo stays > file; mkdir d; ln -s file link; chmod 600 file; echo x > /tmp/gone")),
              "exit 0");
    OK(csn_sandbox_stop(box, -1, err));
    CHECK_INT(state_of(box), CSN_STATE_STOPPED);
    OK(csn_sandbox_stop(box, -1, err));
    csn_process_options o = { .size = sizeof(o), .shell = "true" };
    csn_run_result r;
    FAILS(csn_run(box, &o, &r, err), CSN_E_STATE);
    OK(csn_sandbox_start(box, err));
    OK(csn_sandbox_start(box, err));
    CHECK_INT(state_of(box), CSN_STATE_STARTED);
    CHECK_STR(sh(box, "cat link; stat -c %a file; ls /tmp")->out, "stays\n600\n");
    OK(csn_sandbox_delete(box, err));
    CHECK_INT(count_entries("boxes"), 0);
    CHECK_INT(count_entries("ids"), 0);
}

TEST(a_stopped_sandbox_is_deleted_with_its_files)
{
    csn_sandbox *box = a_sandbox(.is_detached = 1);

    CHECK_STR(ending(sh(box, "mkdir -p deep/er; echo x > deep/er/f; chmod 000 deep/er")), "exit 0");
    OK(csn_sandbox_stop(box, -1, err));
    OK(csn_sandbox_delete(box, err));
    CHECK_INT(count_entries("boxes"), 0);
}

TEST(names_are_unique_and_found_again)
{
    csn_sandbox *box = an_ephemeral(.name = "one"), *found = NULL;
    csn_sandbox_options o = { .size = sizeof(o), .name = "one", .is_ephemeral = 1 };
    csn_sandbox_options bad = { .size = sizeof(bad), .name = "../x" };
    char prefix[8];

    FAILS(csn_sandbox_create(the_engine(), &o, &found, err), CSN_E_EXISTS);
    FAILS(csn_sandbox_create(the_engine(), &bad, &found, err), CSN_E_INVALID);
    CHECK_INT(count_entries("boxes"), 1);
    CHECK_INT(count_entries("ids"), is_rootless() ? 0 : 1);
    OK(csn_sandbox_open(the_engine(), "one", &found, err));
    CHECK_STR(csn_sandbox_id(found), csn_sandbox_id(box));
    csn_sandbox_free(found);
    (void) snprintf(prefix, sizeof(prefix), "%.6s", csn_sandbox_id(box));
    OK(csn_sandbox_open(the_engine(), prefix, &found, err));
    csn_sandbox_free(found);
    FAILS(csn_sandbox_open(the_engine(), "two", &found, err), CSN_E_NOT_FOUND);
    OK(csn_sandbox_delete(box, err));
    FAILS(csn_sandbox_open(the_engine(), "one", &found, err), CSN_E_NOT_FOUND);
    box = an_ephemeral(.name = "one");
}

TEST(a_detached_sandbox_is_found_by_another_engine)
{
    csn_sandbox *box = a_sandbox(.name = "far", .is_detached = 1, .env = ARGV("A=1"),
                                 .labels = ARGV("k=v", "l=w"), .memory_bytes = 256 << 20);
    csn_engine *other = another_engine();
    csn_sandbox *again = NULL;
    csn_sandbox_info info;
    csn_run_result r;
    csn_process_options o = { .size = sizeof(o), .shell = "cat f; echo $A" };

    OK(csn_file_put(box, "f", "here ", 5, 0, err));
    close_the_engine();
    OK(csn_sandbox_open(other, "far", &again, err));
    OK(csn_sandbox_inspect(again, &info, err));
    CHECK_INT(info.state, CSN_STATE_STARTED);
    CHECK_STR(info.name, "far");
    CHECK_STR(info.labels[1], "l=w");
    CHECK_INT(info.memory_bytes, 256 << 20);
    CHECK(info.keeper_pid > 0 && kill(info.keeper_pid, 0) == 0);
    OK(csn_run(again, &o, &r, err));
    CHECK_STR(r.out, "here 1\n");
    CHECK(r.receipt.walls & CSN_WALL_SECCOMP);
    csn_run_result_done(&r);
    OK(csn_sandbox_delete(again, err));
    csn_sandbox_free(again);
    csn_engine_free(other);
    CHECK_INT(count_entries("boxes"), 0);
}

static void *open_like(void *user)
{
    csn_engine *e = NULL;

    return csn_engine_open_like(user, &e, NULL) == CSN_OK ? e : NULL;
}

TEST(an_engine_like_another_has_its_sandboxes_and_a_thread_of_its_own)
{
    csn_sandbox *box = a_sandbox(.name = "shared", .is_detached = 1), *again = NULL;
    csn_engine *other = NULL;
    pthread_t thread;
    void *made = NULL;

    CHECK_INT(pthread_create(&thread, NULL, open_like, the_engine()), 0);
    CHECK_INT(pthread_join(thread, &made), 0);
    other = made;
    CHECK(other != NULL);
    CHECK_STR(csn_engine_state_dir(other), csn_engine_state_dir(the_engine()));
    OK(csn_sandbox_open(other, "shared", &again, err));
    OK(csn_sandbox_delete(again, err));
    csn_sandbox_free(again);
    csn_engine_free(other);
    FAILS(csn_engine_open_like(NULL, &other, err), CSN_E_INVALID);
    (void) box;
}

TEST(labels_and_timers_change_and_last)
{
    csn_sandbox *box = a_sandbox(.name = "l", .is_detached = 1, .labels = ARGV("a=1"));
    csn_engine *other = another_engine();
    csn_sandbox *again = NULL;
    csn_sandbox_info info;

    OK(csn_sandbox_set_labels(box, ARGV("b=2", "c=3"), err));
    OK(csn_sandbox_set_timers(box, 3600000, 60000, err));
    FAILS(csn_sandbox_set_labels(box, ARGV("nonsense"), err), CSN_E_INVALID);
    OK(csn_sandbox_open(other, "l", &again, err));
    OK(csn_sandbox_inspect(again, &info, err));
    CHECK_STR(info.labels[0], "b=2");
    CHECK(info.labels[2] == NULL);
    CHECK_INT(info.ttl_ms, 3600000);
    CHECK_INT(info.idle_stop_ms, 60000);
    csn_sandbox_free(again);
    csn_engine_free(other);
    OK(csn_sandbox_delete(box, err));
}

static void count_state(const csn_sandbox_info *info, void *user)
{
    ((int *) user)[info->state]++;
}

TEST(a_list_tells_the_truth)
{
    csn_sandbox *a = an_ephemeral(), *b = a_sandbox(.is_detached = 1);
    csn_engine *other = another_engine();
    int n[8] = { 0 }, m[8] = { 0 };

    (void) a;
    OK(csn_sandbox_stop(b, -1, err));
    OK(csn_sandbox_list(the_engine(), count_state, n, err));
    OK(csn_sandbox_list(other, count_state, m, err));
    CHECK_INT(n[CSN_STATE_STARTED], 1);
    CHECK_INT(n[CSN_STATE_STOPPED], 1);
    CHECK_INT(m[CSN_STATE_STARTED], 1);
    CHECK_INT(m[CSN_STATE_STOPPED], 1);
    csn_engine_free(other);
    OK(csn_sandbox_delete(b, err));
}

static bool is_pid_gone(void *user)
{
    return kill(*(int *) user, 0) < 0 && errno == ESRCH;
}

TEST(kill_9_of_the_client_ends_its_attached_sandboxes)
{
    int pipe_fd[2], pids[2];
    the_state();

    CHECK(pipe(pipe_fd) == 0);
    pid_t child = fork();
    if (child == 0) {
        csn_engine *e = another_engine();
        csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1, .name = "orphan" };
        csn_process_options po = { .size = sizeof(po), .shell = "sleep 300" };
        csn_sandbox *box = NULL;
        csn_sandbox_info info;
        csn_process *p;
        if (csn_sandbox_create(e, &o, &box, NULL) < 0 || csn_process_start(box, &po, &p, NULL) < 0 ||
            csn_sandbox_inspect(box, &info, NULL) < 0)
            _exit(1);
        int mine[2] = { info.keeper_pid, info.init_pid };
        if (write(pipe_fd[1], mine, sizeof(mine)) != sizeof(mine))
            _exit(1);
        pause();
        _exit(1);
    }
    CHECK(read(pipe_fd[0], pids, sizeof(pids)) == sizeof(pids));
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    CHECK(until(is_pid_gone, &pids[1]));
    CHECK(until(is_pid_gone, &pids[0]));
    the_engine(); /* opening one sweeps */
    CHECK_INT(count_entries("boxes"), 0);
    CHECK_INT(count_entries("names"), 0);
    CHECK_INT(count_entries("ids"), 0);
}

TEST(kill_9_of_the_keeper_loses_the_sandbox_and_nothing_else)
{
    csn_sandbox *box = an_ephemeral(), *kept = a_sandbox(.is_detached = 1, .name = "kept");
    csn_sandbox_info info;
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 300" };
    csn_process *p = NULL;
    csn_receipt receipt;
    char id[40];

    (void) snprintf(id, sizeof(id), "%s", csn_sandbox_id(box));
    CHECK_STR(ending(sh(kept, "echo safe > f; sync f")), "exit 0");
    OK(csn_process_start(box, &o, &p, err));
    OK(csn_sandbox_inspect(box, &info, err));
    CHECK(kill(info.keeper_pid, SIGKILL) == 0);
    OK(csn_process_wait(p, 10000, &receipt, err));
    CHECK_INT(receipt.ended, CSN_ENDED_LOST);
    CHECK_INT(csn_receipt_status(&receipt), 125);
    CHECK(until(is_pid_gone, &info.init_pid));
    csn_process_free(p);
    CHECK_INT(state_of(box), CSN_STATE_DELETED);
    CHECK_INT(count_cgroups(id), 0);

    OK(csn_sandbox_inspect(kept, &info, err));
    CHECK(kill(info.keeper_pid, SIGKILL) == 0);
    CHECK(until(is_pid_gone, &info.init_pid));
    CHECK_INT(state_of(kept), CSN_STATE_STOPPED);
    OK(csn_sandbox_start(kept, err));
    CHECK_STR(sh(kept, "cat f")->out, "safe\n");
    OK(csn_sandbox_delete(kept, err));
    OK(csn_engine_gc(the_engine(), NULL, err));
    CHECK_INT(count_entries("boxes"), 0);
    CHECK_INT(count_entries("ids"), 0);
}

TEST(an_attached_sandbox_can_be_deleted_by_anybody_but_used_only_by_its_owner)
{
    csn_sandbox *box = an_ephemeral(.name = "theirs"), *seen = NULL;
    csn_engine *other = another_engine();
    csn_process_options o = { .size = sizeof(o), .shell = "true" };
    csn_sandbox_info info;
    csn_run_result r;

    OK(csn_sandbox_open(other, "theirs", &seen, err));
    OK(csn_sandbox_inspect(seen, &info, err));
    CHECK_INT(info.state, CSN_STATE_STARTED);
    FAILS(csn_run(seen, &o, &r, err), CSN_E_STATE);
    CHECK_STR(ending(sh(box, "true")), "exit 0");
    OK(csn_sandbox_delete(seen, err));
    CHECK_INT(count_entries("boxes"), 0);
    CHECK_INT(state_of(box), CSN_STATE_DELETED);
    csn_sandbox_free(seen);
    csn_engine_free(other);
}

static bool is_swept(void *user)
{
    (void) user;
    OK(csn_engine_dispatch(the_engine(), 0, err));
    OK(csn_engine_gc(the_engine(), NULL, err));
    return count_entries("boxes") == 0;
}

TEST(a_time_to_live_ends_a_sandbox)
{
    csn_sandbox *box = a_sandbox(.is_detached = 1, .ttl_ms = 300 * csn_test_slow());
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 300" };
    csn_process *p = NULL;
    csn_receipt receipt;

    OK(csn_process_start(box, &o, &p, err));
    OK(csn_process_wait(p, 10000, &receipt, err));
    CHECK(receipt.ended == CSN_ENDED_KILLED || receipt.ended == CSN_ENDED_LOST);
    csn_process_free(p);
    CHECK(until(is_swept, NULL));
}

typedef struct made {
    csn_sandbox *box;
    int n;
} made;

static void on_made(csn_sandbox *box, int result, const csn_error *err, void *user)
{
    made *m = user;

    if (result < 0)
        FAIL("create: %s", err->message);
    m->box = box;
    m->n++;
}

static void on_done(int result, const csn_error *err, void *user)
{
    if (result < 0)
        FAIL("delete: %s", err->message);
    ++*(int *) user;
}

TEST(twenty_are_made_and_deleted_side_by_side)
{
    csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1 };
    made m[20] = { 0 };
    int n_done = 0;

    for (int i = 0; i < 20; i++)
        (void) BEGUN(csn_sandbox_create_async(the_engine(), &o, on_made, &m[i], err));
    for (int i = 0; i < 20; i++)
        while (!m[i].box)
            OK(csn_engine_dispatch(the_engine(), 10000, err));
    CHECK_INT(count_sandboxes(the_engine()), 20);
    for (int i = 0; i < 20; i++)
        (void) BEGUN(csn_sandbox_delete_async(m[i].box, on_done, &n_done, err));
    while (n_done < 20)
        OK(csn_engine_dispatch(the_engine(), 10000, err));
    for (int i = 0; i < 20; i++)
        csn_sandbox_free(m[i].box);
    CHECK_INT(count_sandboxes(the_engine()), 0);
    close_the_engine(); /* and with it the one that stood ready */
    CHECK_INT(count_entries("boxes"), 0);
    CHECK_INT(count_entries("ids"), 0);
}

TEST(an_engine_belongs_to_the_process_that_opened_it)
{
    csn_sandbox *box = an_ephemeral();
    pid_t child = fork();

    if (child == 0) {
        csn_sandbox_info info;
        int a = csn_sandbox_inspect(box, &info, NULL), b = csn_engine_gc(the_engine(), NULL, NULL);
        csn_engine_free(the_engine());
        _exit(a == CSN_E_INVALID && b == CSN_E_INVALID ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
    CHECK_STR(ending(sh(box, "true")), "exit 0");
}

TEST(a_state_directory_open_to_others_is_refused)
{
    csn_engine_options o = { .size = sizeof(o), .state_dir = the_state() };
    csn_engine *e = NULL;

    o.libexec_dir = getenv("CSN_BUILD");
    CHECK(chmod(the_state(), 0755) == 0);
    FAILS(csn_engine_open(&o, &e, err), CSN_E_DENIED);
    CHECK(chmod(the_state(), 0700) == 0);
    o.libexec_dir = "/nowhere";
    FAILS(csn_engine_open(&o, &e, err), CSN_E_UNSUPPORTED);
}

static bool has_five_megabytes(void *user)
{
    csn_usage usage;

    OK(csn_sandbox_usage(user, &usage, err));
    return usage.disk_bytes >= 5000000;
}

TEST(usage_and_the_sandboxs_own_receipt_are_told)
{
    csn_sandbox *box = an_ephemeral();
    csn_receipt receipt;

    CHECK_STR(ending(sh(box, "head -c 5000000 /dev/zero > f")), "exit 0");
    OK(csn_sandbox_receipt(box, &receipt, err));
    CHECK_INT(receipt.ended, CSN_ENDED_RUNNING);
    CHECK(receipt.wall_us > 0);
    CHECK_INT(receipt.pids_limit, 512);
    if (receipt.disk_rung == CSN_DISK_WATCH)
        CHECK(until(has_five_megabytes, box)); /* it is counted now and then */
    CHECK(has_five_megabytes(box));
}

static void count_check(const csn_check *check, void *user)
{
    ++*(int *) user;
    CHECK(check->name && check->kind && check->detail);
}

TEST(the_doctor_starts_a_real_sandbox)
{
    int n = 0;

    OK(csn_engine_doctor(the_engine(), count_check, &n, err));
    CHECK(n > 5);
    CHECK_INT(count_entries("boxes"), 0);
}

TEST(an_interrupted_create_leaves_nothing)
{
    csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1, .name = "half" };
    csn_sandbox *box = NULL;

    csn_engine_interrupt(the_engine());
    FAILS(csn_sandbox_create(the_engine(), &o, &box, err), CSN_E_CANCELLED);
    CHECK(box == NULL);
    close_the_engine();
    CHECK_INT(count_entries("boxes"), 0);
    CHECK_INT(count_entries("names"), 0);
    CHECK_INT(count_entries("ids"), 0);
}

/* A whole life, again and again; every engine that is opened sweeps. */
static void live_and_sweep(void)
{
    for (int i = 0; i < 6; i++) {
        csn_engine_options eo = { .size = sizeof(eo),
                                  .state_dir = the_state(),
                                  .libexec_dir = getenv("CSN_BUILD") };
        csn_sandbox_options so = { .size = sizeof(so), .is_ephemeral = i % 2 };
        csn_engine *e = NULL;
        csn_sandbox *box = NULL;
        csn_error err = { 0 };
        if (csn_engine_open(&eo, &e, &err) < 0 || csn_sandbox_create(e, &so, &box, &err) < 0 ||
            csn_engine_gc(e, NULL, &err) < 0 || csn_sandbox_delete(box, &err) < 0) {
            csn_test_note("%s", err.message);
            _exit(1);
        }
        csn_sandbox_free(box);
        csn_engine_free(e);
    }
    _exit(0);
}

TEST_TIMEOUT(engines_that_create_and_engines_that_sweep_do_not_disturb_each_other, 120)
{
    pid_t children[4];
    int status;

    the_state();
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        if (children[i] == 0)
            live_and_sweep();
    }
    for (int i = 0; i < 4; i++) {
        CHECK(waitpid(children[i], &status, 0) == children[i]);
        CHECK_INT(status, 0);
    }
    the_engine();
    CHECK_INT(count_entries("boxes"), 0);
    CHECK_INT(count_entries("ids"), 0);
}

TEST(an_idle_sandbox_stops_and_starts_again)
{
    csn_sandbox *box = a_sandbox(.is_detached = 1, .idle_stop_ms = 300);
    csn_sandbox_info info = { 0 };

    CHECK_STR(ending(sh(box, "echo kept > f")), "exit 0");
    for (int i = 0; i < 1000 && info.state != CSN_STATE_STOPPED; i++) {
        OK(csn_engine_dispatch(the_engine(), 20, err)); /* no question to the keeper: that would keep it awake */
        OK(csn_sandbox_inspect(box, &info, err));
    }
    CHECK_INT(info.state, CSN_STATE_STOPPED);
    OK(csn_sandbox_start(box, err));
    CHECK_STR(sh(box, "cat f")->out, "kept\n");
    OK(csn_sandbox_delete(box, err));
}

TEST(new_limits_hold_at_once_and_after_a_start)
{
    csn_sandbox *box = a_sandbox(.memory_bytes = 64 << 20, .is_detached = 1);
    const char *const eat = "python3 -c 'x = b\"x\" * (96 << 20)'";
    csn_sandbox_info info;

    /* Without cgroups somebody has to look, which takes a moment. */
    CHECK_STR(ending(sh(box, "python3 -c 'import time; x = b\"x\" * (96 << 20); time.sleep(60)'")),
              "oom");
    OK(csn_sandbox_resize(box, 256 << 20, 500, 0, err));
    CHECK_STR(ending(sh(box, eat)), "exit 0");
    FAILS(csn_sandbox_resize(box, 0, 0, 1 << 30, err), CSN_E_STATE);
    FAILS(csn_sandbox_resize(box, 0, 0, 0, err), CSN_E_INVALID);
    OK(csn_sandbox_stop(box, -1, err));
    OK(csn_sandbox_resize(box, 0, 0, 1 << 30, err));
    OK(csn_sandbox_start(box, err));
    OK(csn_sandbox_inspect(box, &info, err));
    CHECK_INT(info.memory_bytes, 256 << 20);
    CHECK_INT(info.cpu_milli, 500);
    CHECK_INT(info.disk_bytes, 1 << 30);
    CHECK_STR(ending(sh(box, eat)), "exit 0");
    OK(csn_sandbox_delete(box, err));
}
