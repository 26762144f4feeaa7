/* File verbs. Each is a worker inside, which answers on a socket of its own; what it says is said by the attacker, so
 * every field is checked, every string was bounded by its frame, and a descriptor must be a regular file, or a connection
 * to the port that was asked for. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "local/local.h"
#include "wire/filereq.h"

enum { FRAMES_A_TURN = 64 };

typedef struct file_result {
    int64_t value;
    bool is_cut;
    int fd; /* OPEN, CONNECT; else -1 */
} file_result;

typedef struct file_op {
    csn_list link;      /* in csn_local.files */
    csn_request req;    /* the SPAWN: only its failure matters */
    csn_local_box *box; /* counted */
    int fd;
    csn_source *source;
    uint32_t verb, max_results, n_results;
    uint32_t port; /* of CONNECT */
    int levels; /* of LIST */
    char *path; /* for messages */
    csn_file_fn on_file;
    csn_match_fn on_match;
    void *fn_user;
    csn_op *verb_op; /* NULL: nobody waits any more */
    bool is_cancelled;
    bool is_busy; /* in a callback, which may wait in turns of its own */
    /* Of OPEN and CONNECT: handed on when the worker is done and has let go of its own, else a program just written could be busy. */
    file_result opened;
} file_op;

static const file_result no_result = { .fd = -1 };

static void free_op(file_op *op)
{
    op->source = csn_source_remove(op->source);
    csn_close(&op->fd);
    csn_close(&op->opened.fd);
    csn_list_remove(&op->req.link);
    csn_list_remove(&op->link);
    free(op->path);
    csn_box_unref(&op->box->base);
    free(op);
}

static void finish(file_op *op, const file_result *result, int r, const csn_error *err)
{
    csn_op *verb_op = op->verb_op;

    free_op(op);
    verb_op->value.file.fd = result->fd;
    verb_op->value.file.n = result->value;
    verb_op->value.file.is_cut = result->is_cut;
    csn_op_end(verb_op, r, err);
}

/* What an errno of the worker means to the caller. */
static int code_of(int e)
{
    switch (e) {
    case ENOENT:
    case ENOTDIR:
    case ECONNREFUSED: /* nobody listens */
        return CSN_E_NOT_FOUND;
    case EEXIST:
    case ENOTEMPTY:
        return CSN_E_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
    case ETXTBSY:
        return CSN_E_DENIED;
    case EISDIR:
    case EINVAL:
    case ENXIO:
        return CSN_E_NOT_REGULAR;
    case EFBIG:
    case EOVERFLOW:
        return CSN_E_TOO_LARGE;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
        return CSN_E_LIMIT;
    case ENOMEM:
        return CSN_E_NO_MEMORY;
    case ETIMEDOUT:
        return CSN_E_TIMEOUT;
    case ENAMETOOLONG:
    case ELOOP:
    case ESRCH: /* nobody has that name */
        return CSN_E_INVALID;
    default:
        return CSN_E_SYSTEM;
    }
}

static int fail_file(csn_error *err, const file_op *op, int e)
{
    int code = e > 0 && e < 4096 ? code_of(e) : CSN_E_PROTOCOL;

    if (op->verb == CSN_FILE_CHMOD && e == EINVAL) /* an id that isn't mapped into the sandbox */
        code = CSN_E_DENIED;
    csn_fail(err, code, "'%.180s': %s", op->path, e == ENXIO ? "not a regular file" : csn_strerror(e));
    if (err)
        err->sys_errno = e;
    return code;
}

static int protocol_error(csn_error *err, const char *what)
{
    return csn_fail(err, CSN_E_PROTOCOL, "a file worker sent %s", what);
}

static const char *name_or_number(const char *name, uint32_t id, char number[16])
{
    if (name[0])
        return name;
    (void) snprintf(number, 16, "%u", id); /* fits */
    return number;
}

/* 1 … levels components, none of them empty, "." or "..". */
static bool is_below(const char *path, int levels)
{
    int n = 0;

    for (;; path++) {
        size_t len = strcspn(path, "/");
        if (len == 0 || (path[0] == '.' && (len == 1 || (path[1] == '.' && len == 2))))
            return false;
        if (++n > levels)
            return false;
        path += len;
        if (*path == '\0')
            return true;
    }
}

