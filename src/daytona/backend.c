/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: an engine whose sandboxes are elsewhere is this table, a helper process that speaks HTTP
 * (src/remote), and lists of what is under way. Every verb is one or a few calls of the service's API (call.h) whose
 * completions run from the engine's loop. What a service answers is read in answer.c and nowhere else.
 *
 * What this engine made, it takes along: before a create is sent, the helper is told which DELETE to send when we are gone.
 * So a program that ends, by kill -9 too, leaves nothing; what even that misses (a machine that lost its power) the service
 * deletes itself, since attached sandboxes are ephemeral and stop when nobody uses them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/str.h"
#include "call.h"
#include "core/libexec.h"
#include "daytona.h"
#include "url.h"

int csn_daytona_cannot(csn_error *err, const char *what)
{
    return csn_fail(err, CSN_E_UNSUPPORTED, "the remote backend can't %s yet", what);
}

/* ---- what is not there yet: each says so by name ---- */

static int no_fork(csn_box *box, csn_wish *wish, csn_box_done_fn *done, void *user, csn_error *err)
{
    (void) box;
    (void) wish;
    (void) done;
    (void) user;
    return csn_daytona_cannot(err, "fork a sandbox");
}

static int no_lend(csn_box *box, int *ret_fd, csn_error *err)
{
    (void) box;
    (void) ret_fd;
    return csn_daytona_cannot(err, "lend a sandbox");
}

static int no_borrow(csn_backend *backend, csn_wish *wish, int fd, csn_box **ret_box,
                     csn_error *err)
{
    (void) backend;
    (void) wish;
    (void) fd;
    (void) ret_box;
    return csn_daytona_cannot(err, "borrow a sandbox");
}

static int no_labels(csn_box *box, const char *const *labels, csn_error *err)
{
    (void) box;
    (void) labels;
    return csn_daytona_cannot(err, "change labels");
}

static int no_resize(csn_box *box, int64_t memory_bytes, int64_t cpu_milli, int64_t disk_bytes,
                     csn_done_fn done, void *user, csn_error *err)
{
    (void) box;
    (void) memory_bytes;
    (void) cpu_milli;
    (void) disk_bytes;
    (void) done;
    (void) user;
    return csn_daytona_cannot(err, "resize a sandbox");
}

static int no_timers(csn_box *box, int64_t ttl_ms, int64_t idle_stop_ms, csn_done_fn done,
                     void *user, csn_error *err)
{
    (void) box;
    (void) ttl_ms;
    (void) idle_stop_ms;
    (void) done;
    (void) user;
    return csn_daytona_cannot(err, "change timers");
}

static int no_start(csn_box *box, csn_done_fn done, void *user, csn_error *err)
{
    (void) box;
    (void) done;
    (void) user;
    return csn_daytona_cannot(err, "start a stopped sandbox");
}

static int no_stop(csn_box *box, int grace_ms, csn_done_fn done, void *user, csn_error *err)
{
    (void) box;
    (void) grace_ms;
    (void) done;
    (void) user;
    return csn_daytona_cannot(err, "stop a sandbox");
}

static int no_stat(csn_box *box, csn_stat_done_fn *done, void *user, csn_error *err)
{
    (void) box;
    (void) done;
    (void) user;
    return csn_daytona_cannot(err, "tell what a sandbox uses");
}

static int no_snapshot(csn_box *box, const char *image, csn_done_fn done, void *user,
                       csn_error *err)
{
    (void) box;
    (void) image;
    (void) done;
    (void) user;
    return csn_daytona_cannot(err, "take a snapshot");
}

static int no_attach(csn_box *box, uint32_t id, const csn_exec_events *events, void *user,
                     csn_exec **ret_exec, csn_error *err)
{
    (void) box;
    (void) id;
    (void) events;
    (void) user;
    (void) ret_exec;
    return csn_daytona_cannot(err, "open a running command");
}

static int no_list_execs(csn_box *box, csn_process_list_fn fn, void *fn_user, csn_done_fn done,
                         void *user, csn_error *err)
{
    (void) box;
    (void) fn;
    (void) fn_user;
    (void) done;
    (void) user;
    return csn_daytona_cannot(err, "list commands");
}

