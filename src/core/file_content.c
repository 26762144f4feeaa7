/* Contents: the guest opens the file and hands out its descriptor, the bytes flow between descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"
#include "core/files.h"

#define GET_DEFAULT ((size_t) 64 << 20)
#define COPY_PIECE  ((size_t) 1 << 20)

int csn_file_open(csn_sandbox *sandbox, const char *path, int flags, uint32_t mode, int *ret_fd,
                  csn_error *err)
{
    csn_file_call call = { .verb = CSN_FILE_OPEN,
                           .flags = (uint32_t) flags,
                           .mode = (int32_t) mode,
                           .path = path };
    csn_waiter got;
    int r;

    if (!(flags & (CSN_OPEN_READ | CSN_OPEN_WRITE)) || (flags & ~63))
        return csn_fail(err, CSN_E_INVALID, "open a file: neither for reading nor for writing");
    r = csn_files_call_wait(sandbox, &call, &got, err);
    if (r >= 0)
        *ret_fd = got.fd;
    return r;
}

/* --- out ---------------------------------------------------------------------------------------------------------- */

int csn_file_get(csn_sandbox *sandbox, const char *path, size_t max_bytes, char **ret_data,
                 size_t *ret_len, csn_error *err)
{
    csn_auto(fd) int fd = -1;
    csn_auto(buf) csn_buf data = CSN_BUF_INIT_MAX(SIZE_MAX / 4);
    size_t max = max_bytes ? max_bytes : GET_DEFAULT;
    int r = csn_file_open(sandbox, path, CSN_OPEN_READ, 0, &fd, err);

    if (r < 0)
        return r;
    r = csn_read_to_buf(fd, &data, max);
    if (r == -EFBIG || r == -E2BIG)
        return csn_fail(err, CSN_E_TOO_LARGE, "'%.180s' has more than %zu bytes", path, max);
    if (r < 0)
        return csn_fail_sys(err, r, "read '%.180s'", path);
    char *bytes = csn_buf_take(&data, ret_len);
    if (!bytes)
        return csn_fail(err, CSN_E_NO_MEMORY, "read '%.180s'", path);
    *ret_data = bytes;
    return CSN_OK;
}

/* How much to take next: one byte more than may be, so that too much is noticed. 0: that has come. */
static size_t next_piece(size_t piece, int64_t n, int64_t max)
{
    if (max <= 0 || max - n >= (int64_t) piece)
        return piece;
    return n > max ? 0 : (size_t) (max - n + 1);
}

static int copy_plain(int from, int to, int64_t max, int64_t *n)
{
    csn_auto(mem) char *piece = csn_malloc(COPY_PIECE);

    if (!piece)
        return -ENOMEM;
    for (;;) {
        size_t size = next_piece(COPY_PIECE, *n, max);
        ssize_t got = size ? csn_read(from, piece, size) : -ENOSPC;
        if (got <= 0)
            return (int) got;
        int r = csn_write_all(to, piece, (size_t) got);
        if (r < 0)
            return r;
        *n += got;
    }
}

