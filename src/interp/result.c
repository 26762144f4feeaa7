#include "result.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/fault.h"
#include "base/utf8.h"
#include "pyjson.h"

csn_exec_result *csn_exec_result_new(size_t output_max)
{
    csn_exec_result *r = csn_calloc(1, sizeof(*r));
    const csn_buf empty = CSN_BUF_INIT_MAX((size_t) 1 << 30);

    if (!r)
        return NULL;
    r->text = r->name = r->value = r->trace = r->final_json = empty;
    for (int i = 0; i < 2; i++)
        r->raw[i] = (csn_buf) CSN_BUF_INIT_MAX(output_max);
    r->category = r->phase = "";
    return r;
}

csn_exec_result *csn_result_free(csn_exec_result *r)
{
    if (!r)
        return NULL;
    for (size_t i = 0; i < r->n_fields; i++) {
        csn_buf_free(&r->fields[i].name);
        csn_buf_free(&r->fields[i].text);
        csn_buf_free(&r->fields[i].plain);
    }
    free(r->fields);
    csn_buf_free(&r->raw[0]);
    csn_buf_free(&r->raw[1]);
    csn_buf_free(&r->text);
    csn_buf_free(&r->name);
    csn_buf_free(&r->value);
    csn_buf_free(&r->trace);
    csn_buf_free(&r->final_json);
    free(r);
    return NULL;
}

static csn_str str_of(const csn_json *v)
{
    return csn_str_n(csn_json_str(v, ""), csn_json_str_len(v));
}

/* The next text behind the frame, by its length; an older driver in a session that was kept has it in the frame. */
static int take_text(const csn_json *v, csn_str *behind, csn_str *ret)
{
    int64_t len = csn_json_int(v, -1);

    if (csn_json_type_of(v) == CSN_JSON_STRING) {
        *ret = str_of(v);
        return 0;
    }
    if (len < 0 || (uint64_t) len > behind->len)
        return -EBADMSG;
    *ret = csn_str_n(behind->data, (size_t) len);
    *behind = csn_str_n(behind->data + len, behind->len - (size_t) len);
    return 0;
}

/* One field: [name as JSON text, type, length of the value's JSON text]. */
static int take_field(csn_final_field *f, const csn_json *v, csn_str *behind, csn_buf *all)
{
    csn_str text;
    csn_buf *const bufs[] = { &f->name, &f->text, &f->plain };

    for (size_t i = 0; i < CSN_COUNT(bufs); i++)
        *bufs[i] = (csn_buf) CSN_BUF_INIT_MAX((size_t) 1 << 30);
    if (take_text(csn_json_at(v, 2), behind, &text) < 0)
        return -EBADMSG;
    if (csn_py_string(str_of(csn_json_at(v, 0)), &f->name) < 0 ||
        csn_py_render(str_of(csn_json_at(v, 0)), all) < 0)
        return -EBADMSG;
    csn_buf_putc(all, ':');
    if (csn_py_render(text, all) < 0)
        return -EBADMSG;
    csn_buf_append(&f->text, text.data, text.len);
    f->is_string = text.len && text.data[0] == '"';
    return f->is_string ? csn_py_string(text, &f->plain) : f->text.error;
}

int csn_result_take_final(csn_exec_result *r, const csn_json *fields, csn_str behind)
{
    size_t n = csn_json_count(fields);

    if (r->flags & CSN_RESULT_HAS_FINAL)
        return 0; /* the first one counts */
    if (csn_json_type_of(fields) != CSN_JSON_ARRAY)
        return -EBADMSG;
    r->fields = csn_calloc(n ? n : 1, sizeof(*r->fields));
    if (!r->fields)
        return -ENOMEM;
    csn_buf_putc(&r->final_json, '{');
    for (size_t i = 0; i < n; i++) {
        int e;

        if (i)
            csn_buf_putc(&r->final_json, ',');
        r->n_fields = i + 1;
        e = take_field(&r->fields[i], csn_json_at(fields, i), &behind, &r->final_json);
        if (e < 0)
            return e;
    }
    csn_buf_putc(&r->final_json, '}');
    if (behind.len)
        return -EBADMSG;
    r->flags |= CSN_RESULT_HAS_FINAL;
    return r->final_json.error;
}

int csn_result_take_error(csn_exec_result *r, const csn_json *error)
{
    if (csn_json_type_of(error) == CSN_JSON_NULL)
        return 0;
    if (csn_json_type_of(error) != CSN_JSON_ARRAY || csn_json_count(error) != 3 ||
        csn_py_string(str_of(csn_json_at(error, 0)), &r->name) < 0 ||
        csn_py_string(str_of(csn_json_at(error, 1)), &r->value) < 0 ||
        csn_py_string(str_of(csn_json_at(error, 2)), &r->trace) < 0)
        return -EBADMSG;
    r->kind = CSN_EXEC_ERROR;
    return 0;
}

void csn_exec_result_fail(csn_exec_result *r, int code, const char *category, const char *phase,
                          const char *fmt, ...)
{
    va_list args;

    r->kind = CSN_EXEC_FAILURE;
    r->code = code;
    r->category = category;
    r->phase = phase;
    csn_buf_clear(&r->text);
    va_start(args, fmt);
    csn_buf_vprintf(&r->text, fmt, args);
    va_end(args);
}

static bool is_blank(csn_str s)
{
    return csn_str_trim(s).len == 0;
}

/* Trimmed stdout, a line feed, then `more`; only the latter if nothing was printed. */
static void put_with_stdout(csn_exec_result *r, csn_str more)
{
    csn_str out = csn_str_trim(csn_str_n(r->raw[0].data, r->raw[0].len));

    if (out.len) {
        csn_utf8_lossy(NULL, out.data, out.len, &r->text);
        csn_buf_putc(&r->text, '\n');
    }
    csn_utf8_lossy(NULL, more.data, more.len, &r->text);
}

