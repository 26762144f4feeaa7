/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "wire/web.h"

/* Padding would carry bytes of one process's stack to another. */
#define PACKED_TO(type, size) _Static_assert(sizeof(type) == (size), #type " has padding")
PACKED_TO(csn_frame, 16);
PACKED_TO(csn_spawn, 40);
PACKED_TO(csn_started, 8);
PACKED_TO(csn_signal, 16);
PACKED_TO(csn_process_ref, 8);
PACKED_TO(csn_wait, 16);
PACKED_TO(csn_process_state, 128);
PACKED_TO(csn_stop, 8);
PACKED_TO(csn_timers, 16);
PACKED_TO(csn_resize, 16);
PACKED_TO(csn_done, 8);
PACKED_TO(csn_wire_error, 256);
PACKED_TO(csn_init_spawn, 32);
PACKED_TO(csn_init_kill, 16);
PACKED_TO(csn_init_started, 8);
PACKED_TO(csn_init_failed, 16);
PACKED_TO(csn_init_exited, 40);
PACKED_TO(csn_file_entry, 32);
PACKED_TO(csn_file_hit, 8);
PACKED_TO(csn_file_done, 16);
PACKED_TO(csn_web_ask, 32);
PACKED_TO(csn_web_end, 24);
PACKED_TO(csn_web_dial, 16);
PACKED_TO(csn_web_switch, 8);
PACKED_TO(csn_web_piece, 8);
PACKED_TO(csn_web_close, 8);

enum {
    ALONE = 0,
    PACKED = 1,
    BLOB = 2
}; /* behind the struct: nothing; packed fields; those, perhaps in a memfd */

