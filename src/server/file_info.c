/* SPDX-License-Identifier: Apache-2.0 */
#include "server/file_info.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/time.h"
#include "server/boxes.h"
#include "server/route.h"

/* --- paths -------------------------------------------------------------------------------------------------------- */

static const char *work_dir(const csn_req *req)
{
    const csn_box_facts *facts = csn_boxes_facts(csn_req_server(req)->boxes, csn_req_box_id(req));

    return facts && facts->work_dir && facts->work_dir[0] == '/' ? facts->work_dir
                                                                 : "/home/daytona";
}

size_t csn_box_path(const csn_req *req, const char *path, csn_buf *out)
{
    size_t before = out->len;

    if (path[0] != '/') {
        csn_buf_puts(out, work_dir(req));
        if (out->len > before && out->data[out->len - 1] != '/')
            csn_buf_putc(out, '/');
    }
    size_t prefix = out->len - before;
    while (path[0] == '.' && path[1] == '/') /* "./a" is told as "a" */
        path += 1 + strspn(path + 1, "/");
    if (strcmp(path, ".") == 0 && prefix > 0)
        path = "";
    csn_buf_puts(out, path);
    if (prefix > 1 && !path[0]) /* the work directory itself, without its '/' */
        csn_buf_truncate(out, out->len - 1);
    return prefix;
}

/* --- FileInfo ----------------------------------------------------------------------------------------------------- */

void csn_file_mode_text(const csn_file_info *info, char out[CSN_MODE_TEXT])
{
    static const char *const kinds[] = {
        [CSN_FILE_REGULAR] = "", [CSN_FILE_DIRECTORY] = "d", [CSN_FILE_SYMLINK] = "L",
        [CSN_FILE_FIFO] = "p",   [CSN_FILE_SOCKET] = "S",    [CSN_FILE_DEVICE] = "D",
    };
    static const char bits[] = "rwxrwxrwx";
    char *at = out;

    for (const char *c = kinds[info->kind]; *c; c++)
        *at++ = *c;
    if (info->mode & 04000)
        *at++ = 'u';
    if (info->mode & 02000)
        *at++ = 'g';
    if (info->mode & 01000)
        *at++ = 't';
    if (at == out)
        *at++ = '-';
    for (int i = 0; i < 9; i++)
        *at++ = info->mode & (0400u >> i) ? bits[i] : '-';
    *at = '\0';
}

static void put_times(csn_jw *w, int64_t mtime_ns)
{
    int64_t s = mtime_ns / CSN_NS_PER_S, ns = mtime_ns % CSN_NS_PER_S;
    char text[80], iso[CSN_ISO8601_SIZE];
    struct tm tm = { 0 };
    time_t when;

    if (ns < 0) {
        s--;
        ns += CSN_NS_PER_S;
    }
    when = (time_t) s;
    (void) gmtime_r(&when, &tm); /* 64 bits of ns are years that fit */
    size_t n = strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    (void) snprintf(text + n, sizeof(text) - n, ".%09d +0000 UTC", (int) ns); /* fits */
    csn_jw_kstr(w, "modTime", text);
    csn_jw_kstr(w, "modifiedAt", csn_iso8601(s * 1000 + ns / CSN_NS_PER_MS, iso));
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

void csn_file_info_put(csn_jw *w, const csn_file_info *info, const char *name, const char *path)
{
    char mode[CSN_MODE_TEXT], text[16];

    csn_file_mode_text(info, mode);
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "name", name ? name : last_part(path));
    csn_jw_kstr(w, "path", path);
    csn_jw_kint(w, "size", info->size_bytes);
    csn_jw_kstr(w, "mode", mode);
    put_times(w, info->mtime_ns);
    csn_jw_kbool(w, "isDir", info->kind == CSN_FILE_DIRECTORY);
    (void) snprintf(text, sizeof(text), "%u", info->uid); /* fits */
    csn_jw_kstr(w, "owner", text);
    (void) snprintf(text, sizeof(text), "%u", info->gid);
    csn_jw_kstr(w, "group", text);
    (void) snprintf(text, sizeof(text), "%04o", info->mode & 0777);
    csn_jw_kstr(w, "permissions", text);
    csn_jw_end_object(w);
}

int csn_parse_mode(const char *text)
{
    int mode = 0;

    if (!*text || strlen(text) > 5)
        return -EINVAL;
    for (; *text; text++) {
        if (*text < '0' || *text > '7')
            return -EINVAL;
        mode = mode * 8 + (*text - '0');
    }
    return mode <= 07777 ? mode : -EINVAL;
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static csn_file_fault fault_of_code(int code)
{
    switch (code) {
    case CSN_E_NOT_FOUND:
        return (csn_file_fault){ 404, "FILE_NOT_FOUND" };
    case CSN_E_EXISTS:
        return (csn_file_fault){ 409, "CONFLICT" };
    case CSN_E_DENIED:
        return (csn_file_fault){ 403, "FILE_ACCESS_DENIED" };
    case CSN_E_INVALID:
    case CSN_E_NOT_REGULAR:
        return (csn_file_fault){ 400, "INVALID_FILE_PATH" };
    case CSN_E_TOO_LARGE:
        return (csn_file_fault){ 413, "TOO_LARGE" };
    case CSN_E_LIMIT:
        return (csn_file_fault){ 507, "DISK_FULL" };
    case CSN_E_STATE:
    case CSN_E_LOST:
        return (csn_file_fault){ 409, "CONFLICT" };
    default:
        return (csn_file_fault){ 500, "FILE_READ_FAILED" };
    }
}

csn_file_fault csn_file_fault_of(const csn_error *err)
{
    if (err->sys_errno == ESRCH) /* an owner that isn't there */
        return (csn_file_fault){ 400, "BAD_REQUEST" };
    return fault_of_code(err->code);
}

void csn_file_fail(csn_req *req, const csn_error *err)
{
    csn_file_fault fault = csn_file_fault_of(err);

    if (err->sys_errno == ESRCH) /* the kernel's word for it is about processes */
        csn_req_error(req, fault.status, fault.code,
                      "the owner or the group is not known in the sandbox");
    else
        csn_req_error(req, fault.status, fault.code, "%s", err->message);
}

/* Without "/toolbox/<sandbox>": the toolbox tells its own paths. */
static const char *inner_path(const csn_req *req)
{
    const char *path = csn_req_path(req);
    const char *rest = csn_starts_with(path, "/toolbox/") ? strchr(path + 9, '/') : NULL;

    return rest ? rest : path;
}

void csn_file_fault_put(csn_jw *w, const csn_req *req, csn_file_fault fault, const char *message)
{
    static const char *const methods[] = {
        [CSN_GET] = "GET",         [CSN_POST] = "POST",     [CSN_PUT] = "PUT",
        [CSN_PATCH] = "PATCH",     [CSN_DELETE] = "DELETE", [CSN_HEAD] = "HEAD",
        [CSN_OPTIONS] = "OPTIONS",
    };
    char now[CSN_ISO8601_SIZE];

    csn_jw_kint(w, "statusCode", fault.status);
    csn_jw_kstr(w, "message", message);
    csn_jw_kstr(w, "code", fault.code);
    csn_jw_kstr(w, "source", "DAYTONA_DAEMON");
    csn_jw_kstr(w, "timestamp", csn_iso8601(csn_wall_ms(), now));
    csn_jw_kstr(w, "path", inner_path(req));
    csn_jw_kstr(w, "method", methods[csn_req_method(req)]);
}