static void put_error(csn_exec_result *r)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT_MAX((size_t) 1 << 30);

    if (!r->name.len && !r->value.len)
        csn_buf_puts(&line, "Execution failed");
    else
        csn_buf_printf(&line, "%s%s%s", r->name.data, r->name.len && r->value.len ? ": " : "",
                       r->value.data);
    put_with_stdout(r, csn_str_n(line.data, line.len));
}

void csn_exec_result_finish(csn_exec_result *r)
{
    csn_str err = csn_str_n(r->raw[1].data, r->raw[1].len);

    if (!is_blank(err))
        r->flags |= CSN_RESULT_HAD_STDERR;
    for (int i = 0; i < 2; i++)
        if (r->produced[i] > (int64_t) r->raw[i].len)
            r->flags |= i ? CSN_RESULT_STDERR_CUT : CSN_RESULT_STDOUT_CUT;
    if (r->kind == CSN_EXEC_FAILURE)
        return;
    if (r->kind == CSN_EXEC_ERROR) {
        put_error(r);
    } else if (r->flags & CSN_RESULT_HAS_FINAL) {
        r->kind = CSN_EXEC_FINAL; /* its text is the fields */
    } else if (r->flags & CSN_RESULT_HAD_STDERR) {
        put_with_stdout(r, err);
    } else {
        csn_utf8_lossy(NULL, r->raw[0].data, r->raw[0].len, &r->text);
    }
}

/* ---- looking at it ---------------------------------------------------------------------------------------------- */

csn_exec_kind csn_result_kind(const csn_exec_result *r)
{
    return r->kind;
}

static const char *give(const csn_buf *buf, size_t *ret_len)
{
    if (ret_len)
        *ret_len = buf->len;
    return buf->data;
}

const char *csn_result_text(const csn_exec_result *r, size_t *ret_len)
{
    return give(r->kind == CSN_EXEC_FINAL ? &r->final_json : &r->text, ret_len);
}

const char *csn_result_stream(const csn_exec_result *r, int stream, size_t *ret_len)
{
    return give(&r->raw[stream == 2], ret_len);
}

const char *csn_result_error_name(const csn_exec_result *r)
{
    return r->name.data;
}

const char *csn_result_error_value(const csn_exec_result *r)
{
    return r->value.data;
}

const char *csn_result_traceback(const csn_exec_result *r)
{
    return r->trace.data;
}

const char *csn_result_category(const csn_exec_result *r)
{
    return r->category;
}

const char *csn_result_phase(const csn_exec_result *r)
{
    return r->phase;
}

uint32_t csn_result_flags(const csn_exec_result *r)
{
    return r->flags;
}

int64_t csn_result_bytes(const csn_exec_result *r, int stream)
{
    return r->produced[stream == 2];
}

int64_t csn_result_callbacks(const csn_exec_result *r)
{
    return r->n_callbacks;
}

int64_t csn_result_duration_us(const csn_exec_result *r)
{
    return r->duration_us;
}

size_t csn_final_count(const csn_exec_result *r)
{
    return r->flags & CSN_RESULT_HAS_FINAL ? r->n_fields : 0;
}

const char *csn_final_name(const csn_exec_result *r, size_t i)
{
    return i < csn_final_count(r) ? r->fields[i].name.data : NULL;
}

static const csn_final_field *find(const csn_exec_result *r, const char *name)
{
    for (size_t i = 0; i < csn_final_count(r); i++)
        if (csn_streq(r->fields[i].name.data, name))
            return &r->fields[i];
    return NULL;
}

const char *csn_final_get(const csn_exec_result *r, const char *name)
{
    const csn_final_field *f = find(r, name);

    return f ? f->text.data : NULL;
}

int csn_final_int(const csn_exec_result *r, const char *name, int64_t *ret)
{
    const char *text = csn_final_get(r, name);
    int e = text ? csn_parse_i64(csn_str_of(text), ret) : 0;

    if (!text)
        return CSN_E_NOT_FOUND;
    return e == -ERANGE ? CSN_E_LIMIT : e < 0 ? CSN_E_INVALID : CSN_OK;
}

int csn_final_double(const csn_exec_result *r, const char *name, double *ret)
{
    const char *text = csn_final_get(r, name);
    char *end;

    if (!text)
        return CSN_E_NOT_FOUND;
    if (csn_streq(text, "NaN") || csn_streq(text, "Infinity") || csn_streq(text, "-Infinity")) {
        *ret = text[0] == 'N'   ? __builtin_nan("")
               : text[0] == '-' ? -__builtin_inf()
                                : __builtin_inf();
        return CSN_OK;
    }
    if ((text[0] < '0' || text[0] > '9') && text[0] != '-')
        return CSN_E_INVALID;
    *ret = strtod(text, &end);
    return *end ? CSN_E_INVALID : CSN_OK;
}

int csn_final_bool(const csn_exec_result *r, const char *name, int *ret)
{
    const char *text = csn_final_get(r, name);

    if (!text)
        return CSN_E_NOT_FOUND;
    if (!csn_streq(text, "true") && !csn_streq(text, "false"))
        return CSN_E_INVALID;
    *ret = text[0] == 't';
    return CSN_OK;
}

const char *csn_final_str(const csn_exec_result *r, const char *name, size_t *ret_len)
{
    const csn_final_field *f = find(r, name);

    return f && f->is_string ? give(&f->plain, ret_len) : NULL;
}

const char *csn_final_json(const csn_exec_result *r)
{
    return r->flags & CSN_RESULT_HAS_FINAL ? r->final_json.data : NULL;
}
