/* SPDX-License-Identifier: Apache-2.0 */
/* The front's end of the line to the warden.
 *
 * Theory of operation. An ask gets a serial, is put on the line or, when that is full, into a queue; its answers find it
 * again by the serial. The warden sends a connection to the sandbox along with the answer of CREATE and START: such a gift is
 * kept, a bounded number of them, for the lend that usually follows, which then costs no message at all. */
#include "server/warden.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "base/time.h"
#include "server/fds.h"
#include "warden/message.h"

enum { BUCKETS = 256, GIFTS_MAX = 64, ANSWERS_PER_TURN = 64, QUEUE_MAX = 65536 };

typedef struct call {
    csn_list link;   /* in its bucket; of a gift that is handed on: in `handing` */
    csn_list queued; /* while it waits for the line */
    uint64_t serial;
    csn_warden_done_fn *done;
    csn_warden_fd_fn *done_fd;
    csn_warden_seen_fn *seen;
    csn_warden_name_fn *name;
    void *user;
    int fd;         /* a gift that is handed on; -1: none */
    csn_ask *ask;   /* while queued */
    char id[40];    /* what it is about */
    bool is_giving; /* its answer may bring a gift */
} call;

typedef struct gift {
    csn_list link;
    int fd;
    char id[40];
} gift;

struct csn_warden {
    csn_loop *loop;
    int fd;
    csn_source *src;
    void (*on_lost)(void *user);
    void (*on_quit)(void *user);
    void *user;
    csn_list calls[BUCKETS], queue, gifts, handing;
    size_t n_queued, n_gifts;
    bool is_out_of_fds; /* the answer at hand came without its descriptor */
    uint64_t last_serial;
    csn_timer hand_timer;
};

static void gift_free(csn_warden *w, gift *g)
{
    csn_list_remove(&g->link);
    csn_close(&g->fd);
    w->n_gifts--;
    free(g);
}

static gift *gift_find(csn_warden *w, const char *id)
{
    csn_list_foreach (node, &w->gifts) {
        gift *g = csn_list_entry(node, gift, link);
        if (strcmp(g->id, id) == 0)
            return g;
    }
    return NULL;
}

static void gift_drop(csn_warden *w, const char *id)
{
    gift *g = gift_find(w, id);

    if (g)
        gift_free(w, g);
}

static void gift_keep(csn_warden *w, const char *id, int *fd)
{
    gift *g;

    gift_drop(w, id);
    if (w->n_gifts == GIFTS_MAX)
        gift_free(w, csn_list_entry(w->gifts.next, gift, link));
    g = calloc(1, sizeof(*g));
    if (!g)
        return; /* the lend will ask */
    g->fd = csn_take_fd(fd);
    (void) snprintf(g->id, sizeof(g->id), "%s", id);
    csn_list_append(&w->gifts, &g->link);
    w->n_gifts++;
}

static void call_free(csn_warden *w, call *c)
{
    if (c->ask)
        w->n_queued--;
    csn_list_remove(&c->queued);
    csn_list_remove(&c->link);
    csn_close(&c->fd);
    free(c->ask);
    free(c);
}

static void finish(csn_warden *w, call *c, int *fd, int result, const csn_error *err)
{
    csn_warden_done_fn *done = c->done;
    csn_warden_fd_fn *done_fd = c->done_fd;
    void *user = c->user;
    csn_error missing = { 0 };

    if (c->is_giving && result == CSN_OK && *fd >= 0)
        gift_keep(w, c->id, fd);
    call_free(w, c);
    if (done_fd && result == CSN_OK && *fd < 0) {
        result = w->is_out_of_fds ? csn_fds_fail(&missing)
                                  : csn_fail(&missing, CSN_E_PROTOCOL,
                                             "the warden's answer brought no descriptor");
        err = &missing;
    }
    if (done_fd)
        done_fd(result == CSN_OK ? csn_take_fd(fd) : -1, result, err, user);
    else
        done(result, err, user);
}

/* ---- the line ---- */

static void lose(csn_warden *w, const char *why)
{
    if (!w->src)
        return;
    if (w->on_lost)
        csn_log(CSN_LOG_ERROR, "the line to the warden broke", "reason", why, NULL);
    w->src = csn_source_remove(w->src);
    csn_close(&w->fd);
    if (w->on_lost)
        w->on_lost(w->user);
}

