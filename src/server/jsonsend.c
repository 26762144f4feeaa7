/* SPDX-License-Identifier: Apache-2.0 */
#include "server/jsonsend.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/utf8.h"

enum { SHORT_MAX = 256 << 10, PIECE = 32 << 10 };

typedef struct sending {
    csn_req *req;
    csn_jsonsend_part parts[CSN_JSONSEND_PARTS];
    size_t n, at;  /* parts */
    size_t offset; /* in the present one */
    csn_utf8_state utf8;
    void (*done)(void *user);
    void *user;
} sending;

static void put_escaped(csn_buf *out, const char *data, size_t len)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&text, false);

    csn_jw_string(&w, data, len);
    if (text.error < 0)
        out->error = text.error;
    else
        (void) csn_buf_append(out, text.data + 1, text.len - 2); /* sticky; without the quotes */
}

static void put_text(sending *s, const char *data, size_t len, bool is_last, csn_buf *out)
{
    csn_auto(buf) csn_buf good = CSN_BUF_INIT;

    if (s->offset == 0)
        (void) csn_buf_putc(out, '"'); /* sticky, as all of these */
    if (csn_utf8_lossy(&s->utf8, data, len, &good) < 0 ||
        (is_last && csn_utf8_finish(&s->utf8, &good) < 0))
        out->error = good.error;
    put_escaped(out, good.data, good.len);
    if (is_last)
        (void) csn_buf_putc(out, '"');
}

/* Appends the next piece. False: that was all. */
static bool step(sending *s, csn_buf *out)
{
    const csn_jsonsend_part *p = &s->parts[s->at];
    size_t n;
    bool is_last;

    if (s->at == s->n)
        return false;
    n = p->len - s->offset < PIECE ? p->len - s->offset : PIECE;
    is_last = s->offset + n == p->len;
    if (p->is_text)
        put_text(s, p->data + s->offset, n, is_last, out);
    else
        (void) csn_buf_append(out, p->data + s->offset, n);
    s->offset += n;
    if (is_last) {
        s->at++;
        s->offset = 0;
        s->utf8 = (csn_utf8_state){ 0 };
    }
    return out->error == 0;
}

static void finish(sending *s)
{
    void (*done)(void *user) = s->done;
    void *user = s->user;

    free(s);
    done(user);
}

static void pump(sending *s)
{
    bool goes_on = true, has_room = true;
    int error = 0;

    while (goes_on && has_room) {
        csn_auto(buf) csn_buf out = CSN_BUF_INIT;
        goes_on = step(s, &out);
        error = out.error;
        if (error == 0 && out.len > 0)
            has_room = csn_req_write(s->req, out.data, out.len);
    }
    if (goes_on)
        return;
    csn_req *req = s->req;
    finish(s);
    if (error < 0)
        csn_req_abort(req);
    else
        csn_req_end(req);
}

static void on_drain(csn_req *req, void *user)
{
    (void) req;
    pump(user);
}

static void on_gone(csn_req *req, void *user)
{
    (void) req;
    finish(user);
}

static void send_whole(sending *s, int status)
{
    csn_buf body = CSN_BUF_INIT;
    csn_req *req = s->req;

    while (step(s, &body))
        ;
    if (body.error < 0) {
        csn_buf_free(&body);
        csn_req_error(req, 500, NULL, "out of memory");
    } else {
        csn_req_json(req, status, &body);
    }
    finish(s);
}

void csn_jsonsend(csn_req *req, int status, const csn_jsonsend_part *parts, size_t n,
                  void (*done)(void *user), void *user)
{
    sending *s = csn_calloc(1, sizeof(*s));
    size_t total = 0;

    if (!s) {
        csn_req_error(req, 500, NULL, "out of memory");
        done(user);
        return;
    }
    s->req = req;
    s->n = n;
    s->done = done;
    s->user = user;
    memcpy(s->parts, parts, n * sizeof(*parts));
    for (size_t i = 0; i < n; i++)
        total += parts[i].len;
    if (total <= SHORT_MAX) {
        send_whole(s, status);
        return;
    }
    csn_req_keep(req, on_gone, s);
    csn_req_begin(req, status, "application/json; charset=utf-8", -1);
    csn_req_on_drain(req, on_drain, s);
    pump(s);
}
