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
#include "command.h"
#include "core/libexec.h"
#include "daytona.h"
#include "named.h"
#include "open.h"
#include "url.h"
#include "verb.h"

int csn_daytona_cannot(csn_error *err, const char *what)
{
    return csn_fail(err, CSN_E_UNSUPPORTED, "the remote backend can't %s yet", what);
}

static int cannot(const csn_box *box, const char *what, csn_error *err)
{
    (void) box;
    return csn_daytona_cannot(err, what);
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
    csn_daytona_end_execs(d);
    csn_daytona_end_creations(d);
    csn_api_verbs_end(d);
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
    .cannot = cannot,
    .gc = csn_daytona_gc,
    .create = csn_daytona_create,
    .fork = csn_daytona_fork,
    .find = csn_daytona_find,
    .list = csn_daytona_list,
    .box_free = csn_daytona_box_free,
    .refresh = csn_daytona_refresh,
    .set_labels = csn_daytona_set_labels,
    .resize = csn_daytona_resize,
    .set_timers = csn_daytona_set_timers,
    .start = csn_daytona_start,
    .stop = csn_daytona_stop,
    .delete = csn_daytona_delete,
    .stat = csn_daytona_stat,
    .snapshot = csn_daytona_snapshot,
    .exec = csn_daytona_exec,
    .exec_free = csn_daytona_exec_free,
    .exec_signal = csn_daytona_exec_signal,
    .exec_write = csn_daytona_exec_write,
    .exec_close_stdin = csn_daytona_exec_close_stdin,
    .exec_resume = csn_daytona_exec_resume,
    .exec_resize = csn_daytona_exec_resize,
    .exec_read_log = csn_daytona_exec_read_log,
    .exec_wait = csn_daytona_exec_wait,
    .attach = csn_daytona_attach,
    .list_execs = csn_daytona_list_execs,
    .exec_channel = csn_daytona_exec_channel,
    .file = csn_daytona_file,
    .put = csn_daytona_put,
    .get = csn_daytona_get,
    .image_list = csn_daytona_image_list,
    .image_inspect = csn_daytona_image_inspect,
    .image_remove = csn_daytona_image_remove,
    .volume_create = csn_daytona_volume_create,
    .volume_list = csn_daytona_volume_list,
    .volume_inspect = csn_daytona_volume_inspect,
    .volume_remove = csn_daytona_volume_remove,
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
    csn_web_key wk = { .agent = "caisson/" CSN_VERSION, .option = "X-Daytona-Split-Output: true" };
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
    csn_list_init(&d->verbs);
    csn_list_init(&d->execs);
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