static int no_write(csn_exec *exec, const void *data, size_t len, size_t *ret_n, csn_error *err)
{
    (void) exec;
    (void) data;
    (void) len;
    (void) ret_n;
    return csn_daytona_cannot(err, "write to a command's stdin");
}

static int no_close_stdin(csn_exec *exec, csn_error *err)
{
    (void) exec;
    return csn_daytona_cannot(err, "close a command's stdin");
}

static void no_resume(csn_exec *exec)
{
    (void) exec; /* its output came in one piece */
}

static int no_exec_resize(csn_exec *exec, uint16_t rows, uint16_t cols, csn_error *err)
{
    (void) exec;
    (void) rows;
    (void) cols;
    return csn_daytona_cannot(err, "resize a terminal");
}

static int no_channel(csn_exec *exec, int which)
{
    (void) exec;
    (void) which;
    return -1;
}

static int no_log(csn_exec *exec, int64_t offset, void *data, size_t size, csn_log_piece *ret_piece,
                  csn_error *err)
{
    (void) exec;
    (void) offset;
    (void) data;
    (void) size;
    (void) ret_piece;
    return csn_daytona_cannot(err, "read a command's log");
}

static int no_wait(csn_exec *exec, int64_t offset, csn_done_fn done, void *user, csn_error *err)
{
    (void) exec;
    (void) offset;
    (void) done;
    (void) user;
    return csn_daytona_cannot(err, "wait for a command's log");
}

static const char *const file_verbs[] = {
    [CSN_FILE_STAT] = "look at a file",
    [CSN_FILE_LIST] = "list a directory",
    [CSN_FILE_MKDIR] = "make a directory",
    [CSN_FILE_MOVE] = "move a file",
    [CSN_FILE_DELETE] = "delete a file",
    [CSN_FILE_CHMOD] = "change a file's mode",
    [CSN_FILE_FIND] = "find files",
    [CSN_FILE_SEARCH] = "search in files",
    [CSN_FILE_REPLACE] = "replace text in files",
};

static int no_file(csn_box *box, const csn_file_call *call, csn_call_done_fn *done, void *user,
                   csn_error *err)
{
    (void) box;
    (void) done;
    (void) user;
    if (call->verb == CSN_FILE_CONNECT)
        return csn_daytona_cannot(err, "connect to a port");
    return csn_daytona_cannot(err, call->verb < CSN_COUNT(file_verbs) && file_verbs[call->verb]
                                       ? file_verbs[call->verb]
                                       : "hand out a file's descriptor");
}

/* ---- the engine ---- */

static const char *place(csn_backend *backend)
{
    return csn_daytona_of(backend)->url;
}

static void free_strings(csn_daytona *d)
{
    if (d->secret)
        explicit_bzero(d->secret, strlen(d->secret));
    free(d->secret);
    free(d->url);
    free(d->target);
    free(d);
}

/* Everything under way is answered first, by our own callbacks; then the helper deletes what is ours. */
static csn_backend *close_all(csn_backend *backend)
{
    csn_daytona *d = csn_daytona_of(backend);

    d->is_closing = true;
    csn_api_calls_end(d);
    csn_daytona_end_creations(d);
    csn_webline_close(&d->line);
    for (csn_list *node; (node = csn_list_pop(&d->boxes));) {
        csn_daytona_box *box = csn_list_entry(node, csn_daytona_box, link);

        box->base.backend = NULL;
        box->base.state = CSN_STATE_DELETED;
    }
    free_strings(d);
    return NULL;
}

static const csn_backend_ops ops = {
    .name = "daytona",
    .is_remote = true,
    .free = close_all,
    .place = place,
    .gc = csn_daytona_gc,
    .create = csn_daytona_create,
    .fork = no_fork,
    .find = csn_daytona_find,
    .list = csn_daytona_list,
    .lend = no_lend,
    .borrow = no_borrow,
    .box_free = csn_daytona_box_free,
    .refresh = csn_daytona_refresh,
    .set_labels = no_labels,
    .resize = no_resize,
    .set_timers = no_timers,
    .start = no_start,
    .stop = no_stop,
    .delete = csn_daytona_delete,
    .stat = no_stat,
    .snapshot = no_snapshot,
    .exec = csn_daytona_exec,
    .attach = no_attach,
    .list_execs = no_list_execs,
    .exec_free = csn_daytona_exec_free,
    .exec_signal = csn_daytona_exec_signal,
    .exec_write = no_write,
    .exec_close_stdin = no_close_stdin,
    .exec_resume = no_resume,
    .exec_resize = no_exec_resize,
    .exec_channel = no_channel,
    .exec_read_log = no_log,
    .exec_wait = no_wait,
    .file = no_file,
    .put = csn_daytona_put,
    .get = csn_daytona_get,
    .file_cancel = csn_daytona_file_cancel,
};

