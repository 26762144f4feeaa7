/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "init/child.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
#define SHELL        "/bin/sh"

typedef char *const *string_list; /* what execve() takes; it writes to nothing */

/* A file the kernel can't run and that holds no NUL is a script for the shell. */
static int looks_like_text(const char *path)
{
    char head[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    ssize_t n;

    if (fd < 0)
        return 0;
    n = read(fd, head, sizeof(head));
    (void) close(fd); /* was only read */
    return n >= 0 && !memchr(head, '\0', (size_t) n);
}

static int try_exec(const char *path, const csn_spec *spec)
{
    (void) execve(path, (string_list) spec->argv, (string_list) spec->env);
    if (errno != ENOEXEC || !looks_like_text(path))
        return errno;
    spec->argv[-1] = "sh";
    spec->argv[0] = path;
    (void) execve(SHELL, (string_list) (spec->argv - 1), (string_list) spec->env);
    return ENOEXEC;
}

static const char *search_path(const csn_spec *spec)
{
    for (uint32_t i = 0; i < spec->envc; i++)
        if (strncmp(spec->env[i], "PATH=", 5) == 0)
            return spec->env[i] + 5;
    return DEFAULT_PATH;
}

/* "dir/name", or 0 when it is too long to be a file. */
static int join(char *out, size_t size, const char *dir, size_t dir_len, const char *name)
{
    size_t name_len = strlen(name);

    if (dir_len + name_len + 2 > size)
        return 0;
    memcpy(out, dir, dir_len);
    if (dir_len > 0)
        out[dir_len++] = '/'; /* an empty entry is the working directory, as always */
    memcpy(out + dir_len, name, name_len + 1);
    return 1;
}

/* The first that runs; a file that may not be run is remembered, since "permission denied" says more than "not found". */
static int exec_in_path(const csn_spec *spec)
{
    static char path[4096];
    const char *name = spec->argv[0], *at = search_path(spec);
    int error = ENOENT;

    for (;;) {
        size_t len = strcspn(at, ":");
        int e = join(path, sizeof(path), at, len, name) ? try_exec(path, spec) : ENOENT;
        if (e == EACCES)
            error = EACCES;
        else if (e != ENOENT && e != ENOTDIR)
            return e;
        if (at[len] == '\0')
            return error;
        at += len + 1;
    }
}

int csn_exec(const csn_spec *spec, int is_shell)
{
    const char *name = spec->argv[0];

    if (is_shell) {
        spec->argv[-2] = "sh";
        spec->argv[-1] = "-c";
        (void) execve(SHELL, (string_list) (spec->argv - 2), (string_list) spec->env);
        return errno;
    }
    if (name[0] == '\0' || strlen(name) >= 4096)
        return name[0] == '\0' ? ENOENT : ENAMETOOLONG;
    return strchr(name, '/') ? try_exec(name, spec) : exec_in_path(spec);
}