static int send_ask(csn_warden *w, const csn_ask *ask)
{
    return csn_send_fds(w->fd, ask, csn_ask_size(ask), NULL, 0);
}

static void flush(csn_warden *w)
{
    csn_list *node;

    while (w->fd >= 0 && (node = csn_list_first(&w->queue))) {
        call *c = csn_list_entry(node, call, queued);
        int r = send_ask(w, c->ask);
        if (r == -EAGAIN || r == -ENOBUFS)
            return;
        if (r < 0) {
            lose(w, csn_strerror(-r));
            return;
        }
        csn_list_remove(&c->queued);
        free(c->ask);
        c->ask = NULL;
        w->n_queued--;
    }
    if (w->src)
        (void) csn_source_mod(w->src, EPOLLIN); /* the descriptor is in the set: it can't fail */
}

static call *call_find(csn_warden *w, uint64_t serial)
{
    csn_list_foreach (node, &w->calls[serial % BUCKETS]) {
        call *c = csn_list_entry(node, call, link);
        if (c->serial == serial)
            return c;
    }
    return NULL;
}

static void tell_seen(const call *c, const csn_answer *a)
{
    csn_box_seen seen = { .state = (csn_state) a->state };

    (void) snprintf(seen.id, sizeof(seen.id), "%.36s", a->name);
    if (c->seen)
        c->seen(&seen, c->user);
}

/* Writes `from` to `to` without absolute paths; true: there were some. */
static bool leave_out_paths(const char *from, char *to, size_t size)
{
    bool has_any = false, is_start = true;
    size_t n = 0;

    for (; *from && n + 4 < size; is_start = strchr(" '\"(:=", *from) != NULL, from++) {
        if (!is_start || *from != '/') {
            to[n++] = *from;
            continue;
        }
        has_any = true;
        n += (size_t) snprintf(to + n, size - n, "\xe2\x80\xa6");
        from += strcspn(from, " '\"):,;") - 1;
    }
    to[n] = '\0';
    return has_any;
}

/* Clients are told what the engine says of an error, and where things lie on this machine is none of their business: this
 * is the one place where its words come in. What it did not find at a path of the machine is no fault of the request. */
static void take_error(const csn_answer *a, csn_error *err)
{
    *err = (csn_error){ .code = a->result, .sys_errno = a->sys_errno };
    if (a->result == CSN_OK || !leave_out_paths(a->message, err->message, sizeof(err->message)))
        return;
    csn_log(CSN_LOG_WARN, "the engine says", "error", a->message, NULL);
    if (a->sys_errno != 0 && (a->result == CSN_E_NOT_FOUND || a->result == CSN_E_EXISTS))
        err->code = CSN_E_SYSTEM;
}

static void take_answer(csn_warden *w, const csn_answer *a, int *fd)
{
    call *c = call_find(w, a->serial);

    if (a->kind == CSN_ANSWER_QUIT) {
        if (w->on_quit)
            w->on_quit(w->user);
    } else if (!c) {
        csn_log(CSN_LOG_WARN, "the warden answered what nobody asked", NULL);
    } else if (a->kind == CSN_ANSWER_SEEN) {
        tell_seen(c, a);
    } else if (a->kind == CSN_ANSWER_IMAGE) {
        if (c->name)
            c->name(a->name, a->size_bytes, c->user);
    } else {
        csn_error err;
        take_error(a, &err);
        finish(w, c, fd, err.code, err.code < 0 ? &err : NULL);
    }
}

static bool read_one(csn_warden *w)
{
    static csn_answer answer;
    csn_auto(fd) int fd = -1;
    size_t n_fds = 0;
    ssize_t n = csn_recv_fds_flags(w->fd, &answer, sizeof(answer), &fd, 1, &n_fds, MSG_DONTWAIT);

    if (n == -EAGAIN || n == -EINTR)
        return false;
    if (n_fds == 0)
        fd = -1;
    w->is_out_of_fds = n == -EMFILE;
    if (w->is_out_of_fds)
        n = sizeof(answer); /* what it says is whole */
    if (n <= 0 || csn_answer_check(&answer, (size_t) n) < 0) {
        lose(w, n < 0 ? csn_strerror((int) -n) : n == 0 ? "it is gone" : "a malformed answer");
        return false;
    }
    csn_answer copy = answer; /* a callback may run us again */
    take_answer(w, &copy, &fd);
    return w->fd >= 0;
}

