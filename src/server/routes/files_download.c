/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of files on their way out (WIRE 9.5): one raw, or many as parts. The sandbox opens each file and hands out its
 * descriptor; the kernel carries the bytes from there to the socket. At most the size seen at open is sent (R35). */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <caisson/files.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "server/boxes.h"
#include "server/file_info.h"
#include "server/multipart.h"
#include "server/route.h"

enum { SMALL_BYTES = 32 << 10, PATHS_MAX = 10000 };

typedef struct parcel {
    csn_req *req;
    csn_box_hold *hold;
    csn_sandbox *box; /* valid while held */
    csn_op *opening;  /* a file, inside; NULL: none */
    /* of many */
    const csn_json *paths; /* the request's body */
    size_t next;
    char boundary[CSN_BOUNDARY_SIZE];
} parcel;

static void free_parcel(parcel *p)
{
    csn_boxes_release(p->hold);
    free(p);
}

static void on_gone(csn_req *req, void *user)
{
    parcel *p = user;

    (void) req;
    csn_op_drop(p->opening);
    free_parcel(p);
}

static parcel *new_parcel(csn_req *req)
{
    parcel *p = csn_calloc(1, sizeof(*p));

    if (!p) {
        csn_req_error(req, 500, NULL, "out of memory");
        return NULL;
    }
    p->req = req;
    p->box = csn_req_box(req);
    p->hold = csn_boxes_hold(csn_req_server(req)->boxes, csn_req_box_id(req));
    csn_req_keep(req, on_gone, p);
    return p;
}

static int open_inside(parcel *p, const char *path, csn_fd_done_fn done, csn_error *err)
{
    csn_auto(buf) csn_buf full = CSN_BUF_INIT;

    if (!path[0])
        return csn_fail(err, CSN_E_INVALID, "the path is empty");
    csn_box_path(p->req, path, &full);
    p->opening = csn_file_open_async(p->box, full.data, CSN_OPEN_READ, 0, done, p, err);
    return p->opening ? CSN_OK : err->code;
}

static int64_t size_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) < 0 ? -errno : (int64_t) st.st_size;
}

/* --- one ---------------------------------------------------------------------------------------------------------- */

static void put_disposition(csn_req *req, const char *path)
{
    static const char hex[] = "0123456789ABCDEF";
    csn_auto(buf) csn_buf value = CSN_BUF_INIT;
    const char *slash = strrchr(path, '/');

    csn_buf_puts(&value, "attachment; filename*=utf-8''");
    for (const char *c = slash ? slash + 1 : path; *c; c++) {
        unsigned char b = (unsigned char) *c;
        if ((b >= '0' && b <= '9') || ((b | 32) >= 'a' && (b | 32) <= 'z') || strchr("-._~", b))
            csn_buf_putc(&value, *c);
        else
            csn_buf_printf(&value, "%%%c%c", hex[b >> 4], hex[b & 15]);
    }
    csn_req_add_header(req, "Content-Disposition", value.data);
    csn_req_add_header(req, "Content-Security-Policy", "sandbox; default-src 'none'");
}

static void on_one(int fd, int result, const csn_error *err, void *user)
{
    parcel *p = user;
    csn_req *req = p->req;
    csn_auto(fd) int own = fd;
    int64_t size = result < 0 ? -1 : size_of(fd);

    free_parcel(p);
    if (result < 0) {
        csn_file_fail(req, err);
        return;
    }
    if (size < 0) {
        csn_req_error(req, 500, "FILE_READ_FAILED", "the file can't be read");
        return;
    }
    put_disposition(req, csn_req_query(req, "path"));
    csn_req_begin(req, 200, "application/octet-stream", size);
    if (size > 0)
        csn_req_write_fd(req, csn_take_fd(&own), 0, size);
    csn_req_end(req);
}

static void download(csn_req *req)
{
    const char *path = csn_req_query(req, "path");
    csn_error err = { 0 };
    parcel *p;

    if (!path || !path[0]) {
        csn_req_error(req, 400, "BAD_REQUEST", "path is required");
        return;
    }
    if (!(p = new_parcel(req)))
        return;
    if (open_inside(p, path, on_one, &err) < 0) {
        free_parcel(p);
        csn_file_fail(req, &err);
    }
}

/* --- many --------------------------------------------------------------------------------------------------------- */

static void send_next(parcel *p);

static const char *path_at(const parcel *p)
{
    return csn_json_str(csn_json_at(p->paths, p->next), "");
}

static void on_drain(csn_req *req, void *user)
{
    parcel *p = user;

    (void) req;
    if (!p->opening) /* else what comes back goes on */
        send_next(p);
}

