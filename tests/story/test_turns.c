/* Slow keepers, locked directories: whoever waits for them does not hold up anybody else. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "story.h"

typedef struct heard {
    int n, result;
    csn_sandbox *box;
} heard;

static void on_box(csn_sandbox *box, int result, const csn_error *err, void *user)
{
    heard *h = user;

    (void) err;
    h->n++;
    h->result = result;
    h->box = box;
}

static void on_done(int result, const csn_error *err, void *user)
{
    on_box(NULL, result, err, user);
}

static csn_engine *turning; /* whose loop until() runs */

static bool is_heard(void *user)
{
    OK(csn_engine_dispatch(turning, 0, err));
    return ((heard *) user)->n > 0;
}

static pid_t keeper_of(csn_sandbox *box)
{
    csn_sandbox_info info;

    OK(csn_sandbox_inspect(box, &info, err));
    return info.keeper_pid;
}

/* Another command of another sandbox, begun and ended in the meantime. */
static void check_others_go_on(csn_engine *engine, const heard *waiting)
{
    csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1 };
    csn_process_options what = { .size = sizeof(what), .shell = "echo on" };
    csn_sandbox *box = NULL;
    csn_run_result r;

    OK(csn_sandbox_create(engine, &o, &box, err));
    OK(csn_run(box, &what, &r, err));
    CHECK_STR(r.out, "on\n");
    csn_run_result_done(&r);
    OK(csn_sandbox_delete(box, err));
    csn_sandbox_free(box);
    CHECK_INT(waiting->n, 0);
}

TEST(who_opens_a_sandbox_whose_keeper_is_slow_holds_up_nobody)
{
    pid_t keeper = keeper_of(a_sandbox(.is_detached = 1, .name = "slow"));
    heard late = { 0 }, found = { 0 };

    turning = another_engine();
    CHECK(kill(keeper, SIGSTOP) == 0);
    csn_op *op = BEGUN(csn_sandbox_open_async(turning, "slow", on_box, &late, err));
    check_others_go_on(turning, &late);
    OK(csn_op_set_timeout(op, 1, err));
    CHECK(until(is_heard, &late));
    CHECK_INT(late.result, CSN_E_TIMEOUT);

    BEGUN(csn_sandbox_open_async(turning, "slow", on_box, &found, err));
    check_others_go_on(turning, &found);
    CHECK(kill(keeper, SIGCONT) == 0);
    CHECK(until(is_heard, &found));
    CHECK_INT(found.result, CSN_OK);
    OK(csn_sandbox_delete(found.box, err));
    csn_sandbox_free(found.box);
    csn_engine_free(turning);
}

/* It answers after all: whoever waited for it is served in order. */
TEST(verbs_on_a_slow_sandbox_wait_in_line)
{
    csn_sandbox *box = a_sandbox(.is_detached = 1, .name = "slow"), *again = NULL;
    pid_t keeper = keeper_of(box);
    heard h[3] = { 0 };
    csn_sandbox_info info;

    turning = another_engine();
    OK(csn_sandbox_open(turning, "slow", &again, err));
    OK(csn_sandbox_stop(box, 0, err));
    OK(csn_sandbox_start(box, err)); /* the other engine's connection is gone */
    keeper = keeper_of(box);
    CHECK(kill(keeper, SIGSTOP) == 0);
    BEGUN(csn_sandbox_set_labels_async(again, ARGV("a=b"), on_done, &h[0], err));
    BEGUN(csn_sandbox_stop_async(again, 0, on_done, &h[1], err));
    BEGUN(csn_sandbox_delete_async(again, on_done, &h[2], err));
    check_others_go_on(turning, &h[0]);
    CHECK(kill(keeper, SIGCONT) == 0);
    for (size_t i = 0; i < 3; i++) {
        CHECK(until(is_heard, &h[i]));
        CHECK_INT(h[i].result, CSN_OK);
    }
    OK(csn_sandbox_inspect(again, &info, err));
    CHECK_INT(info.state, CSN_STATE_DELETED);
    csn_sandbox_free(again);
    csn_engine_free(turning);
    CHECK_INT(count_entries("boxes"), 0);
}

static int lock_of(csn_sandbox *box)
{
    char path[512];
    int fd;

    (void) snprintf(path, sizeof(path), "%s/boxes/%s", the_state(), csn_sandbox_id(box));
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    return fd;
}

