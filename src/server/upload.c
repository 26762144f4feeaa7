/* SPDX-License-Identifier: Apache-2.0 */
#include "server/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <caisson/files.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/list.h"
#include "server/boxes.h"
#include "server/broom.h"
#include "server/file_info.h"

#define ASK_BYTES (INT64_C(64) << 20)

enum { RESERVE_MIN = 1 << 20 };

/* GATHERING: its first bytes wait. OPENED: asked for, or open. CLOSED: complete, maybe waiting for its name. */
enum state { GATHERING, OPENED, CLOSED };

typedef struct file {
    csn_list link;
    csn_buf shown, path; /* as the client wrote it, as the sandbox knows it */
    csn_buf temp;        /* empty: written in place */
    csn_buf waiting;     /* bytes that came before the file was open */
    int old_fd;          /* of what is there now, while the new one is being opened */
    int fd;
    enum state state;
    int64_t n_bytes;
    int64_t reserved; /* so far the disk has blocks for it; -1: they come as they are written */
    bool is_charged;  /* to the sandbox's disk */
    bool is_ended, has_failed;
    csn_error err;
} file;

struct csn_upload {
    csn_list files; /* the first one is worked on, the last one is being received */
    const csn_upload_events *events;
    void *user;
    csn_req *req; /* not touched once closed */
    csn_boxes *boxes;
    csn_box_hold *hold;
    csn_sandbox *box; /* valid while held */
    char box_id[64];
    int64_t limit;     /* of the sandbox's disk; 0: none */
    int64_t room;      /* what may still be written there, as far as we know */
    int64_t ask_after; /* so many bytes: then others may have written too */
    bool is_waiting;   /* for the sandbox */
    bool is_asking;    /* how full its disk is; is_stopped: and waits for that */
    bool is_stopped;
    bool is_closed;
};

static void pump(csn_upload *u);

static file *first(const csn_upload *u)
{
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a file that was freed has left the list */
    return csn_list_empty(&u->files) ? NULL : csn_list_entry(u->files.next, file, link);
}