/* True: go on with the next; else on_drain will. */
static bool send_error(parcel *p, const csn_error *err)
{
    csn_auto(buf) csn_buf head = CSN_BUF_INIT;
    csn_auto(buf) csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    csn_jw_begin_object(&w);
    csn_file_fault_put(&w, p->req, csn_file_fault_of(err), err->message);
    csn_jw_end_object(&w);
    csn_multipart_put_head(&head, p->boundary, p->next == 0, "error", path_at(p),
                           "application/json", (int64_t) body.len);
    csn_buf_append(&head, body.data, body.len);
    p->next++;
    return csn_req_write(p->req, head.data, head.len);
}

/* A small one goes along with its head. True, false: as above; or -errno. */
static int send_small(parcel *p, csn_buf *head, int fd, int64_t size)
{
    ssize_t n;

    if (csn_buf_reserve(head, (size_t) size) < 0)
        return head->error;
    n = pread(fd, head->data + head->len, (size_t) size, 0);
    if (n != size)
        return n < 0 ? -errno : -EIO;
    csn_buf_grew(head, (size_t) size);
    return csn_req_write(p->req, head->data, head->len);
}

static int send_file(parcel *p, int *fd)
{
    csn_auto(buf) csn_buf head = CSN_BUF_INIT;
    int64_t size = size_of(*fd);

    if (size < 0)
        return (int) size;
    csn_multipart_put_head(&head, p->boundary, p->next == 0, "file", path_at(p),
                           "application/octet-stream", size);
    if (head.error < 0)
        return head.error;
    if (size <= SMALL_BYTES)
        return send_small(p, &head, *fd, size);
    (void) csn_req_write(p->req, head.data, head.len); /* on_drain follows either way */
    csn_req_write_fd(p->req, csn_take_fd(fd), 0, size);
    return false;
}

static void on_opened(int fd, int result, const csn_error *err, void *user)
{
    parcel *p = user;
    csn_auto(fd) int own = fd;
    csn_error failed = { 0 };
    int r;

    p->opening = NULL;
    r = result < 0 ? send_error(p, err) : send_file(p, &own);
    if (r < 0) { /* a file that shrank, or no memory */
        csn_fail(&failed, CSN_E_SYSTEM, "'%.180s': %s", path_at(p), csn_strerror(r));
        r = send_error(p, &failed);
    } else if (result >= 0) {
        p->next++;
    }
    if (r)
        send_next(p);
}

static void finish(parcel *p)
{
    csn_auto(buf) csn_buf end = CSN_BUF_INIT;
    csn_req *req = p->req;

    csn_multipart_put_end(&end, p->boundary, p->next == 0);
    free_parcel(p);
    (void) csn_req_write(req, end.data, end.len); /* the last one */
    csn_req_end(req);
}

static void send_next(parcel *p)
{
    csn_error err = { 0 };

    while (p->next < csn_json_count(p->paths)) {
        if (open_inside(p, path_at(p), on_opened, &err) >= 0)
            return;
        if (!send_error(p, &err))
            return;
    }
    finish(p);
}

static bool is_list_of_paths(const csn_json *paths)
{
    size_t n = csn_json_count(paths);

    if (csn_json_type_of(paths) != CSN_JSON_ARRAY || n == 0 || n > PATHS_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        if (csn_json_type_of(csn_json_at(paths, i)) != CSN_JSON_STRING)
            return false;
    return true;
}

static void bulk_download(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    csn_auto(buf) csn_buf type = CSN_BUF_INIT;
    parcel *p;

    if (!body)
        return;
    if (!is_list_of_paths(csn_json_get(body, "paths"))) {
        csn_req_error(req, 400, "INVALID_REQUEST_BODY", "paths must name 1 to %d files", PATHS_MAX);
        return;
    }
    if (!(p = new_parcel(req)))
        return;
    p->paths = csn_json_get(body, "paths");
    if (csn_multipart_boundary(p->boundary) < 0) {
        free_parcel(p);
        csn_req_error(req, 500, NULL, "no random bytes");
        return;
    }
    csn_buf_printf(&type, "multipart/form-data; boundary=%s", p->boundary);
    csn_req_on_drain(req, on_drain, p);
    csn_req_begin(req, 200, type.data, -1);
    send_next(p);
}

static const csn_route routes[] = {
    { .plane = CSN_PLANE_TOOLBOX,
      .method = CSN_GET,
      .pattern = "/files/download",
      .scope = CSN_SCOPE_BOX,
      .body = CSN_BODY_NONE,
      .flags = CSN_ROUTE_TENANT,
      .handle = download },
    { .plane = CSN_PLANE_TOOLBOX,
      .method = CSN_POST,
      .pattern = "/files/bulk-download",
      .scope = CSN_SCOPE_BOX,
      .body = CSN_BODY_WHOLE,
      .flags = CSN_ROUTE_TENANT,
      .handle = bulk_download },
};

const csn_route_table csn_routes_files_download = CSN_ROUTE_TABLE(routes);
