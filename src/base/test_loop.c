#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/loop.h"
#include "base/time.h"
#include "csn_test.h"

static csn_loop *a_loop(void)
{
    csn_loop *loop = NULL;

    CHECK_INT(csn_loop_new(&loop), 0);
    return loop;
}

struct ear {
    csn_source *src, *other;
    int fds[2];
    char *log;
    char name;
};

static void hear(csn_source *src, uint32_t events, void *user)
{
    struct ear *ear = user;
    char byte;

    CHECK(src == ear->src);
    CHECK(events & EPOLLIN);
    CHECK_INT(csn_read(ear->fds[0], &byte, 1), 1);
    ear->log[strlen(ear->log)] = ear->name;
}

static void listen_on(csn_loop *loop, struct ear *ear, csn_loop_cb *cb, char name, char *log)
{
    ear->name = name;
    ear->log = log;
    CHECK_INT(pipe2(ear->fds, O_CLOEXEC), 0);
    CHECK_INT(csn_loop_add(loop, ear->fds[0], EPOLLIN, cb, ear, &ear->src), 0);
}

static void speak(struct ear *ear)
{
    CHECK_INT(csn_write_all(ear->fds[1], "x", 1), 0);
}

static void forget(struct ear *ear)
{
    ear->src = csn_source_remove(ear->src);
    csn_close(&ear->fds[0]);
    csn_close(&ear->fds[1]);
}

TEST(events_come_in_the_order_in_which_they_became_ready)
{
    csn_auto(loop) csn_loop *loop = a_loop();
    struct ear ears[3] = { 0 };
    char log[16] = "";

    for (int i = 0; i < 3; i++)
        listen_on(loop, &ears[i], hear, (char) ('a' + i), log);
    speak(&ears[2]);
    speak(&ears[0]);
    speak(&ears[1]);
    CHECK_INT(csn_loop_run_once(loop, CSN_NO_DEADLINE), 3);
    CHECK_STR(log, "cab");
    CHECK_INT(csn_loop_run_once(loop, csn_now_ns()), 0);
    for (int i = 0; i < 3; i++)
        forget(&ears[i]);
}

static void hear_and_remove_other(csn_source *src, uint32_t events, void *user)
{
    struct ear *ear = user;

    hear(src, events, user);
    ear->other = csn_source_remove(ear->other);
    ear->src = csn_source_remove(ear->src);
}

TEST(a_callback_may_remove_others_and_itself)
{
    csn_auto(loop) csn_loop *loop = a_loop();
    struct ear a = { 0 }, b = { 0 };
    char log[16] = "";

    listen_on(loop, &a, hear_and_remove_other, 'a', log);
    listen_on(loop, &b, hear, 'b', log);
    a.other = b.src;
    speak(&a);
    speak(&b);
    CHECK_INT(csn_loop_run_once(loop, CSN_NO_DEADLINE), 1);
    CHECK_STR(log, "a");
    CHECK_INT(csn_loop_run_once(loop, csn_now_ns()), 0);
    b.src = NULL;
    forget(&a);
    forget(&b);
}

TEST(a_source_can_be_muted)
{
    csn_auto(loop) csn_loop *loop = a_loop();
    struct ear a = { 0 };
    char log[16] = "";

    listen_on(loop, &a, hear, 'a', log);
    CHECK_INT(csn_source_mod(a.src, 0), 0);
    speak(&a);
    CHECK_INT(csn_loop_run_once(loop, csn_now_ns()), 0);
    CHECK_INT(csn_source_mod(a.src, EPOLLIN), 0);
    CHECK_INT(csn_loop_run_once(loop, csn_now_ns()), 1);
    CHECK_INT(csn_source_fd(a.src), a.fds[0]);
    forget(&a);
}

static void note_timer(csn_timer *timer, void *user)
{
    char *log = user;

    log[strlen(log)] = (char) ('0' + (timer->deadline_ns % 10));
}

TEST(timers_fire_once_and_in_order)
{
    csn_auto(loop) csn_loop *loop = a_loop();
    csn_timer timers[4] = { 0 };
    char log[16] = "";
    int64_t base = csn_now_ns() / 10 * 10 + 2 * CSN_NS_PER_MS;
    const int order[] = { 3, 1, 2, 0 };

    for (int i = 0; i < 4; i++)
        CHECK_INT(csn_timer_set(loop, &timers[i], base + order[i], note_timer, log), 0);
    csn_timer_cancel(&timers[2]);
    csn_timer_cancel(&timers[2]);
    while (strlen(log) < 3)
        CHECK(csn_loop_run_once(loop, csn_deadline_in_ms(5000)) >= 0);
    CHECK_STR(log, "013");
    CHECK(csn_now_ns() >= base + 3);
    CHECK_INT(csn_loop_run_once(loop, csn_deadline_in_ms(3)), 0);
}