static int take_entry(file_op *op, csn_msg *msg, csn_error *err)
{
    csn_unpack rest = csn_msg_rest(msg, sizeof(csn_file_entry));
    char uid[16], gid[16];
    csn_file_entry e;
    const char *path = csn_unpack_str(&rest), *target = csn_unpack_str(&rest),
               *owner = csn_unpack_str(&rest), *group = csn_unpack_str(&rest);

    csn_msg_fixed(msg, &e, sizeof(e));
    if (csn_unpack_end(&rest) < 0 || e.kind < CSN_FILE_REGULAR || e.kind > CSN_FILE_DEVICE ||
        e.size_bytes < 0)
        return protocol_error(err, "a malformed entry");
    if (op->verb == CSN_FILE_LIST && !is_below(path, op->levels))
        return protocol_error(err, "an entry that is no name");
    if (op->max_results && op->n_results++ >= op->max_results)
        return protocol_error(err, "more entries than were asked for");
    csn_file_info info = { .path = path,
                           .kind = (csn_file_kind) e.kind,
                           .mode = e.mode & 07777,
                           .uid = e.uid,
                           .gid = e.gid,
                           .owner = name_or_number(owner, e.uid, uid),
                           .group = name_or_number(group, e.gid, gid),
                           .size_bytes = e.size_bytes,
                           .mtime_ns = e.mtime_ns,
                           .target = e.kind == CSN_FILE_SYMLINK ? target : NULL };
    if (op->on_file)
        op->on_file(&info, op->fn_user);
    return CSN_OK;
}

static int take_match(file_op *op, csn_msg *msg, csn_error *err)
{
    csn_unpack rest = csn_msg_rest(msg, sizeof(csn_file_hit));
    csn_file_hit hit;
    csn_file_match match = { .path = csn_unpack_str(&rest) };

    match.text = csn_unpack_bytes(&rest, &match.text_len);
    csn_msg_fixed(msg, &hit, sizeof(hit));
    match.line = hit.line;
    if (csn_unpack_end(&rest) < 0 || hit.line < 1)
        return protocol_error(err, "a malformed match");
    if (op->max_results && op->n_results++ >= op->max_results)
        return protocol_error(err, "more matches than were asked for");
    if (op->on_match)
        op->on_match(&match, op->fn_user);
    return CSN_OK;
}

/* R30: whatever the worker opened, only a regular file is let through. */
static int check_file(int fd, int64_t *ret_size, csn_error *err, const file_op *op)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fstat(fd, &st) < 0)
        return protocol_error(err, "no descriptor");
    if (!S_ISREG(st.st_mode))
        return csn_fail(err, CSN_E_NOT_REGULAR, "'%.180s' is not a regular file", op->path);
    if (flags & O_PATH)
        return protocol_error(err, "a descriptor that can't be read or written");
    *ret_size = (int64_t) st.st_size;
    return CSN_OK;
}

static bool is_option(int fd, int name, int wanted)
{
    int value = 0;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 && value == wanted;
}

static bool is_peer(int fd, uint32_t port)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } peer = { 0 };
    socklen_t len = sizeof(peer);

    if (getpeername(fd, &peer.any, &len) < 0)
        return false;
    if (peer.any.sa_family == AF_INET)
        return is_option(fd, SO_DOMAIN, AF_INET) && peer.v4.sin_port == htons((uint16_t) port) &&
               peer.v4.sin_addr.s_addr == htonl(INADDR_LOOPBACK);
    return peer.any.sa_family == AF_INET6 && is_option(fd, SO_DOMAIN, AF_INET6) &&
           peer.v6.sin6_port == htons((uint16_t) port) && IN6_IS_ADDR_LOOPBACK(&peer.v6.sin6_addr);
}

/* The same for a connection: TCP, to where it was asked for. And a close of it must never wait. */
static int check_connection(int fd, csn_error *err, const file_op *op)
{
    const struct linger none = { 0 };
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || (flags & O_PATH) || !is_option(fd, SO_TYPE, SOCK_STREAM) ||
        !is_option(fd, SO_PROTOCOL, IPPROTO_TCP) || !is_peer(fd, op->port))
        return protocol_error(err, "a descriptor that is no connection to the port");
    if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)) < 0 ||
        fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return protocol_error(err, "a connection that can't be set up");
    return CSN_OK;
}