/* Within the kernel where it can: between files, then by a pipe's buffers, then by hand. -ENOSPC: more than `max` (above 0). */
static int copy_bytes(int from, int to, int64_t max, int64_t *n)
{
    size_t size;

    while ((size = next_piece(COPY_PIECE * 16, *n, max)) > 0) {
        ssize_t got = copy_file_range(from, NULL, to, NULL, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break; /* 0 is also what some file systems say when they can't */
        *n += got;
    }
    while ((size = next_piece(COPY_PIECE, *n, max)) > 0) {
        ssize_t got = splice(from, NULL, to, NULL, size, SPLICE_F_MOVE);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        *n += got;
    }
    return copy_plain(from, to, max, n);
}

int csn_file_get_fd(csn_sandbox *sandbox, const char *path, int to_fd, int64_t *ret_n,
                    csn_error *err)
{
    csn_auto(fd) int fd = -1;
    int64_t n = 0;
    int r = csn_file_open(sandbox, path, CSN_OPEN_READ, 0, &fd, err);

    if (r < 0)
        return r;
    r = copy_bytes(fd, to_fd, 0, &n);
    if (r < 0)
        return csn_fail_sys(err, r, "copy '%.180s' out", path);
    if (ret_n)
        *ret_n = n;
    return CSN_OK;
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

typedef struct source {
    const void *data;
    size_t len;
    int fd; /* >= 0: instead of data */
} source;

/* No more than the sandbox's disk may hold, also where nobody but the keeper counts, and that later. */
static int write_source(const source *from, int to, int64_t disk_bytes, int64_t *n)
{
    int r;

    if (from->fd >= 0)
        return copy_bytes(from->fd, to, disk_bytes, n);
    if (disk_bytes > 0 && from->len > (uint64_t) disk_bytes)
        return -ENOSPC;
    r = csn_write_all(to, from->data, from->len);
    *n = (int64_t) from->len;
    return r;
}

/* Beside the target, so that the move is a rename; a name nobody else picks. */
static int temp_name(const char *path, csn_buf *out)
{
    const char *slash = strrchr(path, '/');
    size_t dir_len = slash ? (size_t) (slash - path) + 1 : 0;
    char id[17];
    int r = csn_id_hex(id, 8);

    if (r < 0)
        return r;
    csn_buf_append(out, path, dir_len);
    return csn_buf_printf(out, ".caisson-%s", id);
}

/* What is at the path now: a directory or a device can't be replaced by contents, and an existing file keeps its mode. */
typedef struct target {
    bool is_there;
    csn_file_kind kind;
    uint32_t mode;
} target;

static void note_target(const csn_file_info *info, void *user)
{
    *(target *) user = (target){ .is_there = true, .kind = info->kind, .mode = info->mode };
}

static int check_target(csn_sandbox *sandbox, const char *path, target *ret, csn_error *err)
{
    csn_error why = { 0 };
    int r = csn_file_stat(sandbox, path, 1, note_target, ret, &why);

    if (r < 0 && r != CSN_E_NOT_FOUND) {
        if (err)
            *err = why;
        return r;
    }
    if (ret->is_there && ret->kind != CSN_FILE_REGULAR)
        return csn_fail(err, CSN_E_NOT_REGULAR, "'%.180s' is not a regular file", path);
    return CSN_OK;
}

static int fail_write(csn_error *err, int e, const char *path)
{
    int r = csn_fail_sys(err, e, "write '%.180s'", path);

    if (e != -ENOSPC && e != -EDQUOT)
        return r;
    if (err)
        err->code = CSN_E_LIMIT;
    return CSN_E_LIMIT;
}

/* The name for the time being is nobody's business. */
static int fail_open(csn_error *err, const csn_error *why, const char *path)
{
    if (why->sys_errno == 0) {
        if (err)
            *err = *why;
        return csn_fail_in(err, why->code, "write '%.100s'", path);
    }
    csn_fail(err, why->code, "write '%.180s': %s", path, csn_strerror(why->sys_errno));
    if (err)
        err->sys_errno = why->sys_errno;
    return why->code;
}

static int put(csn_sandbox *sandbox, const char *path, const source *from, uint32_t mode,
               int64_t *ret_n, csn_error *err)
{
    csn_auto(buf) csn_buf temp = CSN_BUF_INIT;
    csn_auto(fd) int fd = -1;
    target now = { 0 };
    csn_error why = { 0 };
    int64_t n = 0;
    int r;

    if (!path || !path[0])
        return csn_fail(err, CSN_E_INVALID, "no path was given");
    r = check_target(sandbox, path, &now, err);
    if (r < 0)
        return r;
    if (temp_name(path, &temp) < 0)
        return csn_fail(err, CSN_E_NO_MEMORY, "write '%.180s'", path);
    if (mode == 0)
        mode = now.is_there ? now.mode : 0644;
    r = csn_file_open(sandbox, temp.data, CSN_OPEN_WRITE | CSN_OPEN_CREATE | CSN_OPEN_EXCLUSIVE,
                      mode, &fd, &why);
    if (r < 0)
        return fail_open(err, &why, path);
    r = write_source(from, fd, sandbox->box->wish.disk_bytes, &n);
    csn_close(&fd);
    r = r < 0 ? fail_write(err, r, path) : csn_file_move(sandbox, temp.data, path, err);
    if (r < 0) {
        (void) csn_file_delete(sandbox, temp.data, 0, NULL); /* what failed is told */
        return r;
    }
    if (ret_n)
        *ret_n = n;
    return CSN_OK;
}

int csn_file_put(csn_sandbox *sandbox, const char *path, const void *data, size_t len,
                 uint32_t mode, csn_error *err)
{
    source from = { .data = data, .len = len, .fd = -1 };

    if (!data && len > 0)
        return csn_fail(err, CSN_E_INVALID, "write '%.180s': no data", path ? path : "");
    return put(sandbox, path, &from, mode, NULL, err);
}

int csn_file_put_fd(csn_sandbox *sandbox, const char *path, int from_fd, uint32_t mode,
                    int64_t *ret_n, csn_error *err)
{
    source from = { .fd = from_fd };

    if (from_fd < 0)
        return csn_fail(err, CSN_E_INVALID, "write '%.180s': no descriptor", path ? path : "");
    return put(sandbox, path, &from, mode, ret_n, err);
}
