/* SPDX-License-Identifier: Apache-2.0 */
#include "work.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "csn_test.h"
#include "fault.h"
#include "time.h"

typedef struct piece {
    csn_work work;
    int number;
    int pipe_fd; /* -1, or: waits for a byte from it */
    pthread_t thread;
    csn_workers *workers;
    struct piece *next; /* started when this one is done */
} piece;

static pthread_t loop_thread;
static int order[64], n_done;

static void run(csn_work *work)
{
    piece *p = csn_container_of(work, piece, work);
    sigset_t blocked;
    char byte;

    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &blocked) == 0 && sigismember(&blocked, SIGCHLD));
    if (p->pipe_fd >= 0)
        CHECK_INT(read(p->pipe_fd, &byte, 1), 1);
    p->thread = pthread_self();
}

static void done(csn_work *work)
{
    piece *p = csn_container_of(work, piece, work);

    CHECK(pthread_equal(pthread_self(), loop_thread));
    order[n_done++] = p->number;
    if (p->next)
        CHECK_INT(csn_work_start(p->workers, &p->next->work, run, done), 0);
}

static void turn_until(csn_loop *loop, int n)
{
    int64_t deadline = csn_deadline_in_ms(10000 * csn_test_slow());

    while (n_done < n) {
        CHECK(!csn_deadline_passed(deadline));
        CHECK(csn_loop_run_once(loop, deadline) >= 0);
    }
}

static void begin(csn_loop **loop, csn_workers **workers, unsigned n_threads)
{
    n_done = 0;
    loop_thread = pthread_self();
    CHECK_INT(csn_loop_new(loop), 0);
    CHECK_INT(csn_workers_new(*loop, n_threads, workers), 0);
}

TEST(work_is_done_on_a_thread_and_told_in_the_loop)
{
    csn_loop *loop;
    csn_workers *workers;
    piece p = { .number = 7, .pipe_fd = -1 };

    begin(&loop, &workers, 4);
    CHECK_INT(csn_work_start(workers, &p.work, run, done), 0);
    CHECK_INT(n_done, 0);
    turn_until(loop, 1);
    CHECK_INT(order[0], 7);
    CHECK(!pthread_equal(p.thread, loop_thread));
    csn_workers_free(workers);
    csn_loop_free(loop);
}

TEST(one_thread_is_a_queue)
{
    csn_loop *loop;
    csn_workers *workers;
    piece p[20];

    begin(&loop, &workers, 1);
    for (int i = 0; i < 20; i++) {
        p[i] = (piece){ .number = i, .pipe_fd = -1 };
        CHECK_INT(csn_work_start(workers, &p[i].work, run, done), 0);
    }
    turn_until(loop, 20);
    for (int i = 0; i < 20; i++)
        CHECK_INT(order[i], i);
    csn_workers_free(workers);
    csn_loop_free(loop);
}

TEST(what_waits_holds_up_nobody)
{
    csn_loop *loop;
    csn_workers *workers;
    piece slow = { .number = 1 }, fast = { .number = 2, .pipe_fd = -1 };
    int ends[2];

    begin(&loop, &workers, 2);
    CHECK_INT(pipe(ends), 0);
    slow.pipe_fd = ends[0];
    CHECK_INT(csn_work_start(workers, &slow.work, run, done), 0);
    CHECK_INT(csn_work_start(workers, &fast.work, run, done), 0);
    turn_until(loop, 1);
    CHECK_INT(order[0], 2);
    CHECK_INT(write(ends[1], "x", 1), 1);
    turn_until(loop, 2);
    CHECK_INT(order[1], 1);
    csn_workers_free(workers);
    csn_loop_free(loop);
    close(ends[0]);
    close(ends[1]);
}

TEST(threads_that_have_nothing_to_do_can_rest)
{
    csn_loop *loop;
    csn_workers *workers;
    piece p = { .number = 1, .pipe_fd = -1 };

    begin(&loop, &workers, 4);
    CHECK(!csn_workers_rest(workers));
    for (int i = 1; i <= 3; i++) {
        CHECK_INT(csn_work_start(workers, &p.work, run, done), 0);
        CHECK(!csn_workers_rest(workers)); /* it was not told yet */
        turn_until(loop, i);
        CHECK(csn_workers_rest(workers));
        CHECK(!csn_workers_rest(workers));
    }
    csn_workers_free(workers);
    csn_loop_free(loop);
}

TEST(freeing_runs_what_is_left_and_what_that_starts)
{
    csn_loop *loop;
    csn_workers *workers;
    piece last = { .number = 2, .pipe_fd = -1 }, first = { .number = 1, .pipe_fd = -1 };

    begin(&loop, &workers, 4);
    first.workers = workers;
    first.next = &last;
    CHECK_INT(csn_work_start(workers, &first.work, run, done), 0);
    csn_workers_free(workers);
    CHECK_INT(n_done, 2);
    CHECK_INT(order[1], 2);
    csn_workers_free(NULL);
    csn_loop_free(loop);
}

#ifdef CSN_TEST_HOOKS
static void run_unwatched(csn_work *work)
{
    csn_container_of(work, piece, work)->thread = pthread_self();
}

TEST(without_a_thread_the_work_is_done_all_the_same)
{
    csn_loop *loop;
    csn_workers *workers;
    piece p = { .number = 1, .pipe_fd = -1 };
    int r = -1;

    for (long k = 1; r < 0; k++) {
        begin(&loop, &workers, 4);
        csn_fault_arm(k);
        r = csn_work_start(workers, &p.work, run_unwatched, done);
        bool was_thread = csn_fault_fired() && strcmp(csn_fault_fired(), "pthread_create") == 0;
        csn_fault_arm(0);
        if (r == 0)
            turn_until(loop, 1);
        if (was_thread)
            CHECK(pthread_equal(p.thread, loop_thread));
        csn_workers_free(workers);
        csn_loop_free(loop);
    }
}
#endif
