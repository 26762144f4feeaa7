/* Theory of operation: everything is a source in one epoll set, also the loop's own two: an eventfd that csn_loop_wake()
 * writes, and a timerfd (made when the first timer is) set to the nearest deadline. So the epoll descriptor is
 * readable exactly when there is something to do, and can be nested in somebody else's loop. Events are delivered in the order in which the
 * kernel reports them. A source that is removed while events are being delivered is only marked; it is freed when
 * the outermost delivery ends, since an event in hand may still point at it. */
#include "loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "fault.h"
#include "fd.h"
#include "time.h"

#define MAX_EVENTS 64

struct csn_source {
    csn_list link;
    csn_loop *loop;
    int fd;
    csn_loop_cb *cb; /* NULL: removed */
    void *user;
};

struct csn_loop {
    int epoll_fd, wake_fd, timer_fd;
    csn_list sources, removed;
    csn_list timers;      /* nearest deadline first */
    int64_t timer_set_to; /* what the timerfd is set to */
    unsigned depth;       /* deliveries on the stack */
    bool is_stopped, was_woken;
    int stop_value;
};

static void on_wake(csn_source *src, uint32_t events, void *user)
{
    csn_loop *loop = user;
    uint64_t count;

    (void) src;
    (void) events;
    (void) csn_read(loop->wake_fd, &count, sizeof(count)); /* EAGAIN: somebody emptied it first */
    loop->was_woken = true;
}

static void on_timer_fd(csn_source *src, uint32_t events, void *user)
{
    csn_loop *loop = user;
    uint64_t count;

    (void) src;
    (void) events;
    (void) csn_read(loop->timer_fd, &count,
                    sizeof(count)); /* the timers themselves say what is due */
    loop->timer_set_to = CSN_NO_DEADLINE;
}

int csn_loop_new(csn_loop **ret_loop)
{
    csn_auto(loop) csn_loop *loop = csn_calloc(1, sizeof(*loop));

    if (!loop)
        return -ENOMEM;
    csn_list_init(&loop->sources);
    csn_list_init(&loop->removed);
    csn_list_init(&loop->timers);
    loop->epoll_fd = loop->wake_fd = loop->timer_fd = -1;
    loop->timer_set_to = CSN_NO_DEADLINE;
    if (csn_fault_as("epoll_create", EMFILE) < 0)
        return -EMFILE;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0)
        return -errno;
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->wake_fd < 0)
        return -errno;
    int r = csn_loop_add(loop, loop->wake_fd, EPOLLIN, on_wake, loop, NULL);
    if (r < 0)
        return r;
    *ret_loop = loop;
    loop = NULL;
    return 0;
}

static void free_all(csn_list *sources)
{
    csn_list *node;

    while ((node = csn_list_pop(sources)))
        free(csn_list_entry(node, csn_source, link));
}

csn_loop *csn_loop_free(csn_loop *loop)
{
    csn_list *node;

    if (!loop)
        return NULL;
    while ((node = csn_list_pop(&loop->timers)))
        csn_list_entry(node, csn_timer, link)->loop = NULL;
    free_all(&loop->sources);
    free_all(&loop->removed);
    csn_close(&loop->timer_fd);
    csn_close(&loop->wake_fd);
    csn_close(&loop->epoll_fd);
    free(loop);
    return NULL;
}

void csn_loop_auto(csn_loop **loop)
{
    int saved = errno;

    *loop = csn_loop_free(*loop);
    errno = saved;
}

int csn_loop_fd(const csn_loop *loop)
{
    return loop->epoll_fd;
}

int csn_loop_add(csn_loop *loop, int fd, uint32_t events, csn_loop_cb *cb, void *user,
                 csn_source **ret_src)
{
    if (csn_fault_as("epoll_ctl", ENOSPC) < 0)
        return -ENOSPC;
    csn_source *src = csn_calloc(1, sizeof(*src));
    if (!src)
        return -ENOMEM;
    struct epoll_event ev = { .events = events, .data.ptr = src };
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0) {
        int r = -errno;
        free(src);
        return r;
    }
    *src = (csn_source){ .loop = loop, .fd = fd, .cb = cb, .user = user };
    csn_list_append(&loop->sources, &src->link);
    if (ret_src)
        *ret_src = src;
    return 0;
}

int csn_source_mod(csn_source *src, uint32_t events)
{
    struct epoll_event ev = { .events = events, .data.ptr = src };

    return epoll_ctl(src->loop->epoll_fd, EPOLL_CTL_MOD, src->fd, &ev) < 0 ? -errno : 0;
}

int csn_source_fd(const csn_source *src)
{
    return src->fd;
}

csn_source *csn_source_remove(csn_source *src)
{
    if (!src || !src->cb)
        return NULL;
    (void) epoll_ctl(src->loop->epoll_fd, EPOLL_CTL_DEL, src->fd,
                     NULL); /* fails if the fd was closed: gone too */
    csn_list_remove(&src->link);
    src->cb = NULL;
    if (src->loop->depth > 0)
        csn_list_append(&src->loop->removed, &src->link);
    else
        free(src);
    return NULL;
}