static int copy_url(csn_daytona *d, const char *url, csn_error *err)
{
    csn_origin origin;

    d->url = csn_strdup(url);
    if (!d->url)
        return csn_fail(err, CSN_E_NO_MEMORY, "open a remote engine");
    for (size_t n = strlen(d->url); n > 0 && d->url[n - 1] == '/'; n--)
        d->url[n - 1] = '\0';
    if (csn_origin_parse(d->url, &origin) < 0)
        return csn_fail(err, CSN_E_INVALID,
                        "'%.100s' is no URL of a service: http:// or https://, a host, a path",
                        url);
    return CSN_OK;
}

static int open_line(csn_daytona *d, const csn_engine_options *o, csn_error *err)
{
    const char *key = o->remote_key && o->remote_key[0] ? o->remote_key : o->remote_token;
    csn_auto(buf) csn_buf bearer = CSN_BUF_INIT;
    csn_auto(buf) csn_buf extra = CSN_BUF_INIT;
    csn_auto(mem) char *libexec = NULL;
    csn_web_key wk = { .agent = "caisson/" CSN_VERSION };
    int r;

    if (!key || !key[0])
        return csn_fail(err, CSN_E_INVALID, "open a remote engine: neither a key nor a token");
    if (strlen(key) > CSN_WEB_KEY_MAX - 16)
        return csn_fail(err, CSN_E_INVALID, "open a remote engine: the key is too long");
    for (const char *c = key; *c; c++)
        if (*c <= ' ' || *c >= 0x7f)
            return csn_fail(err, CSN_E_INVALID,
                            "open a remote engine: the key holds a character that no key has");
    if (!(d->secret = csn_strdup(key)))
        return csn_fail(err, CSN_E_NO_MEMORY, "open a remote engine");
    r = csn_libexec_find(o->libexec_dir, "caisson-remote", &libexec, err);
    if (r < 0)
        return r;
    csn_buf_printf(&bearer, "Bearer %s", key);
    if (o->remote_organization && o->remote_organization[0])
        csn_buf_printf(&extra, "X-Daytona-Organization-ID: %.200s", o->remote_organization);
    wk.authorization = bearer.data;
    wk.extra = extra.data;
    r = csn_webline_open(&d->line, d->base.loop, libexec, &wk, err);
    explicit_bzero(bearer.data, bearer.len);
    return r;
}

int csn_daytona_open(csn_loop *loop, const csn_engine_options *o, csn_backend **ret_backend,
                     csn_error *err)
{
    csn_daytona *d = csn_calloc(1, sizeof(*d));
    int r;

    if (!d)
        return csn_fail(err, CSN_E_NO_MEMORY, "open a remote engine");
    d->base = (csn_backend){ .ops = &ops, .loop = loop };
    csn_list_init(&d->boxes);
    csn_list_init(&d->creations);
    csn_list_init(&d->calls);
    csn_daytona_whose(d);
    r = copy_url(d, o->remote_url, err);
    if (r >= 0 && o->remote_target && o->remote_target[0] &&
        !(d->target = csn_strdup(o->remote_target)))
        r = csn_fail(err, CSN_E_NO_MEMORY, "open a remote engine");
    if (r >= 0)
        r = open_line(d, o, err);
    if (r < 0) {
        free_strings(d);
        return r;
    }
    *ret_backend = &d->base;
    return CSN_OK;
}

int csn_engine_remote_check(const char *libexec_dir, csn_error *err)
{
    csn_auto(mem) char *libexec = NULL;

    return csn_libexec_find(libexec_dir, "caisson-remote", &libexec, err);
}
