/* SPDX-License-Identifier: Apache-2.0 */
#include "work.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fault.h"
#include "fd.h"

enum { THREADS_MAX = 8, STACK_BYTES = 1 << 20 };

struct csn_workers {
    csn_loop *loop;
    csn_source *src;
    int done_fd; /* -1: nothing was started yet */
    unsigned n_wanted, n_threads;
    size_t n_unfinished; /* started, and `done` not called; of the loop's thread alone */
    pthread_t threads[THREADS_MAX];

    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t has_more, has_finished;
    csn_list waiting, finished;
    unsigned n_idle;
    bool is_ending;
};

/* Can't fail but for a full count, and then it is readable: no call to be failed by a test, nobody would hear of it. */
static void wake_loop(csn_workers *w)
{
    const uint64_t one = 1;

    (void) csn_write(w->done_fd, &one, sizeof(one));
}

static void *thread_main(void *arg)
{
    csn_workers *w = arg;

    (void) pthread_mutex_lock(&w->lock); /* can't fail: neither recursive nor robust */
    for (;;) {
        csn_list *node = csn_list_pop(&w->waiting);

        if (node) {
            csn_work *work = csn_list_entry(node, csn_work, link);

            (void) pthread_mutex_unlock(&w->lock);
            work->run(work);
            (void) pthread_mutex_lock(&w->lock);
            csn_list_append(&w->finished, node);
            (void) pthread_cond_signal(&w->has_finished);
            wake_loop(w);
        } else if (w->is_ending) {
            break;
        } else {
            w->n_idle++;
            (void) pthread_cond_wait(&w->has_more, &w->lock);
            w->n_idle--;
        }
    }
    (void) pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Signals are the host program's: none is delivered here. */
static int start_thread(csn_workers *w)
{
    sigset_t all, before;
    pthread_attr_t attr;
    int r = csn_fault_as("pthread_create", EAGAIN);

    if (r < 0)
        return r;
    (void) sigfillset(&all);
    (void) pthread_attr_init(&attr);
    (void) pthread_attr_setstacksize(&attr, STACK_BYTES); /* else the default */
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    r = -pthread_create(&w->threads[w->n_threads], &attr, thread_main, w);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void) pthread_attr_destroy(&attr);
    if (r == 0)
        w->n_threads++;
    return r;
}

static void tell_finished(csn_workers *w)
{
    for (;;) {
        (void) pthread_mutex_lock(&w->lock);
        csn_list *node = csn_list_pop(&w->finished);
        (void) pthread_mutex_unlock(&w->lock);
        if (!node)
            return;
        csn_work *work = csn_list_entry(node, csn_work, link);
        w->n_unfinished--;
        work->done(work);
    }
}

static void on_finished(csn_source *src, uint32_t events, void *user)
{
    csn_workers *w = user;
    uint64_t count;

    (void) src;
    (void) events;
    (void) csn_read(w->done_fd, &count, sizeof(count)); /* EAGAIN: told already */
    tell_finished(w);
}

static int open_events(csn_workers *w)
{
    int r = csn_fault_as("eventfd", EMFILE);

    if (r < 0 || w->done_fd >= 0)
        return r;
    w->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->done_fd < 0)
        return -errno;
    r = csn_loop_add(w->loop, w->done_fd, EPOLLIN, on_finished, w, &w->src);
    if (r < 0)
        csn_close(&w->done_fd);
    return r;
}

int csn_workers_new(csn_loop *loop, unsigned n_threads, csn_workers **ret_workers)
{
    csn_workers *w = csn_calloc(1, sizeof(*w));

    if (!w)
        return -ENOMEM;
    w->loop = loop;
    w->done_fd = -1;
    w->n_wanted = n_threads < THREADS_MAX ? n_threads : THREADS_MAX;
    (void) pthread_mutex_init(&w->lock, NULL); /* can't fail on Linux, nor can the next two */
    (void) pthread_cond_init(&w->has_more, NULL);
    (void) pthread_cond_init(&w->has_finished, NULL);
    csn_list_init(&w->waiting);
    csn_list_init(&w->finished);
    *ret_workers = w;
    return 0;
}

int csn_work_start(csn_workers *w, csn_work *work, void (*run)(csn_work *work),
                   void (*done)(csn_work *work))
{
    bool needs_thread;
    int r = open_events(w);

    if (r < 0)
        return r;
    *work = (csn_work){ .run = run, .done = done };
    w->n_unfinished++;
    (void) pthread_mutex_lock(&w->lock);
    csn_list_append(&w->waiting, &work->link);
    needs_thread = w->n_idle == 0 && w->n_threads < w->n_wanted;
    (void) pthread_cond_signal(&w->has_more);
    (void) pthread_mutex_unlock(&w->lock);
    if (!needs_thread || start_thread(w) == 0 || w->n_threads > 0)
        return 0;
    csn_list_remove(&work->link); /* nobody else is there */
    work->run(work);
    csn_list_append(&w->finished, &work->link);
    wake_loop(w);
    return 0;
}

static void await_finished(csn_workers *w)
{
    (void) pthread_mutex_lock(&w->lock);
    while (csn_list_empty(&w->finished))
        (void) pthread_cond_wait(&w->has_finished, &w->lock);
    (void) pthread_mutex_unlock(&w->lock);
}

static void end_threads(csn_workers *w)
{
    (void) pthread_mutex_lock(&w->lock);
    w->is_ending = true;
    (void) pthread_cond_broadcast(&w->has_more);
    (void) pthread_mutex_unlock(&w->lock);
    while (w->n_threads > 0)
        (void) pthread_join(w->threads[--w->n_threads], NULL); /* they end: nothing is left to do */
    w->is_ending = false;
}

bool csn_workers_rest(csn_workers *w)
{
    bool has_threads = w->n_threads > 0 && w->n_unfinished == 0;

    if (has_threads)
        end_threads(w);
    return has_threads;
}

csn_workers *csn_workers_free(csn_workers *w)
{
    if (!w)
        return NULL;
    while (w->n_unfinished > 0) {
        await_finished(w);
        tell_finished(w);
    }
    end_threads(w);
    csn_source_remove(w->src);
    csn_close(&w->done_fd);
    (void) pthread_cond_destroy(&w->has_more);
    (void) pthread_cond_destroy(&w->has_finished);
    (void) pthread_mutex_destroy(&w->lock);
    free(w);
    return NULL;
}
