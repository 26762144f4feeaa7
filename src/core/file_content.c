/* Contents: checked here, moved by the backend; the blocking verbs wait for the others. */
#include <stdlib.h>

#include "base/err.h"
#include "base/fault.h"
#include "core/files.h"

#define GET_DEFAULT ((size_t) 64 << 20)

static void deliver_content(csn_op *op, const csn_error *err)
{
    op->done.content(op->result < 0 ? NULL : op->value.content.data, op->value.content.n,
                     op->result, err, op->user);
}

static bool undo_content(csn_op *op)
{
    free(op->value.content.data);
    op->value.content.data = NULL;
    return false;
}

static csn_op *new_op(csn_sandbox *sandbox, csn_file_content_fn done, void *user, csn_error *err)
{
    static const csn_op_kind kind = { .deliver = deliver_content, .undo = undo_content };
    csn_op *op = csn_op_new(sandbox->engine, sizeof(*op), &kind, user, err);

    if (op)
        op->done.content = done;
    return op;
}

csn_op *csn_file_put_async(csn_sandbox *sandbox, const char *path, const csn_file_source *from,
                           uint32_t mode, csn_file_content_fn done, void *user, csn_error *err)
{
    csn_put_call call = { .path = path, .mode = mode };
    csn_op *op;

    if (csn_sandbox_need(sandbox, put, "write files", err) < 0 ||
        csn_files_check_path(path, err) < 0 ||
        csn_options_read(&call.from, sizeof(call.from), from, "csn_file_source", err) < 0)
        return NULL;
    if (call.from.is_fd ? call.from.fd < 0 : !call.from.data && call.from.len > 0) {
        (void) csn_fail(err, CSN_E_INVALID, "write '%.180s': no %s", path,
                        call.from.is_fd ? "descriptor" : "data");
        return NULL;
    }
    op = new_op(sandbox, done, user, err);
    return op ? csn_op_begun(op, sandbox->box->ops->put(sandbox->box, &call, op, err)) : NULL;
}

csn_op *csn_file_get_async(csn_sandbox *sandbox, const char *path, const csn_file_sink *to,
                           csn_file_content_fn done, void *user, csn_error *err)
{
    csn_get_call call = { .path = path };
    csn_op *op;

    if (csn_sandbox_need(sandbox, get, "read files", err) < 0 ||
        csn_files_check_path(path, err) < 0 ||
        csn_options_read(&call.to, sizeof(call.to), to, "csn_file_sink", err) < 0)
        return NULL;
    if (call.to.is_fd && call.to.fd < 0) {
        (void) csn_fail(err, CSN_E_INVALID, "read '%.180s': no descriptor", path);
        return NULL;
    }
    if (!call.to.is_fd && call.to.max_bytes == 0)
        call.to.max_bytes = GET_DEFAULT;
    op = new_op(sandbox, done, user, err);
    return op ? csn_op_begun(op, sandbox->box->ops->get(sandbox->box, &call, op, err)) : NULL;
}

/* --- blocking ----------------------------------------------------------------------------------------------------- */

int csn_file_get(csn_sandbox *sandbox, const char *path, size_t max_bytes, char **ret_data,
                 size_t *ret_len, csn_error *err)
{
    csn_file_sink to = { .size = sizeof(to), .max_bytes = max_bytes };
    csn_op_value value;
    int r;

    err = CSN_OP_ERR(err);
    r = csn_op_wait(csn_file_get_async(sandbox, path, &to, NULL, NULL, err), &value, err);
    if (r < 0)
        return r;
    *ret_data = value.content.data;
    *ret_len = (size_t) value.content.n;
    return CSN_OK;
}

int csn_file_get_fd(csn_sandbox *sandbox, const char *path, int to_fd, int64_t *ret_n,
                    csn_error *err)
{
    csn_file_sink to = { .size = sizeof(to), .is_fd = 1, .fd = to_fd };
    csn_op_value value;
    int r;

    err = CSN_OP_ERR(err);
    r = csn_op_wait(csn_file_get_async(sandbox, path, &to, NULL, NULL, err), &value, err);
    if (r >= 0 && ret_n)
        *ret_n = value.content.n;
    return r;
}

int csn_file_put(csn_sandbox *sandbox, const char *path, const void *data, size_t len,
                 uint32_t mode, csn_error *err)
{
    csn_file_source from = { .size = sizeof(from), .data = data, .len = len };

    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_file_put_async(sandbox, path, &from, mode, NULL, NULL, err), NULL, err);
}

int csn_file_put_fd(csn_sandbox *sandbox, const char *path, int from_fd, uint32_t mode,
                    int64_t *ret_n, csn_error *err)
{
    csn_file_source from = { .size = sizeof(from), .is_fd = 1, .fd = from_fd };
    csn_op_value value;
    int r;

    err = CSN_OP_ERR(err);
    r = csn_op_wait(csn_file_put_async(sandbox, path, &from, mode, NULL, NULL, err), &value, err);
    if (r >= 0 && ret_n)
        *ret_n = value.content.n;
    return r;
}