static void on_line(csn_source *src, uint32_t events, void *user)
{
    csn_warden *w = user;

    (void) src;
    if (events & EPOLLOUT)
        flush(w);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        for (int i = 0; i < ANSWERS_PER_TURN && w->fd >= 0 && read_one(w); i++)
            ;
}

/* ---- asking ---- */

static int put(char *out, size_t size, const char *text)
{
    return csn_str_copy(out, size, csn_str_of(text));
}

#define PUT(array, text) put(array, sizeof(array), text)

static int enqueue(csn_warden *w, call *c, const csn_ask *ask)
{
    if (w->n_queued >= QUEUE_MAX)
        return CSN_E_BUSY;
    c->ask = malloc(csn_ask_size(ask));
    if (!c->ask)
        return CSN_E_NO_MEMORY;
    memcpy(c->ask, ask, csn_ask_size(ask));
    csn_list_append(&w->queue, &c->queued);
    w->n_queued++;
    return csn_source_mod(w->src, EPOLLIN | EPOLLOUT) < 0 ? CSN_E_SYSTEM : CSN_OK;
}

/* `like` says who is told; it is copied. */
static int ask(csn_warden *w, csn_ask *a, const call *like)
{
    call *c;
    int r;

    a->magic = CSN_ASK_MAGIC;
    a->serial = w->last_serial + 1;
    if (w->fd < 0)
        return CSN_E_LOST;
    if (csn_ask_check(a, csn_ask_size(a)) < 0)
        return CSN_E_INVALID;
    c = malloc(sizeof(*c));
    if (!c)
        return CSN_E_NO_MEMORY;
    *c = *like;
    c->serial = ++w->last_serial;
    c->fd = -1;
    (void) snprintf(c->id, sizeof(c->id), "%.36s", a->verb == CSN_ASK_FORK ? a->other : a->id);
    csn_list_init(&c->queued);
    csn_list_append(&w->calls[c->serial % BUCKETS], &c->link);
    r = csn_list_empty(&w->queue) ? send_ask(w, a) : -EAGAIN;
    if (r == 0)
        return CSN_OK;
    r = r == -EAGAIN || r == -ENOBUFS ? enqueue(w, c, a) : CSN_E_LOST;
    if (r < 0)
        call_free(w, c);
    return r;
}

int csn_warden_cannot(int r, csn_error *ret_err)
{
    if (r == CSN_E_LOST)
        return csn_fail(ret_err, CSN_E_CANCELLED, "The server is shutting down");
    if (r == CSN_E_BUSY || r == CSN_E_NO_MEMORY)
        return csn_fail(ret_err, CSN_E_CANCELLED, "The server is busy: try again");
    return csn_fail(ret_err, CSN_E_SYSTEM, "the engine can't be asked");
}

/* An ask with an id and another name, either of which may be NULL. */
static int ask_names(csn_warden *w, csn_ask_verb verb, const char *id, const char *other,
                     const call *like)
{
    csn_ask a = { .verb = verb };

    if ((id && PUT(a.id, id) < 0) || (other && PUT(a.other, other) < 0))
        return CSN_E_INVALID;
    return ask(w, &a, like);
}