static int take_fd(csn_msg *msg, file_result *ret, csn_error *err, const file_op *op)
{
    csn_auto(fd) int fd = csn_msg_take_fd(msg, 0);
    csn_file_done done;

    csn_msg_fixed(msg, &done, sizeof(done));
    if (done.sys_errno)
        return fail_file(err, op, done.sys_errno);
    if (fd < 0)
        return protocol_error(err, "no descriptor");
    int r = op->verb == CSN_FILE_CONNECT ? check_connection(fd, err, op)
                                         : check_file(fd, &ret->value, err, op);
    if (r >= 0)
        ret->fd = csn_take_fd(&fd);
    return r;
}

static bool yields_fd(const file_op *op)
{
    return op->verb == CSN_FILE_OPEN || op->verb == CSN_FILE_CONNECT;
}

/* True: that was the last frame. */
static bool take_frame(file_op *op, csn_msg *msg, file_result *ret, int *ret_r, csn_error *err)
{
    csn_file_done done;

    switch (msg->head.type) {
    case CSN_FRAME_FILE_ENTRY:
        *ret_r = take_entry(op, msg, err);
        return *ret_r < 0;
    case CSN_FRAME_FILE_MATCH:
        *ret_r = take_match(op, msg, err);
        return *ret_r < 0;
    case CSN_FRAME_FILE_FD:
        *ret_r = yields_fd(op) && op->opened.fd < 0
                     ? take_fd(msg, &op->opened, err, op)
                     : protocol_error(err, "a descriptor nobody asked for");
        return *ret_r < 0;
    default:
        csn_msg_fixed(msg, &done, sizeof(done));
        ret->value = done.value;
        ret->is_cut = done.is_cut != 0;
        *ret_r = done.sys_errno ? fail_file(err, op, done.sys_errno) : CSN_OK;
        if (*ret_r >= 0 && yields_fd(op)) {
            *ret = op->opened;
            op->opened.fd = -1;
            if (ret->fd < 0)
                *ret_r = protocol_error(err, "no descriptor");
        }
        return true;
    }
}

/* One frame. True: there may be another; else nothing is there yet, or the op is over and freed. */
static bool take_one(file_op *op)
{
    csn_local *local = csn_local_of(&op->box->base);
    char *buffer = local->frame_buffer ? local->frame_buffer : csn_malloc(CSN_FRAME_MAX);
    file_result result = { .fd = -1 };
    csn_msg msg = CSN_MSG_INIT;
    csn_error err = { 0 };
    bool is_last = false;
    int r, ret = CSN_OK;

    if (!buffer)
        return false;
    local->frame_buffer = NULL;
    r = csn_frame_recv(op->fd, buffer, CSN_FRAME_MAX, CSN_SAID_BY_WORKER, MSG_DONTWAIT, &msg);
    op->is_busy = true;
    if (r == 1)
        is_last = take_frame(op, &msg, &result, &ret, &err);
    op->is_busy = false;
    csn_msg_done(&msg);
    if (local->frame_buffer)
        free(buffer);
    else
        local->frame_buffer = buffer;
    if (r == -EAGAIN || r == -EINTR)
        return false;
    if (r == 1 && !is_last)
        return true;
    if (r == 0)
        ret = csn_fail(&err, CSN_E_LOST, "'%.180s': the file worker ended without an answer",
                       op->path);
    else if (r < 0)
        ret = protocol_error(&err, "a malformed frame");
    finish(op, &result, ret, &err);
    return false;
}

/* A listing is thousands of small frames: several a turn, and others get theirs. */
static void on_channel(csn_source *src, uint32_t events, void *user)
{
    file_op *op = user;
    csn_error err = { 0 };

    (void) src;
    (void) events;
    if (op->is_busy)
        return;
    if (op->is_cancelled) {
        int r = csn_fail(&err, CSN_E_CANCELLED, "'%.180s': cancelled", op->path);
        finish(op, &no_result, r, &err);
        return;
    }
    for (int i = 0; i < FRAMES_A_TURN && take_one(op); i++)
        ;
}

