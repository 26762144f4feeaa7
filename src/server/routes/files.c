/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a sandbox, without their contents: list, look, find, change, move, delete (WIRE 9.5).
 *
 * Theory of operation. Each request is one file request of the library (REPLACE: one per file, in turn), done by a worker
 * inside. What it tells is written as JSON while it comes; its end is the answer. A client that leaves cancels
 * what only looks and lets changes be completed; the job lives until that is told. */
#include <errno.h>
#include <stdlib.h>

#include <caisson/files.h>

#include "base/err.h"
#include "base/fault.h"
#include "server/boxes.h"
#include "server/file_info.h"
#include "server/route.h"

enum { DEPTH_MAX = 64, REPLACE_FILES_MAX = 10000 };

typedef struct job job;
typedef void answer_fn(job *j, csn_req *req);

struct job {
    csn_req *req; /* NULL: the client left */
    csn_box_hold *hold;
    csn_sandbox *box; /* valid while held */
    csn_op *op;       /* what is under way inside */
    answer_fn *answer;
    csn_buf path;    /* the sandbox's own */
    csn_buf target;  /* of move: another */
    bool only_looks; /* may be ended in the middle */
    size_t prefix;   /* of what is told, not part of what was asked */
    csn_buf json;
    csn_jw w;
    /* of replace */
    const csn_json *files; /* the request's body: not read once the client left */
    size_t next;
};

static void free_job(job *j)
{
    csn_buf_free(&j->path);
    csn_buf_free(&j->target);
    csn_buf_free(&j->json);
    csn_boxes_release(j->hold);
    free(j);
}

static void on_gone(csn_req *req, void *user)
{
    job *j = user;

    (void) req;
    j->req = NULL; /* a change that has begun is carried through */
    if (!j->only_looks)
        return;
    csn_op_drop(j->op);
    free_job(j);
}

/* Answers 500 and NULL without memory. path: NULL when there is none. */
static job *new_job(csn_req *req, const char *path, answer_fn *answer)
{
    job *j = csn_calloc(1, sizeof(*j));

    if (!j) {
        csn_req_error(req, 500, NULL, "out of memory");
        return NULL;
    }
    *j = (job){ .req = req,
                .box = csn_req_box(req),
                .hold = csn_boxes_hold(csn_req_server(req)->boxes, csn_req_box_id(req)),
                .answer = answer,
                .path = CSN_BUF_INIT,
                .target = CSN_BUF_INIT,
                .json = CSN_BUF_INIT };
    j->w = (csn_jw) CSN_JW_INIT(&j->json, false);
    if (path)
        j->prefix = csn_box_path(req, path, &j->path);
    csn_req_keep(req, on_gone, j);
    return j;
}

/* Which of the two paths it was isn't known: both are named. */
static void fail(const job *j, csn_req *req, const csn_error *err)
{
    csn_file_fault fault = csn_file_fault_of(err);

    if (j->target.len > 0 && err->sys_errno > 0)
        csn_req_error(req, fault.status, fault.code, "'%s' to '%s': %s", j->path.data,
                      j->target.data, csn_strerror(err->sys_errno));
    else
        csn_file_fail(req, err);
}

static void on_done(int64_t n, int result, const csn_error *err, void *user)
{
    job *j = user;
    csn_req *req = j->req;

    (void) n;
    if (req && result < 0)
        fail(j, req, err);
    else if (req)
        j->answer(j, req);
    free_job(j);
}

static void start(job *j, csn_file_request *fr)
{
    csn_error err = { 0 };

    j->only_looks =
        fr->verb == CSN_FILE_LIST || fr->verb == CSN_FILE_FIND || fr->verb == CSN_FILE_SEARCH;
    fr->size = sizeof(*fr);
    fr->path = j->path.data;
    fr->user_data = j;
    if (j->path.error < 0)
        (void) csn_fail_sys(&err, j->path.error, "'%.100s…'", j->path.data);
    else if ((j->op = csn_file_request_async(j->box, fr, on_done, j, &err)))
        return;
    csn_file_fail(j->req, &err);
    free_job(j);
}

/* A query's value that must be there, or NULL after an answer of 400. */
static const char *need(csn_req *req, const char *key)
{
    const char *value = csn_req_query(req, key);

    if (value && value[0])
        return value;
    csn_req_error(req, 400, "BAD_REQUEST", "%s is required", key);
    return NULL;
}

static bool is_true(csn_req *req, const char *key)
{
    const char *value = csn_req_query(req, key);

    return value && (strcmp(value, "true") == 0 || strcmp(value, "1") == 0);
}

/* What the sandbox tells as a path, in the words of who asked. */
static const char *as_asked(const job *j, const char *path)
{
    size_t len = strlen(path);

    return len > j->prefix ? path + j->prefix : path;
}

static void answer_empty(job *j, csn_req *req)
{
    (void) j;
    csn_req_empty(req, 200);
}

static void answer_created(job *j, csn_req *req)
{
    (void) j;
    csn_req_empty(req, 201);
}

static void answer_gone(job *j, csn_req *req)
{
    (void) j;
    csn_req_empty(req, 204);
}

