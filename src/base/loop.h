/* One thread around epoll: descriptors, timers and a wake from outside. */
#ifndef CSN_BASE_LOOP_H
#define CSN_BASE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "list.h"

typedef struct csn_loop csn_loop;
typedef struct csn_source csn_source;
typedef struct csn_timer csn_timer;

/* `events` are EPOLL… bits that are ready. Runs inside csn_loop_run_once(); may add, change and remove any source
 * (its own too), set timers and stop the loop, but not free it. */
typedef void csn_loop_cb(csn_source *src, uint32_t events, void *user);
typedef void csn_timer_cb(csn_timer *timer, void *user);

/* Embedded in the caller's struct; zero is a timer that isn't set. Borrowed by the loop while it is set. */
struct csn_timer {
    csn_list link;
    csn_loop *loop; /* NULL: not set */
    int64_t deadline_ns;
    csn_timer_cb *cb;
    void *user;
};

int csn_loop_new(csn_loop **ret_loop);
csn_loop *csn_loop_free(
    csn_loop *loop); /* always NULL; sources that were left are freed, their fds aren't closed */
void csn_loop_auto(csn_loop **loop);

/* A descriptor that is readable whenever csn_loop_run_once() has something to do: for nesting in another loop. */
int csn_loop_fd(const csn_loop *loop);

/* Watches fd (borrowed: remove the source before closing it). `events`: EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLPRI,
 * EPOLLET; 0 still reports EPOLLERR and EPOLLHUP. ret_src may be NULL when the source lives as long as the loop. */
int csn_loop_add(csn_loop *loop, int fd, uint32_t events, csn_loop_cb *cb, void *user,
                 csn_source **ret_src);
int csn_source_mod(csn_source *src, uint32_t events);
int csn_source_fd(const csn_source *src);

/* Takes the source out and frees it; NULL is fine; always NULL. Events of this round that were not delivered yet
 * are dropped. */
csn_source *csn_source_remove(csn_source *src);

/* Sets (or moves) a timer: the callback runs once, from csn_loop_run_once(), at or after deadline_ns;
 * CSN_NO_DEADLINE cancels. */
int csn_timer_set(csn_loop *loop, csn_timer *timer, int64_t deadline_ns, csn_timer_cb *cb,
                  void *user);
void csn_timer_cancel(csn_timer *timer);

/* Waits until something happens or the deadline passes, then runs the callbacks in the kernel's ready order.
 * Returns how many ran (0: the deadline passed or a wake) or -errno. */
int csn_loop_run_once(csn_loop *loop, int64_t deadline_ns);

/* Runs until csn_loop_stop(): returns the value given there, or -errno. */
int csn_loop_run(csn_loop *loop);
void csn_loop_stop(csn_loop *loop, int value);

/* Ends a wait of csn_loop_run_once(). Any thread, any signal handler. */
void csn_loop_wake(csn_loop *loop);

/* True once after one or more csn_loop_wake() calls were seen. */
bool csn_loop_woken(csn_loop *loop);

#endif
