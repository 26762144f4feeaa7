/* Contents: checked here, moved by the backend; the blocking verbs wait for the started ones. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "core/files.h"

#define GET_DEFAULT ((size_t) 64 << 20)

int csn_file_open(csn_sandbox *sandbox, const char *path, int flags, uint32_t mode, int *ret_fd,
                  csn_error *err)
{
    csn_file_call call = {
        .verb = CSN_FILE_OPEN, .flags = (uint32_t) flags, .mode = (int32_t) mode, .path = path
    };
    csn_waiter got;
    int r;

    if (!(flags & (CSN_OPEN_READ | CSN_OPEN_WRITE)) || (flags & ~63))
        return csn_fail(err, CSN_E_INVALID, "open a file: neither for reading nor for writing");
    r = csn_files_call_wait(sandbox, &call, &got, err);
    if (r >= 0)
        *ret_fd = got.fd;
    return r;
}

/* --- started ------------------------------------------------------------------------------------------------------ */

typedef struct content_promise {
    csn_sandbox *sandbox; /* counted */
    csn_file_content_fn done;
    void *user;
} content_promise;

static void on_content(char *data, int64_t n, int result, const csn_error *err, void *user)
{
    content_promise *p = user;

    p->done(data, n, result, err, p->user);
    csn_sandbox_free(p->sandbox);
    free(p);
}

static int check_content(csn_sandbox *sandbox, const char *path, csn_error *err)
{
    int r = csn_sandbox_check(sandbox, err);

    if (r < 0)
        return r;
    if (!path || !path[0])
        return csn_fail(err, CSN_E_INVALID, "no path was given");
    if (strlen(path) >= 4096)
        return csn_fail(err, CSN_E_INVALID, "the path has more than 4095 bytes: '%.100s…'", path);
    return CSN_OK;
}

static content_promise *promise_of(csn_sandbox *sandbox, csn_file_content_fn done, void *user,
                                   csn_error *err)
{
    content_promise *p = csn_calloc(1, sizeof(*p));

    if (p)
        *p = (content_promise){ csn_sandbox_ref(sandbox), done, user };
    else
        (void) csn_fail(err, CSN_E_NO_MEMORY, "start a request");
    return p;
}

static int end_promise(content_promise *p, int result)
{
    if (result < 0) {
        csn_sandbox_free(p->sandbox);
        free(p);
    }
    return result;
}

int csn_file_put_start(csn_sandbox *sandbox, const char *path, const csn_file_source *from,
                       uint32_t mode, csn_file_content_fn done, void *user, csn_error *err)
{
    csn_put_call call = { .path = path, .mode = mode, .owner = user };
    int r = check_content(sandbox, path, err);

    if (r < 0 ||
        (r = csn_options_read(&call.from, sizeof(call.from), from, "csn_file_source", err)) < 0)
        return r;
    if (call.from.is_fd ? call.from.fd < 0 : !call.from.data && call.from.len > 0)
        return csn_fail(err, CSN_E_INVALID, "write '%.180s': no %s", path,
                        call.from.is_fd ? "descriptor" : "data");
    content_promise *p = promise_of(sandbox, done, user, err);
    return p ? end_promise(p, sandbox->box->ops->put(sandbox->box, &call, on_content, p, err))
             : CSN_E_NO_MEMORY;
}

int csn_file_get_start(csn_sandbox *sandbox, const char *path, const csn_file_sink *to,
                       csn_file_content_fn done, void *user, csn_error *err)
{
    csn_get_call call = { .path = path, .owner = user };
    int r = check_content(sandbox, path, err);

    if (r < 0 || (r = csn_options_read(&call.to, sizeof(call.to), to, "csn_file_sink", err)) < 0)
        return r;
    if (call.to.is_fd && call.to.fd < 0)
        return csn_fail(err, CSN_E_INVALID, "read '%.180s': no descriptor", path);
    if (!call.to.is_fd && call.to.max_bytes == 0)
        call.to.max_bytes = GET_DEFAULT;
    content_promise *p = promise_of(sandbox, done, user, err);
    return p ? end_promise(p, sandbox->box->ops->get(sandbox->box, &call, on_content, p, err))
             : CSN_E_NO_MEMORY;
}

/* --- blocking ----------------------------------------------------------------------------------------------------- */

static void drop_data(csn_waiter *w)
{
    free(w->value);
}

static void on_waited(char *data, int64_t n, int result, const csn_error *err, void *user)
{
    csn_waiter *w = user;

    w->value = data;
    w->n = n;
    csn_waiter_finish(w, result, err);
}

static int put(csn_sandbox *sandbox, const char *path, const csn_file_source *from, uint32_t mode,
               int64_t *ret_n, csn_error *err)
{
    csn_waiter got, *w = csn_waiter_new(NULL, err);
    int r;

    if (!w)
        return CSN_E_NO_MEMORY;
    r = csn_file_put_start(sandbox, path, from, mode, on_waited, w, err);
    if (r < 0) {
        free(w);
        return r;
    }
    r = csn_waiter_wait(w, sandbox->engine, &got, err);
    if (r >= 0 && ret_n)
        *ret_n = got.n;
    return r;
}

static int get(csn_sandbox *sandbox, const char *path, const csn_file_sink *to, csn_waiter *ret,
               csn_error *err)
{
    csn_waiter *w = csn_waiter_new(drop_data, err);
    int r;

    if (!w)
        return CSN_E_NO_MEMORY;
    r = csn_file_get_start(sandbox, path, to, on_waited, w, err);
    if (r < 0) {
        free(w);
        return r;
    }
    return csn_waiter_wait(w, sandbox->engine, ret, err);
}

int csn_file_get(csn_sandbox *sandbox, const char *path, size_t max_bytes, char **ret_data,
                 size_t *ret_len, csn_error *err)
{
    csn_file_sink to = { .size = sizeof(to), .max_bytes = max_bytes };
    csn_waiter got;
    int r = get(sandbox, path, &to, &got, err);

    if (r < 0)
        return r;
    *ret_data = got.value;
    *ret_len = (size_t) got.n;
    return CSN_OK;
}

int csn_file_get_fd(csn_sandbox *sandbox, const char *path, int to_fd, int64_t *ret_n,
                    csn_error *err)
{
    csn_file_sink to = { .size = sizeof(to), .is_fd = 1, .fd = to_fd };
    csn_waiter got;
    int r = get(sandbox, path, &to, &got, err);

    if (r >= 0 && ret_n)
        *ret_n = got.n;
    return r;
}

int csn_file_put(csn_sandbox *sandbox, const char *path, const void *data, size_t len,
                 uint32_t mode, csn_error *err)
{
    csn_file_source from = { .size = sizeof(from), .data = data, .len = len };

    return put(sandbox, path, &from, mode, NULL, err);
}

int csn_file_put_fd(csn_sandbox *sandbox, const char *path, int from_fd, uint32_t mode,
                    int64_t *ret_n, csn_error *err)
{
    csn_file_source from = { .size = sizeof(from), .is_fd = 1, .fd = from_fd };

    return put(sandbox, path, &from, mode, ret_n, err);
}
