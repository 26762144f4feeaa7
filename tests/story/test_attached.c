/* SPDX-License-Identifier: Apache-2.0 */
/* Attached sandboxes go with their engine, however it ends; those that stay were made detached. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "story.h"

static csn_state state_of(csn_sandbox *box)
{
    csn_sandbox_info info;

    OK(csn_sandbox_inspect(box, &info, err));
    return info.state;
}

static void nothing_remains(void)
{
    CHECK_INT(count_entries("boxes"), 0);
    CHECK_INT(count_entries("names"), 0);
    CHECK_INT(count_entries("ids"), 0);
}

TEST(a_program_that_frees_its_engine_leaves_no_attached_sandbox)
{
    for (int i = 0; i < 2; i++) { /* the name is free again */
        (void) a_sandbox(.name = "att");
        close_the_engine();
        nothing_remains();
    }
}

TEST(a_stopped_one_goes_with_its_engine_too)
{
    csn_sandbox *box = a_sandbox(.name = "att"), *again = NULL;

    CHECK_STR(ending(sh(box, "echo kept > f")), "exit 0");
    OK(csn_sandbox_stop(box, -1, err));
    CHECK_INT(state_of(box), CSN_STATE_STOPPED);
    OK(csn_engine_gc(the_engine(), NULL, err));
    OK(csn_sandbox_open(the_engine(), "att", &again, err));
    OK(csn_sandbox_start(again, err));
    CHECK_STR(sh(again, "cat f")->out, "kept\n");
    OK(csn_sandbox_stop(again, -1, err));
    csn_sandbox_free(again);
    close_the_engine();
    nothing_remains();
}

TEST(one_that_is_deleted_while_stopped_is_let_go_of)
{
    csn_sandbox *box = a_sandbox(.name = "att");

    OK(csn_sandbox_stop(box, -1, err));
    OK(csn_sandbox_delete(box, err));
    CHECK_INT(state_of(box), CSN_STATE_DELETED);
    nothing_remains();
}

TEST(a_detached_one_stays)
{
    csn_sandbox *box = NULL;

    (void) a_sandbox(.name = "stays", .is_detached = 1);
    close_the_engine();
    OK(csn_sandbox_open(the_engine(), "stays", &box, err));
    CHECK_INT(state_of(box), CSN_STATE_STARTED);
    OK(csn_sandbox_delete(box, err));
    csn_sandbox_free(box);
    nothing_remains();
}

/* What is given up ends in turns of the loop. */
static bool can_start(void *user)
{
    OK(csn_engine_dispatch(the_engine(), 0, err));
    return csn_sandbox_start(user, NULL) == CSN_OK;
}

TEST(a_start_that_is_given_up_removes_nothing)
{
    csn_sandbox *box = a_sandbox(.name = "att");

    CHECK_STR(ending(sh(box, "echo kept > f")), "exit 0");
    for (int i = 0; i < 5; i++) {
        OK(csn_sandbox_stop(box, -1, err));
        csn_engine_interrupt(the_engine());
        FAILS(csn_sandbox_start(box, err), CSN_E_CANCELLED);
        CHECK(until(can_start, box));
        CHECK_STR(sh(box, "cat f")->out, "kept\n");
    }
}

/* A program of its own that has one attached sandbox; killed by the caller. */
static pid_t a_program(bool is_stopped)
{
    int ready[2];
    char byte;
    pid_t pid;

    the_state();
    CHECK(pipe(ready) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        csn_engine *e = another_engine();
        csn_sandbox_options o = { .size = sizeof(o), .name = "att" };
        csn_sandbox *box = NULL;
        if (csn_sandbox_create(e, &o, &box, NULL) < 0 ||
            (is_stopped && csn_sandbox_stop(box, -1, NULL) < 0) || write(ready[1], "r", 1) != 1)
            _exit(1);
        pause();
        _exit(1);
    }
    close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    return pid;
}

static void kill_9(pid_t pid)
{
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

static bool is_empty(void *user)
{
    (void) user;
    return count_entries("boxes") == 0 && count_entries("names") == 0 && count_entries("ids") == 0;
}

TEST(kill_9_of_the_program_removes_what_runs)
{
    kill_9(a_program(false));
    CHECK(until(is_empty, NULL)); /* by its keeper: no engine is open */
}

TEST(kill_9_of_the_program_removes_what_is_stopped)
{
    csn_sandbox *box = NULL;
    csn_engine *other;
    pid_t pid = a_program(true);

    other = another_engine();
    OK(csn_engine_gc(other, NULL, err));
    OK(csn_sandbox_open(other, "att", &box, err)); /* its program lives */
    CHECK_INT(state_of(box), CSN_STATE_STOPPED);
    CHECK_INT(count_sandboxes(other), 1);
    FAILS(csn_sandbox_start(box, err), CSN_E_STATE);
    kill_9(pid);
    CHECK_INT(state_of(box), CSN_STATE_DELETED);
    CHECK_INT(count_sandboxes(other), 0);
    csn_sandbox_free(box);
    csn_engine_free(other);
    the_engine(); /* opening one sweeps */
    nothing_remains();
}

/* A killed keeper may still be on its way out when an engine looks: then the one after it sweeps. */
static bool is_swept(void *user)
{
    csn_engine_free(another_engine());
    return is_empty(user);
}

TEST(kill_9_of_program_and_keeper_leaves_nothing_either)
{
    csn_sandbox_info info;
    csn_sandbox *box = NULL;
    pid_t pid = a_program(false);

    csn_engine *other = another_engine();
    OK(csn_sandbox_open(other, "att", &box, err));
    OK(csn_sandbox_inspect(box, &info, err));
    CHECK(info.keeper_pid > 0);
    CHECK(kill(info.keeper_pid, SIGKILL) == 0);
    kill_9(pid);
    csn_sandbox_free(box);
    csn_engine_free(other);
    CHECK(until(is_swept, NULL));
}