static file *last(const csn_upload *u)
{
    return csn_list_empty(&u->files) ? NULL : csn_list_entry(u->files.prev, file, link);
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

static void delete_temp(csn_upload *u, file *f)
{
    if (f->temp.len > 0)
        csn_broom_sweep(u->boxes, u->box_id, u->box, &f->temp);
}

static void free_file(csn_upload *u, file *f)
{
    delete_temp(u, f);
    csn_close(&f->fd);
    csn_close(&f->old_fd);
    csn_buf_free(&f->shown);
    csn_buf_free(&f->path);
    csn_buf_free(&f->temp);
    csn_buf_free(&f->waiting);
    csn_list_remove(&f->link);
    free(f);
}

static void free_upload(csn_upload *u)
{
    file *f;

    while ((f = first(u)))
        free_file(u, f);
    csn_boxes_release(u->hold);
    free(u);
}

static void free_if_over(csn_upload *u)
{
    if (u->is_closed && !u->is_waiting && !u->is_asking)
        free_upload(u);
}

void csn_upload_close(csn_upload *u)
{
    if (!u)
        return;
    u->is_closed = true;
    u->req = NULL;
    free_if_over(u);
}

static void fail(csn_upload *u, file *f, const csn_error *err)
{
    if (f->has_failed)
        return;
    f->has_failed = true;
    f->err = *err;
    delete_temp(u, f);
    csn_close(&f->fd);
    csn_buf_free(&f->waiting);
}

static void fail_sys(csn_upload *u, file *f, int r)
{
    csn_error err = { 0 };

    csn_fail_sys(&err, r, "write '%.180s'", f->shown.data);
    if (r == -ENOSPC || r == -EDQUOT)
        err.code = CSN_E_LIMIT;
    fail(u, f, &err);
}

/* Back from the sandbox. False: nobody waits for it any more. */
static bool come_back(csn_upload *u)
{
    u->is_waiting = false;
    if (!u->is_closed)
        return true;
    free_if_over(u);
    return false;
}

static void go_on(csn_upload *u)
{
    pump(u);
    if (!u->is_waiting)
        u->events->on_idle(u->user);
}

/* --- the disk's limit ---------------------------------------------------------------------------------------------- */

static bool lies_in(int fd, unsigned long fs_type)
{
    struct statfs fs;

    return fd >= 0 && fstatfs(fd, &fs) == 0 && (unsigned long) fs.f_type == fs_type;
}

/* Volumes and what is in memory have limits of their own. */
static bool is_charged(const csn_upload *u, int fd)
{
    return u->limit > 0 && lies_in(fd, OVERLAYFS_SUPER_MAGIC);
}

/* What is reserved for our file counts as used, but it is us who will use it. */
static int64_t unwritten(const csn_upload *u)
{
    const file *f = first(u);
    int64_t n = f ? f->reserved - (f->n_bytes - (int64_t) f->waiting.len) : 0;

    return n > 0 && !f->has_failed ? n : 0;
}

static void on_usage(const csn_usage *usage, int result, const csn_error *err, void *user)
{
    csn_upload *u = user;
    bool was_stopped = u->is_stopped;

    (void) err; /* if the sandbox is lost, the next step tells */
    u->ask_after = ASK_BYTES;
    if (result >= 0 && u->limit - usage->disk_bytes + unwritten(u) < u->room)
        u->room = u->limit - usage->disk_bytes + unwritten(u);
    u->is_asking = u->is_stopped = false;
    if (!was_stopped)
        free_if_over(u);
    else if (come_back(u))
        go_on(u);
}

static bool ask(csn_upload *u)
{
    if (!u->is_asking)
        u->is_asking = csn_sandbox_usage_async(u->box, on_usage, u, NULL) != NULL;
    return u->is_asking;
}

/* True: first it must be known how full the disk is. */
static bool ask_room(csn_upload *u, const file *f)
{
    if (!f->is_charged || u->ask_after > 0 || !ask(u))
        return false;
    u->is_stopped = u->is_waiting = true;
    return true;
}

/* While there is plenty of room it is asked in time, and nothing stops for the answer. That one may miss what was written
 * after the ask: so near the limit it is waited for. */
static void ask_ahead(csn_upload *u)
{
    if (u->ask_after <= ASK_BYTES / 2 && u->room > 2 * ASK_BYTES)
        (void) ask(u); /* if it can't be asked now, it will be when it must be known */
}

/* R35: an upload is charged to the sandbox before it is written, for no keeper kills a client. */
static int charge(csn_upload *u, file *f, size_t len)
{
    csn_error err = { 0 };

    if (!f->is_charged)
        return CSN_OK;
    u->room -= (int64_t) len;
    u->ask_after -= (int64_t) len;
    ask_ahead(u);
    if (u->room >= 0)
        return CSN_OK;
    csn_fail(&err, CSN_E_LIMIT, "write '%.100s': the sandbox's disk of %lld bytes is full",
             f->shown.data, (long long) u->limit);
    fail(u, f, &err);
    return CSN_E_LIMIT;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static void open_inside(csn_upload *u, file *f, const char *path, int flags, uint32_t mode,
                        csn_fd_done_fn done)
{
    csn_error err = { 0 };

    if (!csn_file_open_async(u->box, path, flags, mode, done, u, &err))
        fail(u, f, &err);
    else
        u->is_waiting = true;
}

/* The small file's place, or a large one's that is written in place: cut already. */
static void on_open(int fd, int result, const csn_error *err, void *user)
{
    csn_upload *u = user;
    file *f = first(u);

    f->fd = result < 0 ? -1 : fd;
    if (!come_back(u))
        return;
    if (result < 0)
        fail(u, f, err);
    go_on(u);
}

static void write_in_place(csn_upload *u, file *f)
{
    csn_buf_clear(&f->temp);
    f->fd = csn_take_fd(&f->old_fd);
    f->is_charged = is_charged(u, f->fd);
    if (f->fd >= 0 && ftruncate(f->fd, 0) < 0)
        fail_sys(u, f, -errno);
    else if (f->fd < 0)
        open_inside(u, f, f->path.data, CSN_OPEN_WRITE | CSN_OPEN_CREATE | CSN_OPEN_TRUNCATE, 0644,
                    on_open);
}

/* A new file beside takes the old one's name only if it can take its place in all. */
static bool may_replace(int old_fd, int new_fd)
{
    struct stat was, is;

    if (old_fd < 0)
        return true;
    return fstat(old_fd, &was) == 0 && fstat(new_fd, &is) == 0 && was.st_nlink == 1 &&
           was.st_uid == is.st_uid && was.st_gid == is.st_gid;
}

static void on_temp(int fd, int result, const csn_error *err, void *user)
{
    csn_upload *u = user;
    file *f = first(u);

    f->fd = result < 0 ? -1 : fd;
    if (result < 0)
        csn_buf_clear(&f->temp); /* it isn't there */
    if (!come_back(u))
        return;
    if (f->has_failed) {
        csn_close(&f->fd); /* broken off meanwhile */
    } else if (result >= 0 && may_replace(f->old_fd, fd)) {
        csn_close(&f->old_fd);
        f->is_charged = is_charged(u, fd);
        f->reserved = lies_in(fd, TMPFS_MAGIC) ? -1 : 0; /* there it would be filled twice */
    } else if (result >= 0) {
        csn_close(&f->fd);
        delete_temp(u, f);
        write_in_place(u, f);
    } else if (result == CSN_E_DENIED && f->old_fd >= 0) {
        write_in_place(u, f); /* the directory is closed, the file isn't */
    } else {
        fail(u, f, err);
    }
    go_on(u);
}

static void open_temp(csn_upload *u, file *f)
{
    const char *slash = strrchr(f->path.data, '/');
    size_t dir_len = slash ? (size_t) (slash - f->path.data) + 1 : 0;
    uint32_t mode = 0644;
    struct stat st;
    char id[17];
    int r = csn_id_hex(id, 8);

    csn_buf_append(&f->temp, f->path.data, dir_len);
    csn_buf_printf(&f->temp, ".caisson-upload-%s", r < 0 ? "" : id);
    if (r < 0 || f->temp.error < 0) {
        fail_sys(u, f, r < 0 ? r : f->temp.error);
        return;
    }
    if (f->old_fd >= 0 && fstat(f->old_fd, &st) == 0)
        mode = st.st_mode & 0777;
    open_inside(u, f, f->temp.data, CSN_OPEN_WRITE | CSN_OPEN_CREATE | CSN_OPEN_EXCLUSIVE, mode,
                on_temp);
}

/* What is there now, if it may be written at all. */
static void on_old(int fd, int result, const csn_error *err, void *user)
{
    csn_upload *u = user;
    file *f = first(u);

    f->old_fd = result < 0 ? -1 : fd;
    if (!come_back(u))
        return;
    if (result < 0 && result != CSN_E_NOT_FOUND)
        fail(u, f, err);
    else if (!f->has_failed)
        open_temp(u, f);
    go_on(u);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Blocks that are there already are written faster, and the file gets its name faster: ext4 gives one that replaces
 * another all its blocks first. Only where there is plenty: what is reserved too much goes at the end. */
static void reserve(csn_upload *u, file *f)
{
    int64_t len = f->n_bytes < RESERVE_MIN ? RESERVE_MIN
                  : f->n_bytes > ASK_BYTES ? ASK_BYTES
                                           : f->n_bytes;

    if (f->temp.len == 0 || f->reserved < 0 || f->n_bytes <= f->reserved)
        return;
    if ((f->is_charged && u->room < 2 * ASK_BYTES) ||
        fallocate(f->fd, FALLOC_FL_KEEP_SIZE, f->reserved, f->n_bytes - f->reserved + len) < 0)
        f->reserved = -1;
    else
        f->reserved = f->n_bytes + len;
}

static void write_bytes(csn_upload *u, file *f, const char *data, size_t len)
{
    int r = charge(u, f, len);

    if (r < 0)
        return;
    reserve(u, f);
    r = csn_write_all(f->fd, data, len);
    if (r < 0)
        fail_sys(u, f, r);
}

static void on_moved(int64_t n, int result, const csn_error *err, void *user)
{
    csn_upload *u = user;
    file *f = first(u);

    (void) n;
    if (result >= 0)
        csn_buf_clear(&f->temp); /* it has its name now */
    if (!come_back(u))
        return;
    if (result < 0)
        fail(u, f, err);
    go_on(u);
}

static void move_temp(csn_upload *u, file *f)
{
    csn_file_request fr = { .size = sizeof(fr),
                            .verb = CSN_FILE_MOVE,
                            .path = f->temp.data,
                            .arg = f->path.data,
                            .flag = CSN_MOVE_FOLLOW };
    csn_error err = { 0 };

    if (!csn_file_request_async(u->box, &fr, on_moved, u, &err))
        fail(u, f, &err);
    else
        u->is_waiting = true;
}

static void finish(csn_upload *u, file *f)
{
    if (f->reserved != 0 && ftruncate(f->fd, f->n_bytes) < 0) { /* gives back what is too much */
        fail_sys(u, f, -errno);
        return;
    }
    csn_close(&f->fd);
    if (f->temp.len > 0)
        move_temp(u, f);
}

static void tell(csn_upload *u, file *f)
{
    csn_list_remove(&f->link);
    u->events->on_file(f->shown.data, f->n_bytes, f->has_failed ? &f->err : NULL, u->user);
    free_file(u, f);
}

/* The next step of the first file. False: none before something comes, from the client or from inside. */
static bool step(csn_upload *u, file *f)
{
    if (f->has_failed || f->state == CLOSED) {
        if (f->is_ended)
            tell(u, f);
        else
            return false;
    } else if (f->state == GATHERING && f->is_ended) {
        f->state = OPENED;
        open_inside(u, f, f->path.data, CSN_OPEN_WRITE | CSN_OPEN_CREATE | CSN_OPEN_TRUNCATE, 0644,
                    on_open);
    } else if (f->state == GATHERING && f->waiting.len >= CSN_UPLOAD_SMALL) {
        f->state = OPENED;
        open_inside(u, f, f->path.data, CSN_OPEN_WRITE, 0, on_old);
    } else if (f->state == OPENED && f->waiting.len > 0) {
        if (ask_room(u, f))
            return false;
        write_bytes(u, f, f->waiting.data, f->waiting.len);
        csn_buf_free(&f->waiting);
    } else if (f->state == OPENED && f->is_ended) {
        f->state = CLOSED;
        finish(u, f);
    } else {
        return false;
    }
    return true;
}

static void pump(csn_upload *u)
{
    file *f;

    while (!u->is_waiting && (f = first(u)) && step(u, f))
        ;
}

/* --- what comes --------------------------------------------------------------------------------------------------- */

csn_upload *csn_upload_new(csn_req *req, const csn_upload_events *events, void *user)
{
    csn_upload *u = csn_calloc(1, sizeof(*u));
    const csn_box_facts *facts;

    if (!u)
        return NULL;
    csn_list_init(&u->files);
    u->events = events;
    u->user = user;
    u->req = req;
    u->box = csn_req_box(req);
    u->boxes = csn_req_server(req)->boxes;
    (void) snprintf(u->box_id, sizeof(u->box_id), "%s", csn_req_box_id(req)); /* a UUID fits */
    u->hold = csn_boxes_hold(u->boxes, u->box_id);
    facts = csn_boxes_facts(u->boxes, u->box_id);
    u->limit = facts ? facts->disk_bytes : 0;
    u->room = INT64_MAX;
    return u;
}

void csn_upload_begin(csn_upload *u, const char *path)
{
    file *f = csn_xalloc(1, sizeof(*f));
    csn_error err = { 0 };

    *f = (file){ .shown = CSN_BUF_INIT,
                 .path = CSN_BUF_INIT,
                 .temp = CSN_BUF_INIT,
                 .waiting = CSN_BUF_INIT,
                 .old_fd = -1,
                 .fd = -1 };
    csn_list_append(&u->files, &f->link);
    csn_buf_puts(&f->shown, path);
    csn_box_path(u->req, path, &f->path);
    if (!path[0] || path[strlen(path) - 1] == '/') {
        csn_fail(&err, CSN_E_INVALID, "'%.180s' names no file", path);
        fail(u, f, &err);
    }
}

void csn_upload_data(csn_upload *u, const char *data, size_t len)
{
    file *f = last(u);

    f->n_bytes += (int64_t) len;
    if (f->has_failed)
        return;
    if (f == first(u) && !u->is_waiting && f->state == OPENED && f->waiting.len == 0 &&
        !(f->is_charged && u->ask_after <= 0)) {
        write_bytes(u, f, data, len);
        return;
    }
    if (csn_buf_append(&f->waiting, data, len) < 0)
        fail_sys(u, f, f->waiting.error);
    pump(u);
}

void csn_upload_end(csn_upload *u)
{
    file *f = last(u);

    if (f)
        f->is_ended = true;
    pump(u);
}

void csn_upload_break(csn_upload *u, const csn_error *err)
{
    file *f = last(u);

    if (!f || f->is_ended)
        return;
    f->is_ended = true;
    if (f == first(u) && u->is_waiting) { /* what comes back finds it failed */
        f->has_failed = true;
        f->err = *err;
        return;
    }
    fail(u, f, err);
    pump(u);
}

size_t csn_upload_wish(const csn_upload *u)
{
    const file *f = last(u);

    return CSN_REQ_PIECE_MAX - (f ? (size_t) (f->n_bytes % CSN_REQ_PIECE_MAX) : 0);
}

bool csn_upload_busy(const csn_upload *u)
{
    return u->is_waiting;
}

bool csn_upload_done(const csn_upload *u)
{
    return csn_list_empty(&u->files);
}
