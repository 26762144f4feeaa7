/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of files on their way in (WIRE 9.5): many as parts, one as a part, one raw. */
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

#include "base/err.h"
#include "base/fault.h"
#include "server/file_info.h"
#include "server/multipart.h"
#include "server/route.h"
#include "server/upload.h"

enum { PATHS_BYTES_MAX = 8 << 20, PATH_MAX_BYTES = 4096, ERRORS_TOLD_MAX = 100 };

typedef enum form { BULK, SINGLE, SINGLE_V2 } form;

/* What the part that comes now is for. */
typedef enum part_kind { IGNORED, PATH, CONTENT } part_kind;

typedef struct slot {
    char *path; /* of files[N] */
    size_t index;
} slot;

typedef struct intake {
    csn_req *req;
    form form;
    csn_multipart *parts; /* NULL: the body is the file */
    csn_upload *upload;
    part_kind part;
    size_t index; /* N of the part */
    csn_buf text; /* of a PATH part */
    slot *slots;
    size_t n_slots, cap, slots_bytes;
    bool has_file, is_broken, is_complete;
    csn_error first_error;
    csn_buf files, errors, messages; /* JSON members, and the errors' text */
    size_t n_errors;
} intake;

static void free_intake(intake *in)
{
    csn_upload_close(in->upload);
    csn_multipart_free(in->parts);
    for (size_t i = 0; i < in->n_slots; i++)
        free(in->slots[i].path);
    free(in->slots);
    csn_buf_free(&in->text);
    csn_buf_free(&in->files);
    csn_buf_free(&in->errors);
    csn_buf_free(&in->messages);
    free(in);
}

static void on_gone(csn_req *req, void *user)
{
    (void) req;
    free_intake(user);
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

static void note_error(intake *in, const csn_error *err)
{
    if (in->n_errors++ == 0)
        in->first_error = *err;
    if (in->n_errors > ERRORS_TOLD_MAX)
        return;
    if (in->n_errors > 1) {
        csn_buf_puts(&in->errors, ",");
        csn_buf_puts(&in->messages, "; ");
    }
    csn_jw_str(&(csn_jw) CSN_JW_INIT(&in->errors, false), err->message);
    csn_buf_puts(&in->messages, err->message);
}

static void on_file(const char *path, int64_t n_bytes, const csn_error *err, void *user)
{
    intake *in = user;
    csn_jw w = CSN_JW_INIT(&in->files, false);

    if (err) {
        note_error(in, err);
        return;
    }
    if (in->files.len > 0)
        csn_buf_puts(&in->files, ",");
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "path", path);
    csn_jw_kint(&w, "bytes", n_bytes);
    csn_jw_end_object(&w);
}

/* Of several: a full disk and a refused file have a status of their own, all else is the request's. */
static csn_file_fault fault_of_bulk(const intake *in)
{
    csn_file_fault fault = csn_file_fault_of(&in->first_error);

    return fault.status == 507 || fault.status == 403 ? fault
                                                      : (csn_file_fault){ 400, "BAD_REQUEST" };
}

static void answer_bulk(intake *in)
{
    csn_auto(buf) csn_buf body = CSN_BUF_INIT;
    csn_file_fault told = fault_of_bulk(in);

    csn_buf_puts(&body, "{");
    if (in->n_errors > 0) {
        csn_auto(buf) csn_buf fault = CSN_BUF_INIT;
        csn_jw w = CSN_JW_INIT(&fault, false);
        csn_jw_begin_object(&w);
        csn_file_fault_put(&w, in->req, told, in->messages.data);
        csn_jw_end_object(&w);
        csn_buf_append(&body, fault.data + 1, fault.len - 2); /* its members */
        csn_buf_printf(&body, ",\"errors\":[%s],", in->errors.data);
    }
    csn_buf_printf(&body, "\"files\":[%s]}", in->files.data);
    csn_req_json(in->req, in->n_errors > 0 ? told.status : 200, &body);
}

static void answer_single(intake *in)
{
    csn_auto(buf) csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);
    const char *path = csn_req_query(in->req, "path"), *slash = strrchr(path, '/');

    if (in->n_errors > 0) {
        csn_file_fail(in->req, &in->first_error);
    } else if (!in->has_file) {
        csn_req_error(in->req, 400, "BAD_REQUEST", "there is no part named file");
    } else if (in->form == SINGLE) {
        csn_req_empty(in->req, 200);
    } else {
        csn_jw_begin_object(&w);
        csn_jw_kstr(&w, "name", slash ? slash + 1 : path);
        csn_jw_kstr(&w, "path", path);
        csn_jw_kstr(&w, "type", "file");
        csn_jw_end_object(&w);
        csn_req_json(in->req, 200, &body);
    }
}