TEST(a_timer_can_be_moved)
{
    csn_auto(loop) csn_loop *loop = a_loop();
    csn_timer t = { 0 };
    char log[16] = "";

    CHECK_INT(csn_timer_set(loop, &t, csn_deadline_in_ms(60000), note_timer, log), 0);
    CHECK_INT(csn_timer_set(loop, &t, csn_deadline_in_ms(1), note_timer, log), 0);
    CHECK_INT(csn_loop_run_once(loop, csn_deadline_in_ms(5000)), 1);
    CHECK_INT(strlen(log), 1);
    CHECK_INT(csn_timer_set(loop, &t, CSN_NO_DEADLINE, note_timer, log), 0);
    CHECK(!t.loop);
}

static void again_at_once(csn_timer *timer, void *user)
{
    int *count = user;

    (*count)++;
    CHECK_INT(csn_timer_set(timer->loop ? timer->loop : *(csn_loop **) (count + 2), timer, 1,
                            again_at_once, user),
              0);
}

TEST(a_timer_set_to_the_past_runs_once_per_round)
{
    csn_auto(loop) csn_loop *loop = a_loop();
    struct {
        int count, pad;
        csn_loop *loop;
    } user = { .loop = loop };
    csn_timer t = { 0 };

    CHECK_INT(csn_timer_set(loop, &t, 1, again_at_once, &user.count), 0);
    for (int i = 1; i <= 3; i++) {
        CHECK_INT(csn_loop_run_once(loop, csn_deadline_in_ms(5000)), 1);
        CHECK_INT(user.count, i);
    }
}

static void free_it(csn_timer *timer, void *user)
{
    (void) user;
    free(timer);
}

TEST(a_callback_may_free_its_timer)
{
    csn_auto(loop) csn_loop *loop = a_loop();

    for (int i = 0; i < 3; i++) {
        csn_timer *t = calloc(1, sizeof(*t));
        CHECK_INT(csn_timer_set(loop, t, 1, free_it, NULL), 0);
    }
    CHECK_INT(csn_loop_run_once(loop, csn_deadline_in_ms(5000)), 3);
}

static csn_loop *loop_to_wake;

static void wake_it(int sig)
{
    (void) sig;
    csn_loop_wake(loop_to_wake); /* NOLINT(bugprone-signal-handler): that it may is what is tested */
}

TEST(a_wake_from_a_signal_handler_ends_the_wait)
{
    csn_auto(loop) csn_loop *loop = a_loop();

    loop_to_wake = loop;
    CHECK(signal(SIGUSR1, wake_it) != SIG_ERR);
    CHECK_INT(raise(SIGUSR1), 0);
    CHECK_INT(csn_loop_run_once(loop, CSN_NO_DEADLINE), 0);
    CHECK(csn_loop_woken(loop));
    CHECK(!csn_loop_woken(loop));
}

TEST(the_loop_s_own_descriptor_says_there_is_work)
{
    csn_auto(loop) csn_loop *loop = a_loop();
    csn_timer t = { 0 };
    char log[16] = "";

    CHECK_INT(csn_wait_fd(csn_loop_fd(loop), EPOLLIN, csn_now_ns()), 0);
    CHECK_INT(csn_timer_set(loop, &t, csn_deadline_in_ms(1), note_timer, log), 0);
    CHECK_INT(csn_wait_fd(csn_loop_fd(loop), EPOLLIN, csn_deadline_in_ms(5000)), 1);
    CHECK_INT(csn_loop_run_once(loop, csn_now_ns()), 1);
    CHECK_INT(csn_wait_fd(csn_loop_fd(loop), EPOLLIN, csn_now_ns()), 0);
}

static void stop_it(csn_timer *timer, void *user)
{
    (void) timer;
    csn_loop_stop(user, 42);
}

TEST(run_ends_with_the_value_of_stop)
{
    csn_auto(loop) csn_loop *loop = a_loop();
    csn_timer t = { 0 };

    CHECK_INT(csn_timer_set(loop, &t, 1, stop_it, loop), 0);
    CHECK_INT(csn_loop_run(loop), 42);
}