static const struct rule {
    uint16_t fixed; /* bytes of the struct */
    uint8_t said;
    uint8_t n_fds; /* at most, without a memfd */
    uint8_t tail;
} rules[256] = {
    [CSN_FRAME_PLAN] = { 0, CSN_SAID_BY_CLIENT, 3, BLOB },
    [CSN_FRAME_SPAWN] = { sizeof(csn_spawn), CSN_SAID_BY_CLIENT, 3, BLOB },
    [CSN_FRAME_SIGNAL] = { sizeof(csn_signal), CSN_SAID_BY_CLIENT, 0, ALONE },
    [CSN_FRAME_ATTACH] = { sizeof(csn_process_ref), CSN_SAID_BY_CLIENT, 0, ALONE },
    [CSN_FRAME_WAIT] = { sizeof(csn_wait), CSN_SAID_BY_CLIENT, 0, ALONE },
    [CSN_FRAME_LIST] = { 0, CSN_SAID_BY_CLIENT, 0, ALONE },
    [CSN_FRAME_STAT] = { 0, CSN_SAID_BY_CLIENT, 0, ALONE },
    [CSN_FRAME_STOP] = { sizeof(csn_stop), CSN_SAID_BY_CLIENT, 0, ALONE },
    [CSN_FRAME_LEND] = { 0, CSN_SAID_BY_CLIENT, 0, ALONE },
    [CSN_FRAME_THAW] = { 0, CSN_SAID_BY_CLIENT, 0, ALONE },
    [CSN_FRAME_TIMERS] = { sizeof(csn_timers), CSN_SAID_BY_CLIENT, 0, ALONE },
    [CSN_FRAME_CLOSE_STDIN] = { sizeof(csn_process_ref), CSN_SAID_BY_CLIENT, 0, ALONE },
    [CSN_FRAME_RESIZE] = { sizeof(csn_resize), CSN_SAID_BY_CLIENT, 0, ALONE },

    [CSN_FRAME_READY] = { sizeof(csn_box_state), CSN_SAID_TO_CLIENT, 0, ALONE },
    [CSN_FRAME_STARTED] = { sizeof(csn_started), CSN_SAID_TO_CLIENT, 0, ALONE },
    [CSN_FRAME_EXITED] = { sizeof(csn_process_state), CSN_SAID_TO_CLIENT, 0, ALONE },
    /* The smaller of the two structs it may hold: the asker knows which and compares. */
    [CSN_FRAME_STATE] = { sizeof(csn_process_state), CSN_SAID_TO_CLIENT, 3, PACKED },
    [CSN_FRAME_DONE] = { sizeof(csn_done), CSN_SAID_TO_CLIENT, 2, ALONE },
    [CSN_FRAME_ERROR] = { sizeof(csn_wire_error), CSN_SAID_TO_CLIENT, 0, ALONE },

    [CSN_FRAME_INIT_SPAWN] = { sizeof(csn_init_spawn), CSN_SAID_TO_INIT, 3, BLOB },
    [CSN_FRAME_INIT_KILL] = { sizeof(csn_init_kill), CSN_SAID_TO_INIT, 0, ALONE },

    [CSN_FRAME_INIT_READY] = { 0, CSN_SAID_BY_INIT, 0, ALONE },
    [CSN_FRAME_INIT_STARTED] = { sizeof(csn_init_started), CSN_SAID_BY_INIT, 1, ALONE },
    [CSN_FRAME_INIT_FAILED] = { sizeof(csn_init_failed), CSN_SAID_BY_INIT, 0, ALONE },
    [CSN_FRAME_INIT_EXITED] = { sizeof(csn_init_exited), CSN_SAID_BY_INIT, 0, ALONE },

    [CSN_FRAME_FILE_FD] = { sizeof(csn_file_done), CSN_SAID_BY_WORKER, 1, ALONE },
    [CSN_FRAME_FILE_ENTRY] = { sizeof(csn_file_entry), CSN_SAID_BY_WORKER, 0, PACKED },
    [CSN_FRAME_FILE_MATCH] = { sizeof(csn_file_hit), CSN_SAID_BY_WORKER, 0, PACKED },
    [CSN_FRAME_FILE_DONE] = { sizeof(csn_file_done), CSN_SAID_BY_WORKER, 0, ALONE },

    [CSN_FRAME_WEB_KEY] = { 0, CSN_SAID_TO_REMOTE, 0, PACKED },
    [CSN_FRAME_WEB_ASK] = { sizeof(csn_web_ask), CSN_SAID_TO_REMOTE, 2, PACKED },
    [CSN_FRAME_WEB_CANCEL] = { 0, CSN_SAID_TO_REMOTE, 0, ALONE },
    [CSN_FRAME_WEB_LAST] = { 0, CSN_SAID_TO_REMOTE, 0, PACKED },
    [CSN_FRAME_WEB_DIAL] = { sizeof(csn_web_dial), CSN_SAID_TO_REMOTE, 1, PACKED },
    [CSN_FRAME_WEB_ANSWER] = { sizeof(csn_web_end), CSN_SAID_BY_REMOTE, 0, BLOB },
    [CSN_FRAME_WEB_SWITCHED] = { sizeof(csn_web_switch), CSN_SAID_ON_CHANNEL, 0, PACKED },
    [CSN_FRAME_WEB_PIECE] = { sizeof(csn_web_piece), CSN_SAID_ON_CHANNEL, 0, PACKED },
    [CSN_FRAME_WEB_CLOSED] = { sizeof(csn_web_close), CSN_SAID_ON_CHANNEL, 0, PACKED },
};

_Static_assert(sizeof(csn_box_state) >= sizeof(csn_process_state), "STATE's rule");

static int check_memfd(const csn_frame *head, const struct rule *rule, size_t n_fds)
{
    if (rule->tail != BLOB || n_fds == 0 || n_fds > rule->n_fds + 1u || n_fds > CSN_FRAME_FDS_MAX)
        return -EBADMSG;
    return head->len >= rule->fixed && head->len > 0 && head->len <= CSN_BLOB_MAX ? 0 : -EBADMSG;
}

