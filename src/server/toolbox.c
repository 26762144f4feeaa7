/* SPDX-License-Identifier: Apache-2.0 */
#include "server/toolbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "server/cell.h"
#include "server/envs.h"
#include "server/pty.h"
#include "server/session_keep.h"
#include "server/ws.h"

struct csn_toolbox {
    csn_server *server;
    csn_list benches;
    int log_dir_fd;
    csn_keep *keep;
};

/* ---- benches ---------------------------------------------------------------------------------------------------- */

static void free_bench(csn_bench *b)
{
    csn_list *node;

    csn_list_remove(&b->link);
    while ((node = csn_list_first(&b->sessions)))
        csn_session_free(csn_list_entry(node, csn_session, link));
    while ((node = csn_list_first(&b->contexts)))
        csn_context_free(csn_list_entry(node, csn_context, link));
    b->default_context = csn_context_free(b->default_context);
    while ((node = csn_list_first(&b->ptys)))
        csn_pty_free(csn_list_entry(node, csn_pty, link));
    csn_boxes_release(b->hold);
    free(b);
}

static csn_bench *find_bench(csn_toolbox *t, const char *id)
{
    csn_list_foreach (node, &t->benches) {
        csn_bench *b = csn_list_entry(node, csn_bench, link);
        if (strcmp(b->id, id) == 0)
            return b;
    }
    return NULL;
}

csn_bench *csn_toolbox_bench(csn_toolbox *t, const char *id, const csn_sandbox *box)
{
    csn_bench *b = find_bench(t, id);

    return b && b->box == box ? b : NULL;
}

static void on_box_ended(const char *id, void *user)
{
    csn_toolbox *t = user;
    csn_bench *b = find_bench(t, id);

    csn_keep_box_ended(t->keep, id);
    if (b)
        free_bench(b);
}

static csn_bench *new_bench(csn_toolbox *t, const char *id, csn_box_hold *hold)
{
    csn_bench *b = csn_calloc(1, sizeof(*b));

    if (!b)
        return NULL;
    *b = (csn_bench){ .server = t->server, .hold = hold, .box = hold->sandbox };
    memcpy(b->id, id, strnlen(id, sizeof(b->id) - 1));
    csn_list_init(&b->sessions);
    csn_list_init(&b->contexts);
    csn_list_init(&b->ptys);
    csn_list_prepend(&t->benches, &b->link);
    return b;
}

csn_bench *csn_toolbox_make_bench(csn_toolbox *t, const char *id, csn_box_hold *hold)
{
    csn_box_hold *own = find_bench(t, id) ? NULL : csn_boxes_hold(t->server->boxes, id);
    csn_bench *b = own && own == hold ? new_bench(t, id, own) : NULL;

    if (!b)
        (void) csn_boxes_release(own);
    return b;
}

