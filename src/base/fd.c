#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault.h"
#include "id.h"

void csn_close(int *fd)
{
    int saved = errno;

    if (*fd >= 0)
        (void) close(
            *fd); /* on Linux it is gone even if this reports an error; data was synced by its writer */
    *fd = -1;
    errno = saved;
}

void csn_fd_auto(int *fd)
{
    csn_close(fd);
}

void csn_close_many(int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        csn_close(&fds[i]);
}

int csn_take_fd(int *fd)
{
    int taken = *fd;

    *fd = -1;
    return taken;
}

int csn_fd_cloexec(int fd, bool on)
{
    return fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) < 0 ? -errno : 0;
}

int csn_fd_nonblock(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return -errno;
    int wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    return wanted != flags && fcntl(fd, F_SETFL, wanted) < 0 ? -errno : 0;
}

int csn_fd_dup(int fd, int lowest)
{
    if (csn_fault_as("dup", EMFILE) < 0)
        return -EMFILE;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, lowest);
    return copy < 0 ? -errno : copy;
}

ssize_t csn_read(int fd, void *data, size_t len)
{
    for (;;) {
        ssize_t n = read(fd, data, len);
        if (n >= 0)
            return n;
        if (errno != EINTR)
            return -errno;
    }
}

ssize_t csn_write(int fd, const void *data, size_t len)
{
    for (;;) {
        ssize_t n = write(fd, data, len);
        if (n >= 0)
            return n;
        if (errno != EINTR)
            return -errno;
    }
}

ssize_t csn_read_all(int fd, void *data, size_t len)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = csn_read(fd, (char *) data + got, len - got);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        got += (size_t) n;
    }
    return (ssize_t) got;
}

int csn_write_all(int fd, const void *data, size_t len)
{
    const char *at = data;

    if (csn_fault_as("write", ENOSPC) < 0)
        return -ENOSPC;
    while (len > 0) {
        ssize_t n = csn_write(fd, at, len);
        if (n < 0)
            return (int) n;
        at += n;
        len -= (size_t) n;
    }
    return 0;
}

int csn_read_to_buf(int fd, csn_buf *out, size_t max)
{
    size_t start = out->len;

    for (;;) {
        size_t room = max - (out->len - start);
        size_t want = room < 65536 ? room + 1 : 65536; /* one more, to see that there is more */
        int r = csn_buf_reserve(out, want);
        if (r < 0)
            return r;
        ssize_t n = csn_read(fd, out->data + out->len, want);
        if (n < 0)
            return (int) n;
        if ((size_t) n > room) {
            out->data[out->len] = '\0';
            return -EFBIG;
        }
        csn_buf_grew(out, (size_t) n);
        if (n == 0)
            return 0;
    }
}

int csn_read_file(int dirfd, const char *path, csn_buf *out, size_t max)
{
    if (csn_fault_as("open", EMFILE) < 0)
        return -EMFILE;
    csn_auto(fd) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    return csn_read_to_buf(fd, out, max);
}

int csn_write_file(int dirfd, const char *path, const void *data, size_t len)
{
    if (csn_fault_as("open", EMFILE) < 0)
        return -EMFILE;
    csn_auto(fd) int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    ssize_t n = csn_write(fd, data, len);
    if (n < 0)
        return (int) n;
    return (size_t) n == len ? 0 : -EIO;
}

static int write_temp(int dirfd, const char *temp, const void *data, size_t len, mode_t mode,
                      bool sync)
{
    csn_auto(fd) int fd =
        openat(dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return -errno;
    int r = csn_write_all(fd, data, len);
    if (r < 0)
        return r;
    if (fchmod(fd, mode) < 0) /* the mode asked for, whatever the umask is */
        return -errno;
    return sync && fsync(fd) < 0 ? -errno : 0;
}

static int sync_dir(int dirfd)
{
    csn_auto(fd) int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    return fsync(fd) < 0 ? -errno : 0; /* an O_PATH dirfd can't be synced itself */
}

int csn_write_file_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                          bool sync)
{
    char temp[32] = ".tmp-", *suffix = temp + 5;

    int r = csn_id_hex(suffix, 8);
    if (r < 0)
        return r;
    r = csn_fault_as("open", ENOSPC);
    if (r == 0)
        r = write_temp(dirfd, temp, data, len, mode, sync);
    if (r == 0)
        r = csn_fault_as("rename", EIO);
    if (r == 0 && renameat(dirfd, temp, dirfd, name) < 0)
        r = -errno;
    if (r < 0) {
        (void) unlinkat(dirfd, temp, 0); /* absent when the open itself failed */
        return r;
    }
    return sync ? sync_dir(dirfd) : 0;
}

int csn_stdio_pipe(int ret_ends[2])
{
    int ends[2], r = csn_fault_as("pipe", EMFILE);

    if (r < 0)
        return r;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    if (fchmod(ends[1], 0666) < 0) {
        r = -errno;
        csn_close_many(ends, 2);
        return r;
    }
    ret_ends[0] = ends[0];
    ret_ends[1] = ends[1];
    return 0;
}