static void answer_if_ready(intake *in)
{
    if (!in->is_complete || !csn_upload_done(in->upload))
        return;
    if (in->form == BULK)
        answer_bulk(in);
    else
        answer_single(in);
    free_intake(in);
}

static void on_idle(void *user)
{
    intake *in = user;

    if (in->is_complete)
        answer_if_ready(in);
    else
        csn_req_body_resume(in->req);
}

static const csn_upload_events upload_events = { .on_file = on_file, .on_idle = on_idle };

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* "files[12].path": the number, and what stands behind it. */
static bool read_name(const char *name, size_t *ret_index, const char **ret_rest)
{
    size_t digits;
    uint64_t index;

    if (!csn_starts_with(name, "files["))
        return false;
    name += 6;
    digits = strspn(name, "0123456789");
    if (csn_parse_u64(csn_str_n(name, digits), &index) < 0 || name[digits] != ']' ||
        index >= CSN_PARTS_MAX)
        return false;
    *ret_index = (size_t) index;
    *ret_rest = name + digits + 1;
    return true;
}

static const char *path_of(const intake *in, size_t index)
{
    for (size_t i = in->n_slots; i > 0; i--) /* clients ask for the latest, or nearly so */
        if (in->slots[i - 1].index == index)
            return in->slots[i - 1].path;
    return NULL;
}

static void begin_file(intake *in, const char *path)
{
    in->part = CONTENT;
    in->has_file = true;
    csn_upload_begin(in->upload, path);
}

static void begin_bulk(intake *in, const csn_part *part)
{
    csn_error err = { 0 };
    const char *rest, *path;

    if (!read_name(part->name, &in->index, &rest))
        return;
    if (strcmp(rest, ".path") == 0) {
        in->part = PATH;
        csn_buf_clear(&in->text);
    } else if (strcmp(rest, ".file") == 0 && (path = path_of(in, in->index))) {
        begin_file(in, path);
    } else if (strcmp(rest, ".file") == 0) {
        csn_fail(&err, CSN_E_INVALID, "files[%zu].path must come before files[%zu].file", in->index,
                 in->index);
        note_error(in, &err);
    }
}

static int on_part(const csn_part *part, void *user)
{
    intake *in = user;

    in->part = IGNORED;
    if (in->form == BULK)
        begin_bulk(in, part);
    else if (strcmp(part->name, "file") == 0 && !in->has_file)
        begin_file(in, csn_req_query(in->req, "path"));
    return 0;
}

static int on_data(const csn_part *part, const char *data, size_t len, void *user)
{
    intake *in = user;

    (void) part;
    if (in->part == CONTENT)
        csn_upload_data(in->upload, data, len);
    if (in->part == PATH && in->text.len + len > PATH_MAX_BYTES)
        return -ENAMETOOLONG;
    return in->part == PATH ? csn_buf_append(&in->text, data, len) : 0;
}

static int keep_path(intake *in)
{
    csn_str path = csn_str_trim(csn_str_n(in->text.data, in->text.len));

    in->slots_bytes += path.len + sizeof(slot);
    if (in->slots_bytes > PATHS_BYTES_MAX)
        return -E2BIG;
    if (memchr(path.data, '\0', path.len))
        return -EINVAL;
    if (in->n_slots == in->cap) {
        size_t cap = in->cap ? in->cap * 2 : 16;
        slot *grown = csn_realloc_array(in->slots, cap, sizeof(slot));
        if (!grown)
            return -ENOMEM;
        in->slots = grown;
        in->cap = cap;
    }
    char *copy = csn_strndup(path.data, path.len);
    if (!copy)
        return -ENOMEM;
    in->slots[in->n_slots++] = (slot){ copy, in->index };
    return 0;
}

static int on_end(const csn_part *part, void *user)
{
    intake *in = user;

    (void) part;
    if (in->part == CONTENT)
        csn_upload_end(in->upload);
    return in->part == PATH ? keep_path(in) : 0;
}