/* The keeper's word on the SPAWN: its success says nothing yet. */
static bool on_spawned(csn_request *req, csn_msg *msg)
{
    file_op *op = csn_container_of(req, file_op, req);
    csn_error err = { 0 };

    if (msg && msg->head.type != CSN_FRAME_ERROR)
        return true;
    finish(op, &no_result, csn_msg_result(msg, CSN_FRAME_STARTED, &err), &err);
    return true;
}

static int send_request(file_op *op, const csn_file_call *call, int far)
{
    csn_filereq fr = { .verb = call->verb,
                       .flags = call->flags,
                       .mode = call->mode,
                       .max_results = call->max_results,
                       .path = call->path,
                       .arg = call->arg ? call->arg : "",
                       .arg2 = call->arg2 ? call->arg2 : "" };
    size_t cap = strlen(fr.path) + strlen(fr.arg) + strlen(fr.arg2) + 256;
    csn_auto(mem) char *bytes = cap <= CSN_BLOB_MAX ? csn_malloc(cap) : NULL;
    csn_pack p = { .data = bytes, .cap = cap };
    csn_spawn spawn = { .kind = CSN_SPAWN_FILES, .fds = CSN_FD_CHANNEL };

    if (!bytes)
        return cap > CSN_BLOB_MAX ? -E2BIG : -ENOMEM;
    csn_filereq_pack(&p, &fr);
    if (p.error < 0)
        return p.error;
    csn_out out = { .type = CSN_FRAME_SPAWN,
                    .fixed = &spawn,
                    .fixed_len = sizeof(spawn),
                    .rest = p.data,
                    .rest_len = p.len,
                    .fds = &far,
                    .n_fds = 1 };
    return csn_conn_ask(&op->box->conn, &out, &op->req, on_spawned);
}

static int start_op(file_op *op, const csn_file_call *call)
{
    csn_auto(fd) int far = -1;
    int pair[2], r = csn_fault_as("socketpair", EMFILE);

    if (r < 0)
        return r;
    if (!(op->path = csn_strdup(call->path)))
        return -ENOMEM;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    op->fd = pair[0];
    far = pair[1];
    r = csn_loop_add(op->box->conn.loop, op->fd, EPOLLIN, on_channel, op, &op->source);
    return r < 0 ? r : send_request(op, call, far);
}

/* The worker hears that nobody listens. One in whose callback we are ends when that returns. */
static void give_up(csn_op *verb_op)
{
    file_op *op = verb_op->request;
    csn_error err = { 0 };
    int r = csn_fail(&err, CSN_E_CANCELLED, "'%.180s': cancelled", op->path);

    op->is_cancelled = true;
    op->on_file = NULL;
    op->on_match = NULL;
    if (op->is_busy)
        (void) shutdown(op->fd, SHUT_RDWR); /* fails only if it is over already */
    else
        finish(op, &no_result, r, &err);
}

int csn_local_file(csn_box *base, const csn_file_call *call, csn_op *verb_op, csn_error *err)
{
    csn_local_box *box = csn_local_box_of(base);
    int r = csn_local_box_need(box, "use files", err);

    if (r < 0)
        return r;
    file_op *op = csn_calloc(1, sizeof(*op));
    if (!op)
        return csn_fail(err, CSN_E_NO_MEMORY, "'%.180s'", call->path);
    *op = (file_op){ .box = box,
                     .fd = -1,
                     .opened = no_result,
                     .verb = call->verb,
                     .max_results = call->max_results,
                     .port = call->flags,
                     .levels = call->mode > 1 ? call->mode : 1,
                     .on_file = call->on_file,
                     .on_match = call->on_match,
                     .fn_user = call->user,
                     .verb_op = verb_op };
    csn_box_ref(base);
    csn_list_append(&csn_local_of(base)->files, &op->link);
    r = start_op(op, call);
    if (r < 0) {
        free_op(op);
        return csn_fail_sys(err, r, "'%.180s'", call->path);
    }
    verb_op->give_up = give_up;
    verb_op->request = op;
    return CSN_OK;
}

void csn_local_file_cancel_all(csn_local *local)
{
    csn_error err = { 0 };
    csn_list *node;

    while ((node = csn_list_pop(&local->files))) {
        int r = csn_fail(&err, CSN_E_CANCELLED, "the engine was closed");
        finish(csn_list_entry(node, file_op, link), &no_result, r, &err);
    }
}