csn_bench *csn_req_bench(csn_req *req, bool may_make)
{
    csn_server *server = csn_req_server(req);
    const char *id = csn_req_box_id(req);
    csn_bench *b = find_bench(server->toolbox, id);

    if (b && b->box == csn_req_box(req))
        return b;
    csn_box_hold *hold = csn_boxes_hold(server->boxes, id);
    bool is_stale = !hold || hold->sandbox != csn_req_box(req); /* stopped meanwhile */
    if (b && !is_stale) /* the line broke and was made anew: what hung on the old one has ended */
        free_bench(b);
    b = may_make && !is_stale ? new_bench(server->toolbox, id, hold) : NULL;
    if (!b) {
        csn_boxes_release(hold);
        if (may_make)
            csn_req_error(req, is_stale ? 410 : 500, NULL, "%s",
                          is_stale ? "the sandbox went away while the request was read"
                                   : "out of memory");
        return NULL;
    }
    return b;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

/* Logs of sessions that a server before us left behind. */
static void sweep(int dir_fd)
{
    csn_auto(fd) int copy = csn_fd_dup(dir_fd, 3);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    struct dirent *e;

    if (!dir)
        return;
    (void) csn_take_fd(&copy); /* the stream's now */
    while ((e = readdir(dir)))
        if (e->d_name[0] != '.')
            (void) unlinkat(dir_fd, e->d_name, 0); /* what can't be removed only takes room */
    (void) closedir(dir);
}

int csn_toolbox_new(csn_server *server, csn_toolbox **ret, csn_error *err)
{
    csn_auto(fd) int data_fd = open(CSN_DATA_HERE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    csn_toolbox *t = csn_calloc(1, sizeof(*t));

    if (!t)
        return csn_fail(err, CSN_E_NO_MEMORY, "make the toolbox");
    t->server = server;
    csn_list_init(&t->benches);
    t->log_dir_fd = -1;
    if (data_fd >= 0 && (mkdirat(data_fd, "session-logs", 0700) == 0 || errno == EEXIST))
        t->log_dir_fd =
            openat(data_fd, "session-logs", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (t->log_dir_fd < 0) {
        int e = errno;
        free(t);
        return csn_fail_sys(err, -e, "open '%s/session-logs'", server->config.data_dir);
    }
    sweep(t->log_dir_fd);
    int r = csn_keep_open(t, server, &t->keep, err);
    if (r < 0) {
        csn_close(&t->log_dir_fd);
        free(t);
        return r;
    }
    csn_boxes_on_ended(server->boxes, on_box_ended, t);
    *ret = t;
    return CSN_OK;
}

csn_toolbox *csn_toolbox_free(csn_toolbox *t)
{
    csn_list *node;

    if (!t)
        return NULL;
    t->keep = csn_keep_free(t->keep);
    while ((node = csn_list_first(&t->benches)))
        free_bench(csn_list_entry(node, csn_bench, link));
    csn_close(&t->log_dir_fd);
    free(t);
    return NULL;
}

csn_keep *csn_toolbox_keep(const csn_toolbox *t)
{
    return t->keep;
}

int csn_toolbox_log_dir(const csn_toolbox *t)
{
    return t->log_dir_fd;
}

/* ---- words of requests ------------------------------------------------------------------------------------------ */

char **csn_req_env(csn_req *req, const csn_json *envs)
{
    const csn_box_facts *facts = csn_boxes_facts(csn_req_server(req)->boxes, csn_req_box_id(req));
    char **env = csn_envs_copy(facts ? facts->env : NULL);
    const char *bad;
    int r = env ? csn_envs_add(&env, envs, &bad) : -ENOMEM;

    if (r == 0)
        return env;
    if (r == -EINVAL)
        csn_req_error(req, 400, "INVALID_REQUEST_BODY",
                      "envs: '%.100s' is not a name with a text for it", bad);
    else
        csn_req_error(req, 500, NULL, "out of memory");
    return csn_envs_free(env);
}

int csn_req_cwd(csn_req *req, const char *cwd, csn_buf *out)
{
    const csn_box_facts *facts = csn_boxes_facts(csn_req_server(req)->boxes, csn_req_box_id(req));

    if (!cwd || cwd[0] != '/')
        (void) csn_buf_puts(out, facts && facts->work_dir ? facts->work_dir : "/home/daytona");
    if (cwd && cwd[0] && cwd[0] != '/')
        (void) csn_buf_putc(out, '/'); /* sticky */
    return csn_buf_puts(out, cwd ? cwd : "");
}

/* Header, or a token of the offer: clients in browsers and Node can't set headers on a socket. */
static const char *version_of(const csn_req *req)
{
    static const char token[] = "X-Daytona-SDK-Version~";
    const char *version = csn_req_header(req, "X-Daytona-SDK-Version"), *offer;

    for (size_t i = 0; !version && (offer = csn_req_ws_offer(req, i)); i++)
        if (strncasecmp(offer, token, sizeof(token) - 1) == 0)
            version = offer + sizeof(token) - 1;
    return version && *version ? version : NULL;
}

csn_log_style csn_req_log_style(const csn_req *req)
{
    return csn_log_style_of(version_of(req), csn_req_header(req, "X-Daytona-Split-Output"));
}

bool csn_req_is_strict(const csn_req *req)
{
    const char *source = csn_req_header(req, "X-Daytona-Source"), *version = version_of(req);
    int parts[3];

    return source && strcmp(source, "sdk-go") == 0 && version &&
           csn_version_parse(version, parts) && csn_version_is_below(parts, 0, 188);
}

void csn_jw_ktime(csn_jw *w, const char *key, int64_t wall_ms)
{
    char text[CSN_ISO8601_SIZE];

    csn_jw_kstr(w, key, csn_iso8601(wall_ms, text));
}
