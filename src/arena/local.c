/* Sandboxes of an engine, on this machine or elsewhere: the engine's own asynchronous verbs behind the arena's table. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <caisson/files.h>

#include "backend.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/list.h"

struct csn_box {
    csn_sandbox *sandbox;
    csn_process *process; /* of the last exec */
    struct call *running; /* its call, while it runs */
    csn_list calls;       /* started, not answered */
};

/* One started verb. It may outlive its box: the engine still holds it as `user`. */
typedef struct call {
    csn_list link;
    csn_box *box; /* NULL: the box is gone */
    bool is_abandoned;
    union {
        csn_box_done *created;
        csn_done_fn done;
        csn_box_data *data;
        csn_box_exit *exit;
    };
    csn_box_output *output;
    size_t max_bytes;
    void *user;
} call;

static call *new_call(csn_box *box, void *user, csn_error *err)
{
    call *c = csn_calloc(1, sizeof(*c));

    if (!c) {
        (void) csn_fail(err, CSN_E_NO_MEMORY, "out of memory");
        return NULL;
    }
    c->box = box;
    c->user = user;
    if (box)
        csn_list_append(&box->calls, &c->link);
    return c;
}

static void end_call(call *c)
{
    csn_list_remove(&c->link);
    free(c);
}

/* ---- create ---- */

static void created(csn_sandbox *sandbox, int result, const csn_error *err, void *user)
{
    call *c = user;
    csn_box *box = NULL;
    csn_error memory;

    if (sandbox) {
        box = csn_calloc(1, sizeof(*box));
        if (box) {
            box->sandbox = sandbox;
            csn_list_init(&box->calls);
        } else {
            (void) csn_sandbox_delete(sandbox, NULL); /* nobody else knows of it */
            csn_sandbox_free(sandbox);
            result = csn_fail(&memory, CSN_E_NO_MEMORY, "out of memory");
            err = &memory;
        }
    }
    c->created(box, result, err, c->user);
    end_call(c);
}

static int local_create(void *context, const csn_box_options *o, csn_box_done *done, void *user,
                        csn_error *err)
{
    csn_sandbox_options so = {
        .size = sizeof(so),
        .image = o->image,
        .network = o->network,
        .is_ephemeral = 1,
        .memory_bytes = o->memory_bytes,
        .cpu_milli = o->cpu_milli,
        .pids = o->pids,
        .disk_bytes = o->disk_bytes,
        .strict = o->strict,
        .cwd = "/home/daytona",
    };
    call *c = new_call(NULL, user, err);
    int r;

    if (!c)
        return CSN_E_NO_MEMORY;
    csn_list_init(&c->link);
    c->created = done;
    r = csn_sandbox_create_start(context, &so, created, c, err);
    if (r < 0)
        end_call(c);
    return r;
}

static const char *local_id(const csn_box *box)
{
    return csn_sandbox_id(box->sandbox);
}

/* ---- files ---- */

static void put_done(char *data, int64_t n, int result, const csn_error *err, void *user)
{
    call *c = user;

    (void) data;
    (void) n;
    if (!c->is_abandoned)
        c->done(result, err, c->user);
    end_call(c);
}