int csn_frame_check(const csn_frame *head, size_t n_fds, uint32_t said)
{
    const struct rule *rule = head->type < 256 ? &rules[head->type] : &rules[0];

    if (!(rule->said & said) || (head->flags & ~(uint32_t) CSN_FRAME_MEMFD))
        return -EBADMSG;
    if (head->flags & CSN_FRAME_MEMFD)
        return check_memfd(head, rule, n_fds);
    if (n_fds > rule->n_fds || head->len < rule->fixed)
        return -EBADMSG;
    if (rule->tail == ALONE && head->len != rule->fixed)
        return -EBADMSG;
    return head->len <= CSN_FRAME_MAX - sizeof(csn_frame) ? 0 : -EBADMSG;
}

/* --- sending ---------------------------------------------------------------------------------------------------- */

static int make_blob(const csn_out *out, int *ret_fd)
{
    const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    int r, fd = memfd_create("csn-frame", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -errno;
    r = csn_write_all(fd, out->fixed, out->fixed_len);
    if (r == 0)
        r = csn_write_all(fd, out->rest, out->rest_len);
    if (r == 0 && fcntl(fd, F_ADD_SEALS, seals) < 0)
        r = -errno;
    if (r < 0) {
        (void) close(fd); /* nothing of it is wanted */
        return r;
    }
    *ret_fd = fd;
    return 0;
}

static int send_raw(int sock, struct iovec *iov, size_t n_iov, const int *fds, size_t n_fds,
                    int flags)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int) * CSN_FRAME_FDS_MAX)];
    } control;
    struct msghdr msg = { .msg_iov = iov };
    ssize_t n;

    msg.msg_iovlen = (__typeof__(msg.msg_iovlen)) n_iov;
    if (n_fds > 0) {
        memset(&control, 0, sizeof(control));
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = (__typeof__(control.head.cmsg_len)) CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(&control.head), fds, sizeof(int) * n_fds);
        msg.msg_control = &control;
        msg.msg_controllen = (__typeof__(msg.msg_controllen)) CMSG_SPACE(sizeof(int) * n_fds);
    }
    n = csn_sendmsg(sock, &msg, flags);
    if (n < 0)
        return n == -ECONNRESET ? -EPIPE : (int) n; /* it left with unread frames: left all the same */
    return 0;                                       /* SEQPACKET: whole or not at all */
}

static int send_blob(int sock, csn_frame *head, const csn_out *out)
{
    struct iovec iov = { head, sizeof(*head) };
    int fds[CSN_FRAME_FDS_MAX], blob = -1, r;

    if (out->n_fds >= CSN_FRAME_FDS_MAX)
        return -EMSGSIZE;
    head->flags |= CSN_FRAME_MEMFD;
    if (csn_frame_check(head, out->n_fds + 1, ~0u) < 0)
        return -EMSGSIZE;
    r = make_blob(out, &blob);
    if (r < 0)
        return r;
    if (out->n_fds > 0)
        memcpy(fds, out->fds, sizeof(int) * out->n_fds);
    fds[out->n_fds] = blob;
    r = send_raw(sock, &iov, 1, fds, out->n_fds + 1, out->flags);
    (void) close(blob); /* sent or not, our copy goes */
    return r;
}

int csn_frame_send(int sock, const csn_out *out)
{
    csn_frame head = { .type = out->type, .seq = out->seq };
    struct iovec iov[3] = {
        { &head, sizeof(head) },
        { (void *) (uintptr_t) out->fixed, out->fixed_len },
        { (void *) (uintptr_t) out->rest, out->rest_len },
    };

    if (out->fixed_len > CSN_BLOB_MAX || out->rest_len > CSN_BLOB_MAX - out->fixed_len)
        return -EMSGSIZE;
    head.len = (uint32_t) (out->fixed_len + out->rest_len);
    if (head.len > CSN_FRAME_MAX - sizeof(head))
        return send_blob(sock, &head, out);
    if (csn_frame_check(&head, out->n_fds, ~0u) < 0)
        return -EMSGSIZE;
    return send_raw(sock, iov, 3, out->fds, out->n_fds, out->flags);
}

/* --- receiving -------------------------------------------------------------------------------------------------- */