int csn_warden_create(csn_warden *w, const csn_box_spec *spec, csn_warden_done_fn *done, void *user)
{
    csn_ask a = { .verb = CSN_ASK_CREATE,
                  .flags = (spec->has_network ? CSN_ASK_NETWORK : 0u) |
                           (spec->is_ephemeral ? CSN_ASK_EPHEMERAL : 0u),
                  .memory_bytes = spec->memory_bytes,
                  .cpu_milli = spec->cpu_milli,
                  .disk_bytes = spec->disk_bytes,
                  .pids = spec->pids,
                  .n_mounts = (uint32_t) spec->n_mounts };

    if (spec->n_mounts > CSN_ASK_MOUNTS || PUT(a.id, spec->id) < 0 ||
        PUT(a.image, spec->image[0] ? spec->image : "host") < 0 || PUT(a.user, spec->user) < 0)
        return CSN_E_INVALID;
    for (size_t i = 0; i < spec->n_mounts; i++) {
        csn_ask_mount *m = &a.mounts[i];
        m->flags = spec->mounts[i].is_read_only ? CSN_ASK_READ_ONLY : 0;
        if (PUT(m->volume, spec->mounts[i].volume) < 0 || PUT(m->path, spec->mounts[i].path) < 0 ||
            PUT(m->subpath, spec->mounts[i].subpath) < 0)
            return CSN_E_INVALID;
    }
    return ask(w, &a, &(call){ .done = done, .user = user, .is_giving = true });
}

int csn_warden_start(csn_warden *w, const char *id, csn_warden_done_fn *done, void *user)
{
    return ask_names(w, CSN_ASK_START, id, NULL,
                     &(call){ .done = done, .user = user, .is_giving = true });
}

int csn_warden_stop(csn_warden *w, const char *id, int grace_ms, csn_warden_done_fn *done,
                    void *user)
{
    csn_ask a = { .verb = CSN_ASK_STOP, .grace_ms = grace_ms };

    if (PUT(a.id, id) < 0)
        return CSN_E_INVALID;
    gift_drop(w, id);
    return ask(w, &a, &(call){ .done = done, .user = user });
}

int csn_warden_delete(csn_warden *w, const char *id, csn_warden_done_fn *done, void *user)
{
    gift_drop(w, id);
    return ask_names(w, CSN_ASK_DELETE, id, NULL, &(call){ .done = done, .user = user });
}

int csn_warden_fork(csn_warden *w, const char *id, const char *new_id, csn_warden_done_fn *done,
                    void *user)
{
    return ask_names(w, CSN_ASK_FORK, id, new_id,
                     &(call){ .done = done, .user = user, .is_giving = true });
}

int csn_warden_snapshot(csn_warden *w, const char *id, const char *image, csn_warden_done_fn *done,
                        void *user)
{
    return ask_names(w, CSN_ASK_SNAPSHOT, id, image, &(call){ .done = done, .user = user });
}

int csn_warden_resize(csn_warden *w, const char *id, int64_t memory_bytes, int64_t cpu_milli,
                      int64_t disk_bytes, csn_warden_done_fn *done, void *user)
{
    csn_ask a = { .verb = CSN_ASK_RESIZE,
                  .memory_bytes = memory_bytes,
                  .cpu_milli = cpu_milli,
                  .disk_bytes = disk_bytes };

    if (PUT(a.id, id) < 0)
        return CSN_E_INVALID;
    return ask(w, &a, &(call){ .done = done, .user = user });
}

static void on_hand(csn_timer *timer, void *user)
{
    csn_warden *w = user;
    csn_list *node;

    (void) timer;
    while ((node = csn_list_first(&w->handing))) {
        call *c = csn_list_entry(node, call, link);
        csn_auto(fd) int fd = csn_take_fd(&c->fd);
        finish(w, c, &fd, CSN_OK, NULL);
    }
}

/* Still only from the loop, as everything that ends here. */
static int hand_gift(csn_warden *w, gift *g, csn_warden_fd_fn *done, void *user)
{
    call *c = calloc(1, sizeof(*c));

    if (!c)
        return CSN_E_NO_MEMORY;
    if (csn_timer_set(w->loop, &w->hand_timer, csn_now_ns(), on_hand, w) < 0) {
        free(c); /* not queued: who is told now is not told again */
        return CSN_E_SYSTEM;
    }
    *c = (call){ .done_fd = done, .user = user, .fd = csn_take_fd(&g->fd) };
    csn_list_init(&c->queued);
    csn_list_append(&w->handing, &c->link);
    gift_free(w, g);
    return CSN_OK;
}

/* One whose keeper has gone meanwhile reads as hung up. */
static bool is_fresh(const gift *g)
{
    char c;
    ssize_t n = recv(g->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);

    return n > 0 || (n < 0 && errno == EAGAIN);
}

