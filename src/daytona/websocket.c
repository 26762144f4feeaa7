/* SPDX-License-Identifier: Apache-2.0 */
#include "websocket.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "wire/frame.h"

enum { DIAL_MS = 30 * 1000, CUT = 1006, BURST = 16 };

struct csn_websocket {
    csn_loop *loop; /* borrowed */
    int channel;
    csn_source *source;
    const csn_websocket_events *events;
    void *user;
    char *buffer; /* of CSN_FRAME_MAX */
    bool is_open, is_paused, is_ended;
    bool is_busy, is_dropped; /* freed from inside an event */
};

static void free_websocket(csn_websocket *ws)
{
    ws->source = csn_source_remove(ws->source);
    csn_close(&ws->channel);
    free(ws->buffer);
    free(ws);
}

csn_websocket *csn_websocket_free(csn_websocket *ws)
{
    if (ws && ws->is_busy)
        ws->is_dropped = true;
    else if (ws)
        free_websocket(ws);
    return NULL;
}

/* Its last event; the owner frees it in there, or later. */
static void end(csn_websocket *ws, int status, int code, const char *reason, size_t len)
{
    ws->is_ended = true;
    ws->source = csn_source_remove(ws->source);
    if (ws->is_open)
        ws->events->closed(code, reason, len, ws->user);
    else
        ws->events->refused(status, ws->user);
}

static int take_switch(csn_websocket *ws, const csn_msg *msg)
{
    csn_unpack u = csn_msg_rest(msg, sizeof(csn_web_switch));
    csn_web_switch sw;
    const char *message;

    csn_msg_fixed(msg, &sw, sizeof(sw));
    if (ws->is_open || csn_web_switch_unpack(&u, &sw, &message) < 0)
        return -EBADMSG;
    if (sw.failure != CSN_WEB_OK || sw.status != 101) {
        end(ws, sw.failure == CSN_WEB_OK ? sw.status : 0, 0, "", 0);
        return 0;
    }
    ws->is_open = true;
    ws->events->opened(ws->user);
    return 0;
}

static int take_piece(csn_websocket *ws, const csn_msg *msg)
{
    csn_unpack u = csn_msg_rest(msg, sizeof(csn_web_piece));
    csn_web_piece piece;
    const char *data;
    size_t len;

    csn_msg_fixed(msg, &piece, sizeof(piece));
    if (!ws->is_open || csn_web_piece_unpack(&u, &piece, &data, &len) < 0)
        return -EBADMSG;
    ws->is_paused = ws->events->piece(piece.flags & CSN_WEB_TEXT, !(piece.flags & CSN_WEB_MORE),
                                      data, len, ws->user);
    return 0;
}

static int take_close(csn_websocket *ws, const csn_msg *msg)
{
    csn_unpack u = csn_msg_rest(msg, sizeof(csn_web_close));
    csn_web_close close;
    const char *reason;
    size_t len;

    csn_msg_fixed(msg, &close, sizeof(close));
    if (!ws->is_open || csn_web_close_unpack(&u, &close, &reason, &len) < 0)
        return -EBADMSG;
    end(ws, 0, (int) close.code, reason, len);
    return 0;
}

static int take_frame(csn_websocket *ws, const csn_msg *msg)
{
    switch (msg->head.type) {
    case CSN_FRAME_WEB_SWITCHED:
        return take_switch(ws, msg);
    case CSN_FRAME_WEB_PIECE:
        return take_piece(ws, msg);
    default:
        return take_close(ws, msg);
    }
}

static void on_channel(csn_source *src, uint32_t events, void *user);

static void watch(csn_websocket *ws)
{
    if (!ws->source && !ws->is_ended && !ws->is_paused &&
        csn_loop_add(ws->loop, ws->channel, EPOLLIN, on_channel, ws, &ws->source) < 0)
        ws->source = NULL; /* no memory: its owner's time limit ends it */
}

/* An event may wait in turns of its own: meanwhile nothing is read here. */
static void on_channel(csn_source *src, uint32_t events, void *user)
{
    csn_websocket *ws = user;
    int r = 1;

    (void) src;
    (void) events;
    ws->source = csn_source_remove(ws->source);
    ws->is_busy = true;
    for (int i = 0; i < BURST && r == 1 && !ws->is_ended && !ws->is_paused && !ws->is_dropped;
         i++) {
        csn_msg msg = CSN_MSG_INIT;

        r = csn_frame_recv(ws->channel, ws->buffer, CSN_FRAME_MAX, CSN_SAID_ON_CHANNEL,
                           MSG_DONTWAIT, &msg);
        if (r == 1 && take_frame(ws, &msg) < 0)
            r = -EBADMSG;
        csn_msg_done(&msg);
    }
    if (!ws->is_dropped && !ws->is_ended && r != 1 && r != -EAGAIN && r != -EINTR)
        end(ws, 0, CUT, "", 0); /* the helper is gone, or speaks nonsense */
    ws->is_busy = false;
    if (ws->is_dropped)
        free_websocket(ws);
    else
        watch(ws);
}

void csn_websocket_resume(csn_websocket *ws)
{
    ws->is_paused = false;
    if (!ws->is_busy)
        watch(ws);
}

int csn_websocket_send(csn_websocket *ws, const void *data, size_t len)
{
    char packed[CSN_WEB_PIECE_MAX + 16];
    csn_pack p = { .data = packed, .cap = sizeof(packed) };
    csn_web_piece piece = { 0 };
    csn_out out = { .type = CSN_FRAME_WEB_PIECE,
                    .fixed = &piece,
                    .fixed_len = sizeof(piece),
                    .rest = packed,
                    .flags = MSG_DONTWAIT };

    csn_pack_bytes(&p, data, len);
    if (p.error < 0 || !ws->is_open)
        return -EPIPE;
    out.rest_len = p.len;
    return csn_frame_send(ws->channel, &out);
}

csn_websocket *csn_websocket_dial(csn_webline *line, const char *url, const char *offer,
                                  const csn_websocket_events *events, void *user, csn_error *err)
{
    csn_web_call call = { .dial = { .flags = CSN_WEB_WITH_KEY, .timeout_ms = DIAL_MS },
                          .url = url,
                          .offer = offer };
    csn_websocket *ws = csn_calloc(1, sizeof(*ws));
    csn_auto(fd) int far = -1;
    int pair[2], r = 0;

    if (ws)
        *ws = (csn_websocket){ .loop = line->loop,
                               .channel = -1,
                               .events = events,
                               .user = user,
                               .buffer = csn_malloc(CSN_FRAME_MAX) };
    if (!ws || !ws->buffer)
        r = -ENOMEM;
    else if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        r = -errno;
    if (r == 0) {
        ws->channel = pair[0];
        far = pair[1];
        r = csn_loop_add(line->loop, ws->channel, EPOLLIN, on_channel, ws, &ws->source);
    }
    if (r == 0)
        r = csn_webline_dial(line, &call, far);
    if (r == 0)
        return ws;
    if (ws)
        free_websocket(ws);
    (void) csn_fail_sys(err, r, "open a WebSocket");
    return NULL;
}