/* Moves the descriptors of all control messages into msg; surplus ones are closed. Returns how many came. */
static size_t collect_fds(struct msghdr *raw, csn_msg *msg)
{
    size_t n_all = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(raw); c; c = CMSG_NXTHDR(raw, c)) {
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (msg->n_fds < CSN_FRAME_FDS_MAX)
                msg->fds[msg->n_fds++] = fd;
            else
                (void) close(fd); /* nobody asked for it */
            n_all++;
        }
    }
    return n_all;
}

/* The last descriptor holds the body: nobody may be able to change or cut it under us. */
static int map_blob(csn_msg *msg)
{
    const int must = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    int fd = msg->n_fds > 0 ? msg->fds[msg->n_fds - 1] : -1;
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;
    void *map;

    if (seals < 0 || (seals & must) != must)
        return -EBADMSG;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != (off_t) msg->head.len)
        return -EBADMSG;
    map = mmap(NULL, msg->head.len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    (void) close(fd); /* the mapping stays */
    msg->fds[--msg->n_fds] = -1;
    msg->map = map;
    msg->body = map;
    return 0;
}

static int accept_frame(csn_msg *msg, const char *buf, size_t n, size_t n_fds, uint32_t said)
{
    if (n < sizeof(msg->head))
        return -EBADMSG;
    memcpy(&msg->head, buf, sizeof(msg->head));
    if (csn_frame_check(&msg->head, n_fds, said) < 0)
        return -EBADMSG;
    if (msg->head.flags & CSN_FRAME_MEMFD)
        return n == sizeof(msg->head) ? map_blob(msg) : -EBADMSG;
    msg->body = buf + sizeof(msg->head);
    return n - sizeof(msg->head) == msg->head.len ? 0 : -EBADMSG;
}

int csn_frame_recv(int sock, void *buf, size_t buf_size, uint32_t said, int flags, csn_msg *ret_msg)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int) * CSN_FRAME_FDS_MAX) + CMSG_SPACE(64)];
    } control;
    struct iovec iov = { buf, buf_size };
    struct msghdr raw = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control };
    csn_msg msg = CSN_MSG_INIT;
    size_t n_fds;
    ssize_t n;
    int r;

    raw.msg_controllen = sizeof(control);
    n = csn_recvmsg(sock, &raw, flags);
    if (n < 0)
        return n == -ECONNRESET ? 0 : (int) n;
    n_fds = collect_fds(&raw, &msg);
    if (n == 0 && n_fds == 0)
        return 0;
    r = raw.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EBADMSG
                                                 : accept_frame(&msg, buf, (size_t) n, n_fds, said);
    if (r < 0) {
        csn_msg_done(&msg);
        return r;
    }
    *ret_msg = msg;
    return 1;
}

void csn_msg_done(csn_msg *msg)
{
    int saved = errno;

    if (msg->map)
        (void) munmap(msg->map, msg->head.len); /* it was mapped with this length */
    msg->map = NULL;
    msg->body = "";
    msg->head.len = 0;
    for (size_t i = 0; i < msg->n_fds; i++)
        if (msg->fds[i] >= 0)
            (void) close(csn_msg_take_fd(msg, i)); /* not wanted */
    msg->n_fds = 0;
    errno = saved;
}

void csn_msg_auto(csn_msg *msg)
{
    csn_msg_done(msg);
}

int csn_msg_take_fd(csn_msg *msg, size_t i)
{
    int fd = i < msg->n_fds ? msg->fds[i] : -1;

    if (i < msg->n_fds)
        msg->fds[i] = -1;
    return fd;
}

void csn_msg_fixed(const csn_msg *msg, void *out, size_t size)
{
    size_t n = size < msg->head.len ? size : msg->head.len;

    memset(out, 0, size);
    if (n > 0)
        memcpy(out, msg->body, n);
}

csn_unpack csn_msg_rest(const csn_msg *msg, size_t size)
{
    csn_unpack u = { .data = msg->body, .len = msg->head.len, .pos = size };

    if (size > u.len)
        u.error = -EBADMSG;
    return u;
}