static const csn_multipart_events part_events = { .on_part = on_part,
                                                  .on_data = on_data,
                                                  .on_end = on_end };

/* --- the body ----------------------------------------------------------------------------------------------------- */

/* The rest is still read, for the client writes before it reads. */
static void break_off(intake *in, int r)
{
    csn_error err = { 0 };

    if (in->is_broken)
        return;
    in->is_broken = true;
    csn_fail(&err, CSN_E_INVALID, "the body is not well-formed multipart/form-data: %s",
             r == -E2BIG          ? "too many or too large parts"
             : r == -ENAMETOOLONG ? "a path is too long"
             : r == -EINVAL       ? "a path holds a zero byte"
             : r == -ENOMEM       ? "out of memory"
                                  : "malformed");
    if (csn_upload_done(in->upload))
        note_error(in, &err);
    else
        csn_upload_break(in->upload, &err);
    if (in->n_errors == 0)
        note_error(in, &err);
}

static void take(intake *in, const char *data, size_t len)
{
    int r;

    if (in->is_broken)
        return;
    if (!in->parts) {
        csn_upload_data(in->upload, data, len);
        return;
    }
    r = csn_multipart_feed(in->parts, data, len);
    if (r < 0)
        break_off(in, r);
}

static bool on_body(csn_req *req, const char *data, size_t len, void *user)
{
    intake *in = user;

    if (len > 0) {
        take(in, data, len);
        csn_req_body_wish(req, csn_upload_wish(in->upload));
        return !csn_upload_busy(in->upload);
    }
    if (in->parts && !in->is_broken && csn_multipart_finish(in->parts) < 0)
        break_off(in, -EBADMSG);
    if (!in->parts)
        csn_upload_end(in->upload);
    in->is_complete = true;
    answer_if_ready(in);
    return true;
}

static intake *new_intake(csn_req *req, form kind)
{
    intake *in = csn_calloc(1, sizeof(*in));

    if (!in)
        return NULL;
    *in = (intake){ .req = req,
                    .form = kind,
                    .text = CSN_BUF_INIT,
                    .files = CSN_BUF_INIT,
                    .errors = CSN_BUF_INIT,
                    .messages = CSN_BUF_INIT,
                    .upload = csn_upload_new(req, &upload_events, in) };
    if (in->upload)
        return in;
    free_intake(in);
    return NULL;
}

static void start(csn_req *req, form kind, bool is_raw)
{
    intake *in = new_intake(req, kind);
    int r = in ? 0 : -ENOMEM;

    if (in && !is_raw)
        r = csn_multipart_new(csn_req_header(req, "content-type"), &part_events, in, &in->parts);
    if (r < 0) {
        csn_req_error(req, r == -ENOMEM ? 500 : 400, r == -ENOMEM ? NULL : "INVALID_REQUEST_BODY",
                      "%s", r == -ENOMEM ? "out of memory" : "multipart/form-data is expected");
        if (in)
            free_intake(in);
        return;
    }
    if (is_raw)
        begin_file(in, csn_req_query(req, "path"));
    csn_req_keep(req, on_gone, in);
    csn_req_body_start(req, on_body, in);
}

static void bulk_upload(csn_req *req)
{
    start(req, BULK, false);
}

static bool has_path(csn_req *req)
{
    const char *path = csn_req_query(req, "path");

    if (path && path[0])
        return true;
    csn_req_error(req, 400, "BAD_REQUEST", "path is required");
    return false;
}

static void upload(csn_req *req)
{
    if (has_path(req))
        start(req, SINGLE, false);
}

static void upload_v2(csn_req *req)
{
    const char *type = csn_req_header(req, "content-type");

    if (has_path(req))
        start(req, SINGLE_V2, !type || strncasecmp(type, "multipart/", 10) != 0);
}

#define BOX(pattern_, handler) \
    { \
        .plane = CSN_PLANE_TOOLBOX, .method = CSN_POST, .pattern = (pattern_), \
        .scope = CSN_SCOPE_BOX, .body = CSN_BODY_STREAM, .flags = CSN_ROUTE_TENANT, \
        .handle = (handler) \
    }

static const csn_route routes[] = {
    BOX("/files/bulk-upload", bulk_upload),
    BOX("/files/upload", upload),
    BOX("/files/upload-v2", upload_v2),
};

const csn_route_table csn_routes_files_upload = CSN_ROUTE_TABLE(routes);
