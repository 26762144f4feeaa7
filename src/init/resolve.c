/* SPDX-License-Identifier: Apache-2.0 */
/* From paths to descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/sys.h"
#include "init/worker.h"

enum { LINKS_MAX = 40, NAME_BYTES = 256, PATH_BYTES = 4096 };

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452 /* Linux 6.6 */
#endif

int csn_open_at(int dirfd, const char *path, int flags, unsigned mode)
{
    if (!(flags & O_PATH)) /* which takes no flags of use */
        flags |= O_NOCTTY;
    return csn_sys_openat(dirfd, path, flags, mode, RESOLVE_NO_MAGICLINKS);
}

int csn_is_dots(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* Copies the part before the last component to `dir` ("." when there is none) and the component to `name`. */
static int split(const char *path, char *dir, char *name)
{
    size_t end = strlen(path), start;

    while (end > 0 && path[end - 1] == '/')
        end--;
    start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    if (end - start >= NAME_BYTES || start >= PATH_BYTES)
        return -ENAMETOOLONG;
    memcpy(name, path + start, end - start);
    name[end - start] = '\0';
    memcpy(dir, start > 0 ? path : ".", start > 0 ? start : 1);
    dir[start > 0 ? start : 1] = '\0';
    return name[0] == '\0' || csn_is_dots(name) ? -EINVAL : 0;
}

int csn_open_parent(int dirfd, const char *path, char *name, int *ret_fd)
{
    char dir[PATH_BYTES];
    int r = split(path, dir, name);

    if (r < 0)
        return r;
    r = csn_open_at(dirfd, dir, O_PATH | O_DIRECTORY, 0);
    if (r < 0)
        return r;
    *ret_fd = r;
    return 0;
}

int csn_open_real_parent(const char *path, char *name, int *ret_fd)
{
    char target[PATH_BYTES];
    int fd = -1, r = csn_open_parent(AT_FDCWD, path, name, &fd);

    for (int i = 0; r == 0 && i < LINKS_MAX; i++) {
        int from = fd;
        ssize_t n = readlinkat(fd, name, target, sizeof(target) - 1);
        if (n < 0) { /* not a symlink: here it is, or nothing is */
            *ret_fd = fd;
            return 0;
        }
        target[n] = '\0';
        r = csn_open_parent(from, target, name, &fd);
        (void) close(from); /* passed through */
        if (r < 0)
            return r;
    }
    if (r == 0)
        (void) close(fd); /* went in circles */
    return r < 0 ? r : -ELOOP;
}

/* Steps into one component below *fd, which is replaced. Makes it when it is not there. */
static int step_into(int *fd, const char *name, unsigned mode)
{
    int next = csn_open_at(*fd, name, O_PATH | O_DIRECTORY, 0);

    if (next == -ENOENT) {
        if (mkdirat(*fd, name, mode) < 0 && errno != EEXIST)
            return -errno;
        next = csn_open_at(*fd, name, O_PATH | O_DIRECTORY, 0);
    }
    if (next < 0)
        return next == -ENOTDIR ? -EEXIST : next;
    (void) close(*fd); /* passed through */
    *fd = next;
    return 0;
}

int csn_make_dirs(const char *path, unsigned mode)
{
    char name[NAME_BYTES];
    int r = 0, fd = csn_open_at(AT_FDCWD, path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY, 0);

    if (fd < 0)
        return fd;
    while (r == 0 && *path) {
        size_t len = strcspn(path, "/");
        int is_last = path[len + strspn(path + len, "/")] == '\0';
        if (len >= sizeof(name))
            r = -ENAMETOOLONG;
        if (r == 0 && len > 0) {
            memcpy(name, path, len);
            name[len] = '\0';
            r = step_into(&fd, name, is_last ? mode : 0755);
        }
        path += len + strspn(path + len, "/");
    }
    (void) close(fd); /* only passed through */
    return r;
}

int csn_make_parents(const char *path)
{
    char dir[PATH_BYTES], name[NAME_BYTES];
    int r = split(path, dir, name);

    return r < 0 ? r : csn_make_dirs(dir, 0755);
}

static void fd_path(char *out, int fd)
{
    char digits[12];
    size_t n = 0, len = sizeof("/proc/self/fd/") - 1;

    memcpy(out, "/proc/self/fd/", len);
    do
        digits[n++] = (char) ('0' + fd % 10);
    while ((fd /= 10) > 0);
    while (n > 0)
        out[len++] = digits[--n];
    out[len] = '\0';
}

int csn_chmod_fd(int path_fd, unsigned mode)
{
    char path[32];

    if (syscall(SYS_fchmodat2, path_fd, "", mode, AT_EMPTY_PATH) == 0)
        return 0;
    if (errno != ENOSYS && errno != EPERM && errno != EINVAL)
        return -errno;
    fd_path(path, path_fd); /* our own descriptor: the one magic link that is safe */
    return chmod(path, mode) < 0 ? -errno : 0;
}

int csn_check_regular(const struct stat *st)
{
    if (S_ISREG(st->st_mode))
        return 0;
    return S_ISDIR(st->st_mode) ? -EISDIR : -ENXIO;
}

int csn_temp_file(int dirfd, char *name, int *ret_fd)
{
    static const char alphabet[] = "0123456789abcdefghijklmnopqrstuv";
    unsigned char random[16];
    int fd = -EEXIST;

    for (int tries = 0; fd == -EEXIST && tries < 16; tries++) {
        if (getrandom(random, sizeof(random), 0) != (ssize_t) sizeof(random))
            return -EIO;
        memcpy(name, ".csn-", 5);
        for (size_t i = 0; i < sizeof(random); i++)
            name[5 + i] = alphabet[random[i] % 32];
        name[5 + sizeof(random)] = '\0';
        fd = csn_open_at(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    }
    if (fd < 0)
        return fd;
    *ret_fd = fd;
    return 0;
}
