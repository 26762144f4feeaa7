/* SPDX-License-Identifier: Apache-2.0 */
#include "server/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/time.h"
#include "server/auth.h"
#include "server/route.h"

/* One log per process, as there is one store. */
static int dir_fd = -1, log_fd = -1;
static int64_t n_bytes;
static bool is_unsynced;

static int open_log(void)
{
    struct stat st;

    log_fd =
        openat(dir_fd, "audit.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (log_fd < 0 || fstat(log_fd, &st) < 0)
        return -errno;
    n_bytes = st.st_size;
    return 0;
}

int csn_audit_open(const char *dir, csn_error *err)
{
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return csn_fail_sys(err, -errno, "open '%s'", dir);
    int r = open_log();
    return r < 0 ? csn_fail_sys(err, r, "open '%s/audit.log'", dir) : CSN_OK;
}

void csn_audit_sync(void)
{
    if (!is_unsynced || log_fd < 0)
        return;
    if (fdatasync(log_fd) < 0)
        csn_log(CSN_LOG_ERROR, "the audit log can't be synced", "error", csn_strerror(errno), NULL);
    is_unsynced = false;
}

void csn_audit_close(void)
{
    csn_audit_sync();
    csn_close(&log_fd);
    csn_close(&dir_fd);
}

static void rotate(void)
{
    csn_audit_sync();
    csn_close(&log_fd);
    if (renameat(dir_fd, "audit.log", dir_fd, "audit.log.1") < 0 || open_log() < 0)
        csn_log(CSN_LOG_ERROR, "the audit log can't be turned over", "error", csn_strerror(errno),
                NULL);
}

static const char *method_name(csn_method method)
{
    static const char *const names[] = {
        [CSN_GET] = "GET",         [CSN_POST] = "POST",     [CSN_PUT] = "PUT",
        [CSN_PATCH] = "PATCH",     [CSN_DELETE] = "DELETE", [CSN_HEAD] = "HEAD",
        [CSN_OPTIONS] = "OPTIONS",
    };

    return names[method];
}

static void write_line(const csn_req *req, int status, csn_buf *out)
{
    const csn_caller *who = csn_req_caller(req);
    csn_jw w = CSN_JW_INIT(out, false);
    char now[CSN_ISO8601_SIZE];

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "time", csn_iso8601(csn_wall_ms(), now));
    csn_jw_kstr(&w, "request", csn_req_id(req));
    csn_jw_kstr(&w, "org", who->org_id);
    csn_jw_kstr(&w, "key", who->key_id);
    csn_jw_kstr(&w, "peer", csn_req_peer(req));
    csn_jw_kstr(&w, "method", method_name(csn_req_method(req)));
    csn_jw_kstr(&w, "route", csn_req_route(req)->pattern);
    csn_jw_key(&w, "path");
    const char *path = csn_req_path(req);
    csn_jw_string(&w, path, strnlen(path, 512));
    if (csn_req_box_id(req) && *csn_req_box_id(req))
        csn_jw_kstr(&w, "sandbox", csn_req_box_id(req));
    csn_jw_kint(&w, "status", status);
    csn_jw_end_object(&w);
    csn_buf_putc(out, '\n');
}

void csn_audit_request(const csn_req *req, int status)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT_MAX(8192);
    const csn_route *route = csn_req_route(req);

    if (route->flags &
        CSN_ROUTE_PREVIEW) /* anybody could write it full, and so lose what it is for */
        return;
    if (log_fd < 0 || (!(route->flags & CSN_ROUTE_AUDIT) && route->scope != CSN_SCOPE_BOX))
        return;
    write_line(req, status, &line);
    if (line.error < 0 || csn_write_all(log_fd, line.data, line.len) < 0) {
        csn_log(CSN_LOG_ERROR, "a line of the audit log is lost", "request", csn_req_id(req), NULL);
        return;
    }
    n_bytes += (int64_t) line.len;
    is_unsynced = true;
    if (n_bytes > CSN_AUDIT_BYTES_MAX)
        rotate();
}
