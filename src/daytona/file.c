/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of files: in by files/bulk-upload, as the SDKs send it, out by files/download; both flow between a descriptor and the
 * helper, never through this process. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/time.h"
#include "base/utf8.h"
#include "call.h"
#include "url.h"

typedef struct transfer {
    csn_list link;        /* in csn_daytona_box.files */
    csn_daytona_box *box; /* counted */
    csn_api_call *call;
    char *path;
    bool is_memory; /* of a get: sink is ours */
    int sink;
    size_t max;    /* of a get; 0: none */
    uint32_t mode; /* of a put: to be set after; 0: as it is */
    int64_t n;
    csn_op *op;
} transfer;

static void free_transfer(transfer *t)
{
    csn_list_remove(&t->link);
    csn_api_call_cancel(t->call);
    csn_close(&t->sink);
    free(t->path);
    csn_box_unref(&t->box->base);
    free(t);
}

static void finish(transfer *t, char *data, int result, const csn_error *err)
{
    csn_op *op = t->op;
    csn_error own = err ? *err : (csn_error){ 0 };

    op->value.content.data = data;
    op->value.content.n = t->n;
    t->call = NULL;
    free_transfer(t);
    csn_op_end(op, result, &own);
}

static void give_up(csn_op *op)
{
    transfer *t = op->request;

    csn_api_call_cancel(t->call);
    finish(t, NULL, CSN_E_CANCELLED, NULL);
}

/* Statuses of files are not those of sandboxes. */
static int file_error(const transfer *t, const csn_web_answer *a, int result, const csn_error *err,
                      csn_error *ret)
{
    *ret = *err;
    if (!a)
        return result;
    if (a->end.failure == CSN_WEB_TOO_LARGE)
        return csn_fail(ret, CSN_E_TOO_LARGE, "'%.180s' has more than %zu bytes", t->path, t->max);
    if (a->end.failure != CSN_WEB_OK || a->end.status == 401 || a->end.status == 429)
        return result;
    if (a->end.status == 400) /* a directory, a device: something without contents */
        ret->code = CSN_E_NOT_REGULAR;
    else if (a->end.status == 507)
        ret->code = CSN_E_LIMIT;
    return ret->code;
}

static transfer *new_transfer(csn_box *box, const char *path, csn_op *op, csn_error *err)
{
    int r = csn_daytona_box_check(box, err);
    transfer *t;

    if (r < 0)
        return NULL;
    if (!csn_daytona_box_of(box)->toolbox) {
        (void) csn_fail(err, CSN_E_STATE, "sandbox '%s' is not started", box->wish.id);
        return NULL;
    }
    if (!csn_utf8_valid(path, strlen(path))) {
        (void) csn_fail(err, CSN_E_UNSUPPORTED,
                        "the remote backend can't name a file whose path is no UTF-8");
        return NULL;
    }
    t = csn_calloc(1, sizeof(*t));
    if (!t || !(t->path = csn_strdup(path))) {
        free(t);
        (void) csn_fail(err, CSN_E_NO_MEMORY, "'%.180s'", path);
        return NULL;
    }
    t->box = csn_daytona_box_of(csn_box_ref(box));
    t->sink = -1;
    t->op = op;
    csn_list_append(&t->box->files, &t->link);
    return t;
}

/* Hands over to the call, or takes all back. */
static int begin(transfer *t, const csn_api_call_spec *spec, csn_api_call_done *done,
                 csn_error *err)
{
    csn_error own = { 0 };

    t->call = csn_api_call_start(csn_daytona_of(t->box->base.backend), spec, done, t, &own);
    if (t->call) {
        t->op->give_up = give_up;
        t->op->request = t;
        return CSN_OK;
    }
    free_transfer(t);
    if (err)
        *err = own;
    return own.code;
}

/* ---- in ---- */

static void on_mode_set(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    (void) a;
    finish(user, NULL, result, err);
}

static void on_uploaded(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    transfer *t = user;
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = "set a file's mode", .method = "POST",
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_ASK_MS));
    csn_error own = { 0 };

    t->call = NULL;
    if (result < 0) {
        result = file_error(t, a, result, err, &own);
        finish(t, NULL, result, &own);
        return;
    }
    if (!t->mode) {
        finish(t, NULL, CSN_OK, NULL);
        return;
    }
    csn_buf_printf(&url, "%s/files/permissions?path=", t->box->toolbox);
    csn_url_escape(&url, t->path);
    csn_buf_printf(&url, "&mode=%o", t->mode);
    spec.url = url.data;
    t->call = url.error < 0 ? NULL
                            : csn_api_call_start(csn_daytona_of(t->box->base.backend), &spec,
                                                 on_mode_set, t, &own);
    if (!t->call)
        finish(t, NULL, own.code ? own.code : CSN_E_NO_MEMORY, &own);
}

