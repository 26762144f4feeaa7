/* What an observer is told about each execute. */
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/sha256.h"
#include "base/time.h"
#include "base/utf8.h"
#include "interp.h"

enum { PREVIEW = 65536, MAX_KEYS = 50 };

static size_t preview_limit(void)
{
    const char *text = getenv("WS_EXECUTION_MAX_TEXT_CHARS");
    uint64_t n;

    return text && csn_parse_u64(csn_str_of(text), &n) == 0 && n > 0 && n < (1 << 26) ? (size_t) n
                                                                                      : PREVIEW;
}

/* Cut to so many characters; white space collapsed where that is wanted. */
static void put_preview(csn_jw *w, const char *key, const csn_buf *text, bool collapse)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_auto(buf) csn_buf plain = CSN_BUF_INIT;
    size_t limit = preview_limit(), n = 0, at = 0;

    csn_utf8_lossy(NULL, text->data, text->len, &plain);
    for (; at < plain.len && n < limit; n++) {
        unsigned c;
        int step = csn_utf8_next(plain.data + at, plain.len - at, &c);
        bool is_space = collapse && strchr(" \t\r\n\f\v", (int) c) && c < 128;

        if (is_space && (!out.len || out.data[out.len - 1] == ' '))
            n--;
        else if (is_space)
            csn_buf_putc(&out, ' ');
        else
            csn_buf_append(&out, plain.data + at, step > 0 ? (size_t) step : 1);
        at += step > 0 ? (size_t) step : 1;
    }
    if (at < plain.len)
        csn_buf_puts(&out, "...[truncated]");
    else if (collapse && out.len && out.data[out.len - 1] == ' ')
        csn_buf_truncate(&out, out.len - 1);
    csn_jw_key(w, key);
    csn_jw_string(w, out.data, out.len);
}

static void put_common(csn_jw *w, const csn_job *job, const char *phase)
{
    unsigned char digest[32];
    char hex[17], when[CSN_ISO8601_SIZE];

    csn_sha256(job->code.data, job->code.len, digest);
    csn_hex(hex, digest, 8);
    csn_jw_kstr(w, "phase", phase);
    csn_jw_kstr(w, "timestamp", csn_iso8601(csn_wall_ms(), when));
    csn_jw_kstr(w, "execution_profile", job->profile);
    csn_jw_kstr(w, "code_hash", hex);
    put_preview(w, "code_preview", &job->code, true);
}

void csn_event_start(csn_interp *i, const csn_job *job)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    if (!i->o.on_event)
        return;
    csn_jw_begin_object(&w);
    put_common(&w, job, "start");
    csn_jw_end_object(&w);
    i->o.on_event(out.data, i->o.user_data);
}

static const char *kind_of(const csn_exec_result *r)
{
    if (r->kind == CSN_EXEC_ERROR || r->kind == CSN_EXEC_FAILURE)
        return "exception";
    if (r->kind == CSN_EXEC_FINAL)
        return "final_output";
    return r->flags & CSN_RESULT_HAD_STDERR ? "stderr" : "stdout";
}

void csn_event_complete(csn_interp *i, const csn_job *job)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    const csn_exec_result *r = job->result;
    bool is_error = r->kind == CSN_EXEC_ERROR || r->kind == CSN_EXEC_FAILURE;

    if (!i->o.on_event)
        return;
    csn_jw_begin_object(&w);
    put_common(&w, job, "complete");
    csn_jw_kint(&w, "duration_ms", r->duration_us / 1000);
    csn_jw_kbool(&w, "success", !is_error);
    csn_jw_kstr(&w, "result_kind", kind_of(r));
    if (r->kind == CSN_EXEC_FINAL) {
        csn_jw_key(&w, "output_keys");
        csn_jw_begin_array(&w);
        for (size_t k = 0; k < r->n_fields && k < MAX_KEYS; k++)
            csn_jw_string(&w, r->fields[k].name.data, r->fields[k].name.len);
        csn_jw_end_array(&w);
    }
    if (r->raw[0].len)
        put_preview(&w, "stdout_preview", &r->raw[0], false);
    if (r->raw[1].len)
        put_preview(&w, "stderr_preview", &r->raw[1], false);
    if (is_error) {
        csn_jw_kstr(&w, "error_type", r->kind == CSN_EXEC_ERROR ? r->name.data : r->category);
        put_preview(&w, "error", r->kind == CSN_EXEC_ERROR ? &r->value : &r->text, false);
    }
    csn_jw_end_object(&w);
    i->o.on_event(out.data, i->o.user_data);
}

void csn_event_write(csn_interp *i, const char *kind, const char *path, size_t total,
                     size_t written)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    if (!i->o.on_event)
        return;
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "phase", "progress");
    csn_jw_kstr(&w, "event_kind", kind);
    csn_jw_kstr(&w, "path", path);
    csn_jw_kint(&w, "bytes_total", (int64_t) total);
    csn_jw_kint(&w, "bytes_written", (int64_t) written);
    csn_jw_end_object(&w);
    i->o.on_event(out.data, i->o.user_data);
}