int csn_warden_lend(csn_warden *w, const char *id, csn_warden_fd_fn *done, void *user)
{
    gift *g = gift_find(w, id);

    if (g && is_fresh(g))
        return hand_gift(w, g, done, user);
    if (g)
        gift_free(w, g);
    return ask_names(w, CSN_ASK_LEND, id, NULL, &(call){ .done_fd = done, .user = user });
}

int csn_warden_list(csn_warden *w, csn_warden_seen_fn *seen, csn_warden_done_fn *done, void *user)
{
    return ask_names(w, CSN_ASK_LIST, NULL, NULL,
                     &(call){ .seen = seen, .done = done, .user = user });
}

int csn_warden_volume_create(csn_warden *w, const char *name, csn_warden_done_fn *done, void *user)
{
    return ask_names(w, CSN_ASK_VOLUME_CREATE, NULL, name, &(call){ .done = done, .user = user });
}

int csn_warden_volume_delete(csn_warden *w, const char *name, csn_warden_done_fn *done, void *user)
{
    return ask_names(w, CSN_ASK_VOLUME_DELETE, NULL, name, &(call){ .done = done, .user = user });
}

int csn_warden_volume_size(csn_warden *w, const char *name, csn_warden_name_fn *seen,
                           csn_warden_done_fn *done, void *user)
{
    return ask_names(w, CSN_ASK_VOLUME_SIZE, NULL, name,
                     &(call){ .name = seen, .done = done, .user = user });
}

int csn_warden_images(csn_warden *w, csn_warden_name_fn *seen, csn_warden_done_fn *done, void *user)
{
    return ask_names(w, CSN_ASK_IMAGES, NULL, NULL,
                     &(call){ .name = seen, .done = done, .user = user });
}

int csn_warden_image_delete(csn_warden *w, const char *name, csn_warden_done_fn *done, void *user)
{
    return ask_names(w, CSN_ASK_IMAGE_DELETE, NULL, name, &(call){ .done = done, .user = user });
}

int csn_warden_ready(csn_warden *w, csn_warden_done_fn *done, void *user)
{
    return ask_names(w, CSN_ASK_READY, NULL, NULL, &(call){ .done = done, .user = user });
}

/* ---- life ---- */

int csn_warden_open(csn_loop *loop, int fd, void (*on_lost)(void *user), void *user,
                    csn_warden **ret)
{
    csn_warden *w = calloc(1, sizeof(*w));
    int r;

    if (!w)
        return CSN_E_NO_MEMORY;
    w->loop = loop;
    w->fd = fd;
    w->on_lost = on_lost;
    w->user = user;
    for (size_t i = 0; i < BUCKETS; i++)
        csn_list_init(&w->calls[i]);
    csn_list_init(&w->queue);
    csn_list_init(&w->gifts);
    csn_list_init(&w->handing);
    r = csn_fd_nonblock(fd, true);
    if (r == 0)
        r = csn_loop_add(loop, fd, EPOLLIN, on_line, w, &w->src);
    if (r < 0) {
        free(w);
        return CSN_E_SYSTEM;
    }
    *ret = w;
    return CSN_OK;
}

void csn_warden_on_quit(csn_warden *w, void (*on_quit)(void *user))
{
    w->on_quit = on_quit;
}

static void end_all(csn_warden *w, csn_list *calls)
{
    const csn_error err = { CSN_E_LOST, 0, "the server ends" };
    csn_list *node;

    while ((node = csn_list_first(calls))) {
        int fd = -1;
        finish(w, csn_list_entry(node, call, link), &fd, CSN_E_LOST, &err);
    }
}

void csn_warden_drop_spare_fds(csn_warden *w)
{
    while (!csn_list_empty(&w->gifts))
        gift_free(w, csn_list_entry(csn_list_first(&w->gifts), gift, link));
}

csn_warden *csn_warden_free(csn_warden *w)
{
    if (!w)
        return NULL;
    w->on_lost = NULL;
    lose(w, "");
    csn_close(&w->fd);
    csn_timer_cancel(&w->hand_timer);
    end_all(w, &w->handing);
    for (size_t i = 0; i < BUCKETS; i++)
        end_all(w, &w->calls[i]);
    csn_warden_drop_spare_fds(w);
    free(w);
    return NULL;
}