static int local_put(csn_box *box, const csn_upload *upload, csn_done_fn done, void *user,
                     csn_error *err)
{
    csn_file_source from = {
        .size = sizeof(from), .data = upload->data, .len = upload->len, .in_place = 1
    };
    csn_auto(fd) int fd = -1;
    call *c;
    int r;

    if (upload->host_path) {
        fd = open(upload->host_path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
            return csn_fail_sys(err, -errno, "open '%s'", upload->host_path);
        from = (csn_file_source){ .size = sizeof(from), .is_fd = 1, .fd = fd, .in_place = 1 };
    }
    c = new_call(box, user, err);
    if (!c)
        return CSN_E_NO_MEMORY;
    c->done = done;
    r = csn_file_put_start(box->sandbox, upload->path, &from, upload->mode, put_done, c, err);
    if (r < 0)
        end_call(c);
    return r;
}

static void get_done(char *data, int64_t n, int result, const csn_error *err, void *user)
{
    call *c = user;
    csn_error large;

    if (result == CSN_E_TOO_LARGE && n > 0) {
        (void) csn_fail(&large, result, "%" PRId64 " bytes exceeds limit %zu", n, c->max_bytes);
        err = &large;
    }
    if (!c->is_abandoned)
        c->data(data, data ? (size_t) n : 0, result, err, c->user);
    else
        free(data);
    end_call(c);
}

static int local_get(csn_box *box, const char *path, size_t max_bytes, csn_box_data *done,
                     void *user, csn_error *err)
{
    csn_file_sink to = { .size = sizeof(to), .max_bytes = max_bytes };
    call *c = new_call(box, user, err);
    int r;

    if (!c)
        return CSN_E_NO_MEMORY;
    c->data = done;
    c->max_bytes = max_bytes;
    r = csn_file_get_start(box->sandbox, path, &to, get_done, c, err);
    if (r < 0)
        end_call(c);
    return r;
}

/* ---- exec ---- */

static int process_output(csn_process *process, csn_stream stream, const void *data, size_t len,
                          void *user)
{
    call *c = user;

    (void) process;
    if (!c->is_abandoned)
        c->output(stream, data, len, c->user);
    return 0;
}

static void process_ended(csn_process *process, const csn_receipt *receipt, void *user)
{
    call *c = user;

    c->box->process = process;
    c->box->running = NULL;
    if (!c->is_abandoned)
        c->exit(receipt, CSN_OK, NULL, c->user);
    end_call(c);
}

static void process_started(csn_process *process, int result, const csn_error *err, void *user)
{
    call *c = user;

    if (result == CSN_OK && c->box) { /* process_ended() will come */
        c->box->process = process;
        c->box->running = c;
        return;
    }
    csn_process_free(process); /* from here on it calls nobody */
    if (!c->is_abandoned)
        c->exit(NULL, result, err, c->user);
    end_call(c);
}

static int local_exec(csn_box *box, const csn_exec_request *request, csn_box_output *output,
                      csn_box_exit *done, void *user, csn_error *err)
{
    csn_process_options po = {
        .size = sizeof(po),
        .argv = request->argv,
        .shell = request->shell,
        .env = request->env,
        .cwd = request->cwd,
        .timeout_ms = request->timeout_ms,
        .output_bytes = CSN_UNLIMITED, /* the job counts and cuts */
        .on_output = process_output,
        .on_exit = process_ended,
    };
    call *c = new_call(box, user, err);
    int r;

    if (!c)
        return CSN_E_NO_MEMORY;
    box->process = csn_process_free(box->process);
    c->exit = done;
    c->output = output;
    po.user_data = c;
    r = csn_process_start_start(box->sandbox, &po, process_started, c, err);
    if (r < 0)
        end_call(c);
    return r;
}

/* ---- the end ---- */

static void local_abandon(csn_box *box)
{
    csn_list_foreach (node, &box->calls) {
        call *c = csn_list_entry(node, call, link);

        if (!c->is_abandoned)
            csn_file_cancel(box->sandbox, c); /* of a put or get: the rest of it is not wanted */
        c->is_abandoned = true;
    }
}

static void removed(int result, const csn_error *err, void *user)
{
    call *c = user;

    if (!c->is_abandoned)
        c->done(result, err, c->user);
    end_call(c);
}

static int local_remove(csn_box *box, csn_done_fn done, void *user, csn_error *err)
{
    call *c = new_call(box, user, err);
    int r;

    if (!c)
        return CSN_E_NO_MEMORY;
    c->done = done;
    r = csn_sandbox_delete_start(box->sandbox, removed, c, err);
    if (r < 0)
        end_call(c);
    return r;
}

static void local_free(csn_box *box)
{
    local_abandon(box);
    csn_process_free(box->process); /* from here on it calls nobody */
    if (box->running)
        end_call(box->running);
    csn_list_foreach (node, &box->calls) {
        csn_list_entry(node, call, link)->box = NULL;
        csn_list_remove(node);
    }
    csn_sandbox_free(box->sandbox);
    free(box);
}

static int local_fd(void *context)
{
    return csn_engine_fd(context);
}

static int local_dispatch(void *context, csn_error *err)
{
    return csn_engine_dispatch(context, 0, err);
}

/* ---- the two of them ---- */

/* There both streams come as one: who wants the first alone has the second thrown away. */
static int remote_exec(csn_box *box, const csn_exec_request *request, csn_box_output *output,
                       csn_box_exit *done, void *user, csn_error *err)
{
    static const char quiet[] = "exec \"$@\" 2>/dev/null";
    csn_exec_request inner = *request;
    const char **argv;
    size_t n = 0;
    int r;

    if (!request->only_stdout || !request->argv)
        return local_exec(box, request, output, done, user, err);
    while (request->argv[n])
        n++;
    argv = csn_calloc(n + 5, sizeof(*argv));
    if (!argv)
        return csn_fail(err, CSN_E_NO_MEMORY, "out of memory");
    memcpy(argv, (const char *[]){ "/bin/sh", "-c", quiet, "sh" }, 4 * sizeof(*argv));
    memcpy(argv + 4, request->argv, n * sizeof(*argv));
    inner.argv = argv;
    r = local_exec(box, &inner, output, done, user, err);
    free(argv);
    return r;
}

#define SHARED_VERBS \
    .create = local_create, .id = local_id, .put = local_put, .get = local_get, \
    .abandon = local_abandon, .remove = local_remove, .free = local_free, .fd = local_fd, \
    .dispatch = local_dispatch

const csn_backend_ops csn_backend_local = {
    .mode = "local",
    .tag = "Sandbox",
    .exec = local_exec,
    SHARED_VERBS,
};

const csn_backend_ops csn_backend_daytona = {
    .mode = "daytona",
    .tag = "Daytona",
    .exec = remote_exec,
    SHARED_VERBS,
};
