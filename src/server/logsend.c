/* SPDX-License-Identifier: Apache-2.0 */
#include "server/logsend.h"

#include <stdlib.h>

#include "base/fault.h"
#include "base/utf8.h"

enum { SHORT_MAX = 256 << 10 };

typedef struct section {
    const char *key; /* NULL: the end */
    int which;
    bool is_marked;
} section;

typedef struct logsend {
    csn_session_watch watch;
    csn_req *req;
    csn_session_command *command;
    bool is_json;
    section sections[4];
    size_t at;      /* of sections */
    bool is_inside; /* a section's string is open */
    csn_cmdlog_cursor cursor;
    csn_utf8_state utf8;
    int64_t limit;
} logsend;

static void free_it(logsend *s)
{
    csn_session_watch_remove(&s->watch);
    csn_cmdlog_cursor_done(&s->cursor);
    free(s);
}

/* Appends text as the inside of a JSON string. */
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

static void begin_section(logsend *s, csn_buf *out)
{
    s->cursor.at = s->cursor.left = 0;
    s->cursor.marked = 0;
    s->cursor.limit = s->limit;
    s->utf8 = (csn_utf8_state){ 0 };
    s->is_inside = true;
    if (s->is_json)
        (void) csn_buf_printf(out, "%s\"%s\":\"", s->at > 0 ? "," : "", s->sections[s->at].key);
}

static void end_section(logsend *s, csn_buf *out)
{
    csn_auto(buf) csn_buf rest = CSN_BUF_INIT;

    if (s->is_json) {
        (void) csn_utf8_finish(&s->utf8, &rest);
        (void) csn_buf_append(out, rest.data, rest.len);
        (void) csn_buf_putc(out, '"');
    }
    s->is_inside = false;
    s->at++;
}

/* Appends the next piece. False: that was all. */
static bool step(logsend *s, csn_buf *out)
{
    csn_auto(buf) csn_buf raw = CSN_BUF_INIT, text = CSN_BUF_INIT;
    const section *sec = &s->sections[s->at];
    bool is_more;

    if (!sec->key)
        return false;
    if (!s->is_inside)
        begin_section(s, out);
    /* An empty log has no limit to speak of: 0 means none to the cursor. */
    is_more = s->limit > 0 &&
              csn_cmdlog_read(&s->command->log, &s->cursor, sec->which, sec->is_marked, &raw);
    if (raw.error < 0)
        out->error = raw.error;
    if (s->is_json) {
        (void) csn_utf8_lossy(&s->utf8, raw.data, raw.len, &text); /* seen in out, by its length */
        put_escaped(out, text.data, text.len);
    } else {
        (void) csn_buf_append(out, raw.data, raw.len);
    }
    if (!is_more)
        end_section(s, out);
    return out->error == 0;
}

static void put_head(const logsend *s, csn_logsend_kind kind, csn_buf *out)
{
    if (!s->is_json)
        return;
    (void) csn_buf_putc(out, '{'); /* sticky */
    if (kind == CSN_LOGSEND_EXEC)
        (void) csn_buf_printf(out, "\"cmdId\":\"%s\",\"exitCode\":%d,", s->command->id,
                              s->command->exit_code);
}

/* ---- long ones -------------------------------------------------------------------------------------------------- */

static void pump(logsend *s)
{
    bool goes_on = true, has_room = true;

    while (goes_on && has_room) {
        csn_auto(buf) csn_buf out = CSN_BUF_INIT;
        goes_on = step(s, &out);
        if (!goes_on && out.error == 0 && s->is_json)
            (void) csn_buf_putc(&out, '}');
        if (out.error < 0) {
            csn_req *req = s->req;
            free_it(s);
            csn_req_abort(req);
            return;
        }
        if (out.len > 0)
            has_room = csn_req_write(s->req, out.data, out.len);
    }
    if (!goes_on) {
        csn_req *req = s->req;
        free_it(s);
        csn_req_end(req);
    }
}

static void on_drain(csn_req *req, void *user)
{
    (void) req;
    pump(user);
}

static void on_gone(csn_req *req, void *user)
{
    (void) req;
    free_it(user);
}

/* The session goes while we read its log. */
static void on_changed(csn_session_watch *watch, csn_session_command *command)
{
    logsend *s = csn_container_of(watch, logsend, watch);
    csn_req *req = s->req;

    if (!command->is_dropped)
        return;
    free_it(s);
    csn_req_abort(req);
}

static void send_long(logsend *s, csn_buf *head)
{
    s->watch.changed = on_changed;
    csn_session_watch_add(s->command, &s->watch);
    csn_req_keep(s->req, on_gone, s);
    csn_req_begin(s->req, 200,
                  s->is_json ? "application/json; charset=utf-8" : "text/plain; charset=utf-8", -1);
    csn_req_on_drain(s->req, on_drain, s);
    if (head->len > 0)
        (void) csn_req_write(s->req, head->data, head->len);
    pump(s);
}

static void send_short(logsend *s, csn_buf *body)
{
    csn_req *req = s->req;
    bool is_json = s->is_json;

    while (step(s, body))
        ;
    free_it(s);
    if (is_json)
        (void) csn_buf_putc(body, '}');
    if (body->error < 0)
        csn_req_error(req, 500, NULL, "the log can't be read");
    else if (is_json)
        csn_req_json(req, 200, body);
    else
        csn_req_text(req, 200, "text/plain; charset=utf-8", body->data, body->len);
}

void csn_logsend(csn_req *req, csn_session_command *command, csn_logsend_kind kind,
                 csn_log_style style)
{
    csn_auto(buf) csn_buf head = CSN_BUF_INIT;
    logsend *s = csn_calloc(1, sizeof(*s));

    if (!s) {
        csn_req_error(req, 500, NULL, "out of memory");
        return;
    }
    s->req = req;
    s->command = command;
    s->is_json = kind == CSN_LOGSEND_EXEC || style == CSN_LOG_JSON;
    s->limit = command->log.size;
    s->sections[0] = (section){ "output", 0, style != CSN_LOG_PLAIN };
    if (style == CSN_LOG_JSON) {
        s->sections[1] = (section){ "stdout", CSN_STDOUT, false };
        s->sections[2] = (section){ "stderr", CSN_STDERR, false };
    }
    put_head(s, kind, &head);
    if (s->limit <= SHORT_MAX)
        send_short(s, &head);
    else
        send_long(s, &head);
}
