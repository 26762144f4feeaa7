/* SPDX-License-Identifier: Apache-2.0 */
/* Every decoder of wire/ on arbitrary bytes. The first byte chooses the decoder; what is taken must survive being packed
 * and taken again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/filereq.h"
#include "wire/frame.h"
#include "wire/plan.h"
#include "wire/spec.h"
#include "wire/web.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char again[1 << 20];

static void must(int ok)
{
    if (!ok)
        abort();
}

static void fuzz_plan(csn_unpack u)
{
    csn_pack p = { .data = again, .cap = sizeof(again) };
    const char *bytes = u.data;
    size_t len = u.len;
    csn_plan plan;

    if (csn_plan_unpack(&u, &plan) < 0)
        return;
    csn_plan_pack(&p, &plan);
    must(p.error == 0 && p.len == len && memcmp(again, bytes, len) == 0);
}

static void fuzz_filereq(csn_unpack u)
{
    csn_pack p = { .data = again, .cap = sizeof(again) };
    const char *bytes = u.data;
    size_t len = u.len;
    csn_filereq req;

    if (csn_filereq_unpack(&u, &req) < 0)
        return;
    csn_filereq_pack(&p, &req);
    must(p.error == 0 && p.len == len && memcmp(again, bytes, len) == 0);
}

static void fuzz_spec(csn_unpack u)
{
    static const char *table[4096];
    csn_pack p = { .data = again, .cap = sizeof(again) };
    const char *bytes = u.data;
    size_t len = u.len;
    csn_spec spec;

    if (csn_spec_unpack(&u, table, 4096, &spec) < 0)
        return;
    must(csn_spec_size(spec.argv, spec.env, spec.cwd) == len);
    csn_spec_pack(&p, spec.argv, spec.env, spec.cwd);
    must(p.error == 0 && p.len == len && memcmp(again, bytes, len) == 0);
}

/* The fixed part first, as in a frame. */
static void fuzz_web(csn_unpack u, char which)
{
    csn_pack p = { .data = again, .cap = sizeof(again) };
    const char *bytes = u.data;
    size_t len = u.len, from = 0;
    csn_web_ask ask;
    csn_web_end end;
    csn_web_request request;
    csn_web_answer answer;
    csn_web_last last;
    csn_web_key key;

    if (which == 'q' && len >= sizeof(ask)) {
        memcpy(&ask, bytes, sizeof(ask));
        u.pos = from = sizeof(ask);
        if (csn_web_request_unpack(&u, &ask, &request) < 0)
            return;
        csn_web_request_pack(&p, &request);
    } else if (which == 'a' && len >= sizeof(end)) {
        memcpy(&end, bytes, sizeof(end));
        u.pos = from = sizeof(end);
        if (csn_web_answer_unpack(&u, &end, &answer) < 0)
            return;
        csn_web_answer_pack(&p, &answer);
    } else if (which == 'l') {
        if (csn_web_last_unpack(&u, &last) < 0)
            return;
        csn_web_last_pack(&p, &last);
    } else {
        if (csn_web_key_unpack(&u, &key) < 0)
            return;
        csn_web_key_pack(&p, &key);
    }
    must(p.error == 0 && p.len == len - from && memcmp(again, bytes + from, p.len) == 0);
}

static void fuzz_channel(csn_unpack u, char which)
{
    csn_pack p = { .data = again, .cap = sizeof(again) };
    const char *bytes = u.data, *text = "";
    size_t len = u.len, from = 0, n = 0;
    csn_web_dial dial;
    csn_web_switch sw; /* the size of the other two */
    csn_web_piece piece;
    csn_web_close end;
    csn_web_call call;

    if (which == 'd' && len >= sizeof(dial)) {
        memcpy(&dial, bytes, sizeof(dial));
        u.pos = from = sizeof(dial);
        if (csn_web_call_unpack(&u, &dial, &call) < 0)
            return;
        csn_web_call_pack(&p, &call);
    } else if (which != 'd' && len >= sizeof(sw)) {
        memcpy(&sw, bytes, sizeof(sw));
        memcpy(&piece, bytes, sizeof(piece));
        memcpy(&end, bytes, sizeof(end));
        u.pos = from = sizeof(sw);
        if ((which == 'w'   ? csn_web_switch_unpack(&u, &sw, &text)
             : which == 'i' ? csn_web_piece_unpack(&u, &piece, &text, &n)
                            : csn_web_close_unpack(&u, &end, &text, &n)) < 0)
            return;
        csn_pack_bytes(&p, text, which == 'w' ? strlen(text) : n);
    } else {
        return;
    }
    must(p.error == 0 && p.len == len - from && memcmp(again, bytes + from, p.len) == 0);
}

/* As a client reads a worker's answer. */
static void fuzz_fields(csn_unpack u)
{
    size_t len;

    while (u.error == 0 && u.pos < u.len) {
        const char *s = csn_unpack_str(&u);
        must(s[strlen(s)] == '\0');
        (void) csn_unpack_u32(&u);
        s = csn_unpack_bytes(&u, &len);
        must(s[len] == '\0');
        (void) csn_unpack_i64(&u);
    }
    must(csn_unpack_end(&u) == 0 || u.error < 0 || u.pos < u.len);
}

/* A whole datagram, through a socket: the second byte says who is believed to speak. */
static void fuzz_frame(const uint8_t *data, size_t size)
{
    static int pair[2] = { -1, -1 };
    static char buf[CSN_FRAME_MAX];
    csn_msg msg = CSN_MSG_INIT;

    if (pair[0] < 0)
        must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    if (size < 2 || send(pair[0], data + 1, size - 1, MSG_DONTWAIT) < 0)
        return;
    if (csn_frame_recv(pair[1], buf, sizeof(buf), data[0], MSG_DONTWAIT, &msg) == 1) {
        must(msg.head.len <= size && (msg.head.flags & CSN_FRAME_MEMFD) == 0);
        memcpy(again, msg.body, msg.head.len);
    }
    csn_msg_done(&msg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_unpack u;

    if (size < 1 || size > CSN_FRAME_MAX)
        return 0;
    u = (csn_unpack){ .data = (const char *) data + 1, .len = size - 1 };
    switch (data[0]) {
    case 'p':
        fuzz_plan(u);
        break;
    case 'r':
        fuzz_filereq(u);
        break;
    case 's':
        fuzz_spec(u);
        break;
    case 'q':
    case 'a':
    case 'l':
    case 'k':
        fuzz_web(u, (char) data[0]);
        break;
    case 'd':
    case 'w':
    case 'i':
    case 'c':
        fuzz_channel(u, (char) data[0]);
        break;
    case 'f':
        fuzz_frame(data + 1, size - 1);
        break;
    default:
        fuzz_fields(u);
    }
    return 0;
}