static void answer_json(job *j, csn_req *req)
{
    if (j->json.error < 0)
        csn_req_error(req, 413, "TOO_LARGE", "the answer is too large; ask for less");
    else
        csn_req_json(req, 200, &j->json);
}

static void answer_array(job *j, csn_req *req)
{
    csn_jw_end_array(&j->w);
    answer_json(j, req);
}

/* --- list, info --------------------------------------------------------------------------------------------------- */

static void put_entry(const csn_file_info *info, void *user)
{
    job *j = user;
    size_t dir_len = j->path.len;
    const char *slash = strrchr(info->path, '/');

    if (dir_len == 0 || j->path.data[dir_len - 1] != '/')
        csn_buf_putc(&j->path, '/');
    csn_buf_puts(&j->path, info->path);
    csn_file_info_put(&j->w, info, slash ? slash + 1 : info->path, j->path.data);
    csn_buf_truncate(&j->path, dir_len);
}

static int read_depth(csn_req *req)
{
    const char *text = csn_req_query(req, "depth");
    uint64_t depth;

    if (!text || !text[0])
        return 1;
    if (csn_parse_u64(csn_str_of(text), &depth) < 0 || depth < 1)
        return -EINVAL;
    return depth > DEPTH_MAX ? DEPTH_MAX : (int) depth;
}

static void list(csn_req *req)
{
    const char *path = csn_req_query(req, "path");
    int depth = read_depth(req);
    job *j;

    if (depth < 0) {
        csn_req_error(req, 400, "BAD_REQUEST", "depth must be a number from 1 on");
        return;
    }
    if (!(j = new_job(req, path && path[0] ? path : ".", answer_array)))
        return;
    csn_jw_begin_array(&j->w);
    start(j, &(csn_file_request){ .verb = CSN_FILE_LIST,
                                  .mode = depth,
                                  .flag = CSN_LIST_FOLLOW,
                                  .on_file = put_entry });
}

static void put_info(const csn_file_info *info, void *user)
{
    job *j = user;

    csn_file_info_put(&j->w, info, NULL, j->path.data);
}

static void info(csn_req *req)
{
    const char *path = need(req, "path");
    job *j = path ? new_job(req, path, answer_json) : NULL;

    if (j)
        start(j, &(csn_file_request){
                     .verb = CSN_FILE_STAT, .flag = CSN_STAT_FOLLOW, .on_file = put_info });
}

/* --- find, search ------------------------------------------------------------------------------------------------- */

static void put_match(const csn_file_match *match, void *user)
{
    job *j = user;

    csn_jw_begin_object(&j->w);
    csn_jw_kstr(&j->w, "file", as_asked(j, match->path));
    csn_jw_kint(&j->w, "line", match->line);
    csn_jw_key(&j->w, "content");
    csn_jw_string(&j->w, match->text, match->text_len);
    csn_jw_end_object(&j->w);
}

/* "find" looks into files, "search" at their names: the words are the SDKs'. */
static void find(csn_req *req)
{
    const char *path = need(req, "path");
    const char *pattern = path ? need(req, "pattern") : NULL;
    job *j = pattern ? new_job(req, path, answer_array) : NULL;

    if (!j)
        return;
    csn_jw_begin_array(&j->w);
    start(j, &(csn_file_request){ .verb = CSN_FILE_SEARCH, .arg = pattern, .on_match = put_match });
}

static void put_name(const csn_file_info *found, void *user)
{
    job *j = user;

    csn_jw_str(&j->w, as_asked(j, found->path));
}

static void answer_names(job *j, csn_req *req)
{
    csn_jw_end_array(&j->w);
    csn_jw_end_object(&j->w);
    answer_json(j, req);
}

static void search(csn_req *req)
{
    const char *path = need(req, "path");
    const char *pattern = path ? need(req, "pattern") : NULL;
    job *j = pattern ? new_job(req, path, answer_names) : NULL;

    if (!j)
        return;
    csn_jw_begin_object(&j->w);
    csn_jw_key(&j->w, "files");
    csn_jw_begin_array(&j->w);
    start(j, &(csn_file_request){ .verb = CSN_FILE_FIND, .arg = pattern, .on_file = put_name });
}

/* --- replace ------------------------------------------------------------------------------------------------------ */

static void replace_next(job *j);

static void put_replaced(job *j, int result, const csn_error *err)
{
    csn_jw_begin_object(&j->w);
    csn_jw_kstr(&j->w, "file", csn_json_str(csn_json_at(j->files, j->next - 1), ""));
    csn_jw_kbool(&j->w, "success", result >= 0);
    if (result < 0)
        csn_jw_kstr(&j->w, "error", err->message);
    csn_jw_end_object(&j->w);
}

static void on_replaced(int64_t n, int result, const csn_error *err, void *user)
{
    job *j = user;

    (void) n;
    if (!j->req) {
        free_job(j);
        return;
    }
    put_replaced(j, result, err);
    replace_next(j);
}

