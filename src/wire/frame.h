/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_WIRE_FRAME_H
#define CSN_WIRE_FRAME_H

/* Sending and receiving the frames of wire/wire.h, whole or not at all. No memory is allocated: a body that came in a
 * memfd is mapped. Used by client, keeper and init alike; all return 0 or -errno. */

#include <stddef.h>
#include <stdint.h>

#include "wire/pack.h"
#include "wire/wire.h"

enum { /* who says it: the kinds of frame a receiver is ready to hear */
       CSN_SAID_BY_CLIENT = 1,
       CSN_SAID_TO_CLIENT = 2,
       CSN_SAID_TO_INIT = 4,
       CSN_SAID_BY_INIT = 8,
       CSN_SAID_BY_WORKER = 16,
       CSN_SAID_TO_REMOTE = 32,
       CSN_SAID_BY_REMOTE = 64,
       CSN_SAID_ON_CHANNEL = 128 /* of a WebSocket, by either side */
};

typedef struct csn_out { /* all borrowed */
    uint32_t type, seq;
    const void *fixed; /* the type's struct */
    size_t fixed_len;
    const void *rest; /* packed fields behind it */
    size_t rest_len;
    const int *fds;
    size_t n_fds;
    int flags; /* of sendmsg: MSG_DONTWAIT */
} csn_out;

/* A body too long for a frame travels in a sealed memfd, where its type may. -EAGAIN: MSG_DONTWAIT and no room;
 * -EMSGSIZE: too long or too many descriptors; -EPIPE: the peer is gone. Never raises SIGPIPE. */
int csn_frame_send(int sock, const csn_out *out);

typedef struct csn_msg {
    csn_frame head;
    const char *body;           /* head.len bytes: in the receive buffer, or in `map` */
    void *map;                  /* NULL, or the mapped memfd */
    int fds[CSN_FRAME_FDS_MAX]; /* ours until taken (set to -1); close-on-exec */
    size_t n_fds;               /* without the body's memfd */
} csn_msg;

#define CSN_MSG_INIT \
    { \
        .fds = { -1, -1, -1, -1 } \
    }

/* Receives one frame into `buf`, CSN_FRAME_MAX bytes, which must stay until csn_msg_done(). `said` says which kinds are
 * allowed, `flags` are recvmsg's. 1: a frame that passed csn_frame_check(); 0: the peer is gone; -EBADMSG: a frame
 * that must not be (everything in it was closed; end the connection); -EAGAIN; other -errno. */
int csn_frame_recv(int sock, void *buf, size_t buf_size, uint32_t said, int flags,
                   csn_msg *ret_msg);

/* Unmaps the body and closes every descriptor not taken. Fine on CSN_MSG_INIT and twice. */
void csn_msg_done(csn_msg *msg);
void csn_msg_auto(csn_msg *msg);

int csn_msg_take_fd(csn_msg *msg, size_t i); /* -1 when there is none */

/* Copies the fixed struct out (bodies are not aligned); csn_frame_check() has made sure that it is there. */
void csn_msg_fixed(const csn_msg *msg, void *out, size_t size);
/* What is packed behind a fixed struct of `size` bytes. */
csn_unpack csn_msg_rest(const csn_msg *msg, size_t size);

/* The rules for a type: is it known and of an allowed kind, is the body's length possible, are there not too many
 * descriptors, is the memfd flag allowed. n_fds counts a memfd. 0 or -EBADMSG. Receivers need not call it. */
int csn_frame_check(const csn_frame *head, size_t n_fds, uint32_t said);

#endif