static int make_timer_fd(csn_loop *loop)
{
    if (loop->timer_fd >= 0)
        return 0;
    if (csn_fault_as("timerfd_create", EMFILE) < 0)
        return -EMFILE;
    csn_auto(fd) int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    int r = csn_loop_add(loop, fd, EPOLLIN, on_timer_fd, loop, NULL);
    if (r < 0)
        return r;
    loop->timer_fd = csn_take_fd(&fd);
    return 0;
}

/* Only ever moved forward here: a timer that was cancelled leaves one needless wake behind, which is cheaper than
 * a system call per cancelled timer. */
static int set_timer_fd(csn_loop *loop)
{
    if (csn_list_empty(&loop->timers))
        return 0;
    int64_t first = csn_list_entry(loop->timers.next, csn_timer, link)->deadline_ns;
    if (first >= loop->timer_set_to)
        return 0;
    int64_t at = first > 0 ? first : 1; /* 0 would switch it off */
    struct itimerspec its = { .it_value = { .tv_sec = (time_t) (at / CSN_NS_PER_S),
                                            .tv_nsec = (long) (at % CSN_NS_PER_S) } };
    if (timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &its, NULL) < 0)
        return -errno;
    loop->timer_set_to = first;
    return 0;
}

int csn_timer_set(csn_loop *loop, csn_timer *timer, int64_t deadline_ns, csn_timer_cb *cb,
                  void *user)
{
    csn_list *at;

    csn_timer_cancel(timer);
    if (deadline_ns == CSN_NO_DEADLINE)
        return 0;
    int r = make_timer_fd(loop);
    if (r < 0)
        return r;
    /* From the far end: most timers are set to "now plus the same as the others". */
    for (at = loop->timers.prev; at != &loop->timers; at = at->prev)
        if (csn_list_entry(at, csn_timer, link)->deadline_ns <= deadline_ns)
            break;
    timer->loop = loop;
    timer->deadline_ns = deadline_ns;
    timer->cb = cb;
    timer->user = user;
    csn_list_insert(at->next, &timer->link);
    r = set_timer_fd(loop);
    if (r < 0)
        csn_timer_cancel(timer);
    return r;
}

void csn_timer_cancel(csn_timer *timer)
{
    if (!timer->loop)
        return;
    csn_list_remove(&timer->link);
    timer->loop = NULL;
}

static csn_timer *first_due(csn_loop *loop, int64_t now)
{
    csn_list *node = csn_list_first(&loop->timers);
    csn_timer *timer = node ? csn_list_entry(node, csn_timer, link) : NULL;

    return timer && timer->deadline_ns <= now ? timer : NULL;
}

static unsigned count_due(csn_loop *loop, int64_t now)
{
    unsigned n = 0;

    csn_list_foreach (node, &loop->timers) {
        if (csn_list_entry(node, csn_timer, link)->deadline_ns > now)
            break;
        n++;
    }
    return n;
}

/* As many as are due now and no more: a callback that sets its timer to the past again must not keep us here. A
 * callback may free its timer, so it isn't looked at after. */
static int run_timers(csn_loop *loop)
{
    csn_timer *timer;
    int n_run = 0;

    if (csn_list_empty(&loop->timers))
        return 0;
    int64_t now = csn_now_ns();
    for (unsigned n = count_due(loop, now); n > 0 && (timer = first_due(loop, now)); n--) {
        csn_timer_cancel(timer);
        timer->cb(timer, timer->user);
        n_run++;
    }
    int r = set_timer_fd(loop);
    return r < 0 ? r : n_run;
}

static int deliver(const struct epoll_event *events, int n_events)
{
    int n_run = 0;

    for (int i = 0; i < n_events; i++) {
        csn_source *src = events[i].data.ptr;
        if (!src->cb)
            continue;
        n_run += src->cb != on_wake && src->cb != on_timer_fd;
        src->cb(src, events[i].events, src->user);
    }
    return n_run;
}

int csn_loop_run_once(csn_loop *loop, int64_t deadline_ns)
{
    struct epoll_event events[MAX_EVENTS];
    int n;

    do {
        n = epoll_wait(loop->epoll_fd, events, MAX_EVENTS, csn_remaining_ms(deadline_ns));
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    loop->depth++;
    int n_run = deliver(events, n);
    int r = run_timers(loop);
    loop->depth--;
    if (loop->depth == 0)
        free_all(&loop->removed);
    return r < 0 ? r : n_run + r;
}

int csn_loop_run(csn_loop *loop)
{
    while (!loop->is_stopped) {
        int r = csn_loop_run_once(loop, CSN_NO_DEADLINE);
        if (r < 0)
            return r;
    }
    loop->is_stopped = false;
    return loop->stop_value;
}

void csn_loop_stop(csn_loop *loop, int value)
{
    loop->is_stopped = true;
    loop->stop_value = value;
}

void csn_loop_wake(csn_loop *loop)
{
    int saved = errno;
    uint64_t one = 1;

    (void) csn_write(loop->wake_fd, &one, sizeof(one)); /* EAGAIN: it is awake already */
    errno = saved;
}

bool csn_loop_woken(csn_loop *loop)
{
    bool was_woken = loop->was_woken;

    loop->was_woken = false;
    return was_woken;
}