/* The directory of a sandbox is locked for as long as somebody changes it. */
TEST(a_lock_that_others_hold_is_waited_for_in_turns_of_the_loop)
{
    csn_sandbox *box = a_sandbox(.is_detached = 1);
    heard labels = { 0 }, start = { 0 };
    int lock;

    turning = the_engine();
    lock = lock_of(box);
    BEGUN(csn_sandbox_set_labels_async(box, ARGV("a=b"), on_done, &labels, err));
    check_others_go_on(turning, &labels);
    CHECK(close(lock) == 0);
    CHECK(until(is_heard, &labels));
    CHECK_INT(labels.result, CSN_OK);

    OK(csn_sandbox_stop(box, 0, err));
    lock = lock_of(box);
    BEGUN(csn_sandbox_start_async(box, on_done, &start, err));
    check_others_go_on(turning, &start);
    CHECK(close(lock) == 0);
    CHECK(until(is_heard, &start));
    CHECK_INT(start.result, CSN_OK);
    OK(csn_sandbox_delete(box, err));
}

TEST(who_waits_for_a_lock_may_give_up)
{
    csn_sandbox *box = a_sandbox(.is_detached = 1);
    heard h = { 0 };
    int lock = lock_of(box);

    turning = the_engine();
    csn_op *op = BEGUN(csn_sandbox_set_labels_async(box, ARGV("a=b"), on_done, &h, err));
    csn_op_cancel(op);
    CHECK(until(is_heard, &h));
    CHECK_INT(h.result, CSN_E_CANCELLED);
    op = BEGUN(csn_sandbox_fork_async(box, NULL, on_box, &h, err));
    csn_op_drop(op);
    CHECK(close(lock) == 0);
    OK(csn_sandbox_delete(box, err));
}

/* Without a door: its keeper is killed, and its end is awaited while others go on. */
TEST(a_sandbox_attached_elsewhere_is_deleted_in_turns_of_the_loop)
{
    an_ephemeral(.name = "theirs");
    csn_sandbox *seen = NULL;
    heard h = { 0 };

    turning = another_engine();
    OK(csn_sandbox_open(turning, "theirs", &seen, err));
    BEGUN(csn_sandbox_delete_async(seen, on_done, &h, err));
    CHECK(until(is_heard, &h));
    CHECK_INT(h.result, CSN_OK);
    csn_sandbox_free(seen);
    csn_engine_free(turning);
    CHECK_INT(count_entries("boxes"), 0);
}

/* The first create makes the machine's base layer, which takes a while. */
static void forget_the_base(void)
{
    char path[4200];
    DIR *dir;

    (void) snprintf(path, sizeof(path), "%s/layers", the_state());
    dir = opendir(path);
    CHECK(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        if (strncmp(e->d_name, "host-", 5) != 0)
            continue;
        (void) snprintf(path, sizeof(path), "%s/layers/%s", the_state(), e->d_name);
        csn_test_remove(path);
    }
    closedir(dir);
    CHECK_INT(count_entries("layers"), 0);
}

TEST(creates_wait_for_the_base_layer_in_turns_of_the_loop)
{
    csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1 };
    heard first = { 0 }, second = { 0 }, dropped = { 0 };
    csn_op *op;

    turning = the_engine();
    (void) an_ephemeral();
    forget_the_base();
    BEGUN(csn_sandbox_create_async(turning, &o, on_box, &first, err));
    op = BEGUN(csn_sandbox_create_async(turning, &o, on_box, &second, err));
    csn_op_drop(BEGUN(csn_sandbox_create_async(turning, &o, on_box, &dropped, err)));
    CHECK_INT(count_sandboxes(turning), 1); /* nothing is claimed before it stands */
    csn_op_cancel(op);
    CHECK(until(is_heard, &second));
    CHECK_INT(second.result, CSN_E_CANCELLED);
    CHECK(until(is_heard, &first));
    CHECK_INT(first.result, CSN_OK);
    OK(csn_sandbox_delete(first.box, err));
    csn_sandbox_free(first.box);
    CHECK_INT(dropped.n, 0);
}

TEST(an_engine_may_close_while_the_base_layer_is_made)
{
    csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1 };
    heard h = { 0 };

    (void) the_engine();
    forget_the_base();
    turning = another_engine();
    BEGUN(csn_sandbox_create_async(turning, &o, on_box, &h, err));
    csn_engine_free(turning);
    CHECK_INT(h.result, CSN_E_CANCELLED);
    CHECK_INT(count_entries("boxes"), 0);
}