static void replace_next(job *j)
{
    const csn_json *body = csn_req_json_body(j->req);

    while (j->next < csn_json_count(j->files)) {
        csn_error err = { 0 };
        const char *path = csn_json_str(csn_json_at(j->files, j->next++), "");
        csn_file_request fr = { .size = sizeof(fr),
                                .verb = CSN_FILE_REPLACE,
                                .arg = csn_json_get_str(body, "pattern", ""),
                                .arg2 = csn_json_get_str(body, "newValue", "") };
        csn_buf_clear(&j->path);
        csn_box_path(j->req, path, &j->path);
        fr.path = j->path.data;
        if (!path[0])
            (void) csn_fail(&err, CSN_E_INVALID, "the file's name is empty");
        else if (csn_file_request_async(j->box, &fr, on_replaced, j, &err))
            return;
        put_replaced(j, err.code, &err);
    }
    csn_req *req = j->req;
    answer_array(j, req);
    free_job(j);
}

static void replace(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const csn_json *files = csn_json_get(body, "files");
    job *j;

    if (!body)
        return;
    if (csn_json_type_of(files) != CSN_JSON_ARRAY || csn_json_count(files) > REPLACE_FILES_MAX ||
        !csn_json_get_str(body, "pattern", "")[0] ||
        csn_json_type_of(csn_json_get(body, "newValue")) != CSN_JSON_STRING) {
        csn_req_error(req, 400, "INVALID_REQUEST_BODY",
                      "files (at most %d), pattern and newValue are required", REPLACE_FILES_MAX);
        return;
    }
    if (!(j = new_job(req, NULL, answer_array)))
        return;
    j->files = files;
    csn_jw_begin_array(&j->w);
    replace_next(j);
}

/* --- changes ------------------------------------------------------------------------------------------------------ */

static void folder(csn_req *req)
{
    const char *path = need(req, "path"); /* NULL: the request is no more */
    const char *text = path ? csn_req_query(req, "mode") : NULL;
    int mode = text && text[0] ? csn_parse_mode(text) : 0755;
    job *j;

    if (!path)
        return;
    if (mode < 0) {
        csn_req_error(req, 400, "BAD_REQUEST", "mode must be octal, such as 755");
        return;
    }
    if ((j = new_job(req, path, answer_created)))
        start(j, &(csn_file_request){ .verb = CSN_FILE_MKDIR, .mode = mode });
}

static void delete_file(csn_req *req)
{
    const char *path = need(req, "path");
    job *j = path ? new_job(req, path, answer_gone) : NULL;

    if (!j)
        return;
    start(j, &(csn_file_request){ .verb = CSN_FILE_DELETE,
                                  .flag = is_true(req, "recursive") ? CSN_DELETE_RECURSIVE
                                                                    : CSN_DELETE_NO_DIRECTORY });
}

static void move(csn_req *req)
{
    const char *from = need(req, "source");
    const char *to = from ? need(req, "destination") : NULL;
    job *j = to ? new_job(req, from, answer_empty) : NULL;

    if (!j)
        return;
    csn_box_path(req, to, &j->target);
    start(j, &(csn_file_request){
                 .verb = CSN_FILE_MOVE, .arg = j->target.data, .flag = CSN_MOVE_NO_REPLACE });
}

static void permissions(csn_req *req)
{
    const char *text = csn_req_query(req, "mode");
    const char *owner = csn_req_query(req, "owner"), *group = csn_req_query(req, "group");
    int mode = text && text[0] ? csn_parse_mode(text) : -1;
    const char *path = need(req, "path");
    job *j;

    if (!path)
        return;
    if (text && text[0] && mode < 0) {
        csn_req_error(req, 400, "BAD_REQUEST", "mode must be octal, such as 644");
        return;
    }
    if ((j = new_job(req, path, answer_empty)))
        start(j, &(csn_file_request){ .verb = CSN_FILE_CHMOD,
                                      .mode = mode,
                                      .arg = owner && owner[0] ? owner : NULL,
                                      .arg2 = group && group[0] ? group : NULL });
}

#define BOX(method_, pattern_, body_, handler) \
    { \
        .plane = CSN_PLANE_TOOLBOX, .method = (method_), .pattern = (pattern_), \
        .scope = CSN_SCOPE_BOX, .body = (body_), .flags = CSN_ROUTE_TENANT, .handle = (handler) \
    }

static const csn_route routes[] = {
    BOX(CSN_GET, "/files", CSN_BODY_NONE, list),
    BOX(CSN_DELETE, "/files", CSN_BODY_WHOLE, delete_file),
    BOX(CSN_GET, "/files/info", CSN_BODY_NONE, info),
    BOX(CSN_GET, "/files/find", CSN_BODY_NONE, find),
    BOX(CSN_GET, "/files/search", CSN_BODY_NONE, search),
    BOX(CSN_POST, "/files/replace", CSN_BODY_WHOLE, replace),
    BOX(CSN_POST, "/files/folder", CSN_BODY_WHOLE, folder),
    BOX(CSN_POST, "/files/move", CSN_BODY_WHOLE, move),
    BOX(CSN_POST, "/files/permissions", CSN_BODY_WHOLE, permissions),
};

const csn_route_table csn_routes_files = CSN_ROUTE_TABLE(routes);