/* The path is a field of its own; the file's name beside it is for show. */
static int write_parts(csn_buf *head, csn_buf *tail, csn_buf *type, const char *path)
{
    char border[33];
    int r = csn_id_hex(border, 16);

    if (r < 0)
        return r;
    csn_buf_printf(head,
                   "--%s\r\nContent-Disposition: form-data; name=\"files[0].path\"\r\n\r\n%s\r\n"
                   "--%s\r\nContent-Disposition: form-data; name=\"files[0].file\"; "
                   "filename=\"file\"\r\nContent-Type: application/octet-stream\r\n\r\n",
                   border, path, border);
    csn_buf_printf(tail, "\r\n--%s--\r\n", border);
    csn_buf_printf(type, "multipart/form-data; boundary=%s", border);
    return head->error | tail->error | type->error;
}

static int memory_file(const void *data, size_t len, int *ret_fd)
{
    csn_auto(fd) int fd = memfd_create("csn-upload", MFD_CLOEXEC);
    int r;

    if (fd < 0)
        return -errno;
    r = csn_write_all(fd, data, len);
    if (r < 0)
        return r;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return -errno;
    *ret_fd = csn_take_fd(&fd);
    return 0;
}

/* What is left of it, where that can be known. */
static int64_t size_left(int fd)
{
    struct stat st;
    off_t at;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (at = lseek(fd, 0, SEEK_CUR)) < 0)
        return -1;
    return st.st_size > at ? (int64_t) (st.st_size - at) : 0;
}

int csn_daytona_put(csn_box *box, const csn_put_call *call, csn_op *op, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_auto(buf) csn_buf head = CSN_BUF_INIT;
    csn_auto(buf) csn_buf tail = CSN_BUF_INIT;
    csn_auto(buf) csn_buf type = CSN_BUF_INIT;
    csn_auto(fd) int own_fd = -1;
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = "upload a file", .method = "POST",
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_FILE_MS));
    transfer *t = new_transfer(box, call->path, op, err);
    int r = 0;

    if (!t)
        return err ? err->code : CSN_E_STATE;
    t->mode = call->mode == 0644 ? 0 : call->mode;
    if (call->from.is_fd)
        spec.source_fd = call->from.fd;
    else if ((r = memory_file(call->from.data, call->from.len, &own_fd)) == 0)
        spec.source_fd = own_fd;
    if (r == 0)
        r = write_parts(&head, &tail, &type, call->path);
    if (r == 0)
        r = csn_buf_printf(&url, "%s/files/bulk-upload", t->box->toolbox);
    if (r < 0) {
        free_transfer(t);
        return csn_fail_sys(err, r, "upload '%.180s'", call->path);
    }
    spec.source_bytes = size_left(spec.source_fd);
    t->n = spec.source_bytes;
    spec.url = url.data;
    spec.content_type = type.data;
    spec.body = head.data;
    spec.body_len = head.len;
    spec.tail = tail.data;
    spec.tail_len = tail.len;
    return begin(t, &spec, on_uploaded, err);
}

/* ---- out ---- */

static int read_memory(transfer *t, int64_t n_bytes, char **ret_data, csn_error *err)
{
    char *data;
    int64_t at = 0;

    if (n_bytes < 0 || (t->max > 0 && (uint64_t) n_bytes > t->max))
        return csn_fail(err, CSN_E_PROTOCOL, "read '%.180s': more bytes than asked for", t->path);
    data = csn_malloc((size_t) n_bytes + 1);
    if (!data)
        return csn_fail(err, CSN_E_NO_MEMORY, "read '%.180s'", t->path);
    while (at < n_bytes) {
        ssize_t n = pread(t->sink, data + at, (size_t) (n_bytes - at), at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            free(data);
            return csn_fail(err, CSN_E_PROTOCOL, "read '%.180s': it is shorter than told", t->path);
        }
        at += n;
    }
    data[n_bytes] = '\0';
    *ret_data = data;
    return CSN_OK;
}

static void on_downloaded(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    transfer *t = user;
    csn_error own = { 0 };
    char *data = NULL;

    t->call = NULL;
    t->n = a ? a->end.n_bytes : -1;
    if (result < 0)
        result = file_error(t, a, result, err, &own);
    else if (t->is_memory)
        result = read_memory(t, t->n, &data, &own);
    finish(t, data, result, &own);
}

int csn_daytona_get(csn_box *box, const csn_get_call *call, csn_op *op, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = "download a file", .method = "GET",
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_FILE_MS));
    transfer *t = new_transfer(box, call->path, op, err);

    if (!t)
        return err ? err->code : CSN_E_STATE;
    t->max = call->to.max_bytes;
    t->is_memory = !call->to.is_fd;
    spec.max_bytes = t->max > 0 ? (int64_t) t->max : -1;
    if (t->is_memory && (t->sink = memfd_create("csn-download", MFD_CLOEXEC)) < 0) {
        int r = csn_fail_sys(err, -errno, "read '%.180s'", call->path);

        free_transfer(t);
        return r;
    }
    spec.sink_fd = t->is_memory ? t->sink : call->to.fd;
    csn_buf_printf(&url, "%s/files/download?path=", t->box->toolbox);
    if (csn_url_escape(&url, call->path) < 0) {
        free_transfer(t);
        return csn_fail_sys(err, url.error, "read '%.180s'", call->path);
    }
    spec.url = url.data;
    return begin(t, &spec, on_downloaded, err);
}
