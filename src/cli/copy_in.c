#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <caisson/process.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "copy.h"
#include "out.h"

struct found {
    csn_file_kind kind;
};

static void note_kind(const csn_file_info *info, void *user)
{
    ((struct found *) user)->kind = info->kind;
}

int cli_kind_inside(cli_copy *c, const char *path, csn_file_kind *ret_kind, csn_error *err)
{
    struct found f = { 0 };
    int r = csn_file_stat(c->box, path, 1, note_kind, &f, err);

    if (r < 0 && r != CSN_E_NOT_FOUND)
        return r;
    *ret_kind = r < 0 ? 0 : f.kind;
    return CSN_OK;
}

void cli_base_name(const char *path, char *room, size_t size)
{
    size_t end = strlen(path), start;

    while (end > 0 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/'; start--)
        ;
    if (csn_str_copy(room, size, csn_str_n(path + start, end - start)) < 0 ||
        csn_streq(room, ".") || csn_streq(room, ".."))
        room[0] = '\0';
}

static int put_file(cli_copy *c, int fd, uint32_t mode, const char *inside, csn_error *err)
{
    int64_t n = 0;
    int r = csn_file_put_fd(c->box, inside, fd, mode & 0777, &n, err);

    if (r < 0)
        return r;
    c->n_files++;
    c->n_bytes += n;
    return CSN_OK;
}

/* The file verbs make no links, so the sandbox's own ln does. */
static int put_link(cli_copy *c, int dir, const char *name, const char *inside, csn_error *err)
{
    char target[4096];
    const char *argv[] = { "/bin/ln", "-sfn", "--", target, inside, NULL };
    csn_process_options o = { .size = sizeof(o), .argv = argv };
    csn_run_result result;
    ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);
    int r;

    if (n < 0)
        return csn_fail_sys(err, -errno, "read link '%s'", name);
    target[n] = '\0';
    r = csn_run(c->box, &o, &result, err);
    if (r < 0)
        return csn_fail_in(err, r, "make link '%s'", inside);
    r = csn_receipt_status(&result.receipt);
    csn_run_result_done(&result);
    if (r != 0)
        return csn_fail(err, CSN_E_SYSTEM, "make link '%s': ln ended with status %d", inside, r);
    c->n_files++;
    return CSN_OK;
}

static int put_directory(cli_copy *c, int *dir, const char *inside, int depth, csn_error *err);

static int put_entry(cli_copy *c, int dir, const char *name, const char *inside, int depth,
                     csn_error *err)
{
    csn_auto(fd) int fd = -1;
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return csn_fail_sys(err, -errno, "look at '%s'", name);
    if (S_ISLNK(st.st_mode))
        return put_link(c, dir, name, inside, err);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        c->n_skipped++;
        if (!c->quiet)
            cli_note("passed over '%s': neither file, directory nor link", name);
        return CSN_OK;
    }
    fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return csn_fail_sys(err, -errno, "open '%s'", name);
    if (S_ISDIR(st.st_mode))
        return put_directory(c, &fd, inside, depth + 1, err);
    return put_file(c, fd, st.st_mode, inside, err);
}

static int put_entries(cli_copy *c, DIR *dir, const char *inside, int depth, csn_error *err)
{
    for (;;) {
        csn_auto(buf) csn_buf path = CSN_BUF_INIT;
        struct dirent *entry;
        int r;

        errno = 0;
        entry = readdir(dir);
        if (!entry)
            return errno ? csn_fail_sys(err, -errno, "read a directory") : CSN_OK;
        if (csn_streq(entry->d_name, ".") || csn_streq(entry->d_name, ".."))
            continue;
        csn_buf_printf(&path, "%s/%s", inside, entry->d_name);
        if (path.error < 0)
            return csn_fail_sys(err, path.error, "name '%s'", entry->d_name);
        r = put_entry(c, dirfd(dir), entry->d_name, path.data, depth, err);
        if (r < 0)
            return r;
    }
}

/* Takes *dir. */
static int put_directory(cli_copy *c, int *dir, const char *inside, int depth, csn_error *err)
{
    struct stat st;
    DIR *stream;
    int r;

    if (depth > CLI_COPY_DEPTH)
        return csn_fail(err, CSN_E_TOO_LARGE, "copy '%s': more than %d directories deep", inside,
                        CLI_COPY_DEPTH);
    if (fstat(*dir, &st) < 0)
        return csn_fail_sys(err, -errno, "look at a directory");
    r = csn_file_mkdir(c->box, inside, (st.st_mode & 0777) | 0700, err);
    if (r < 0 && r != CSN_E_EXISTS)
        return r;
    stream = fdopendir(*dir);
    if (!stream)
        return csn_fail_sys(err, -errno, "open a directory");
    (void) csn_take_fd(dir); /* the stream's now */
    r = put_entries(c, stream, inside, depth, err);
    (void) closedir(stream); /* only read from */
    return r;
}

int cli_copy_in(cli_copy *c, const char *outside, const char *inside, csn_error *err)
{
    csn_auto(fd) int fd = -1;
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_file_kind kind = 0;
    char name[256];
    struct stat st;
    int r;

    if (csn_streq(outside, "-"))
        return put_file(c, STDIN_FILENO, 0644, inside, err);
    fd = open(outside, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return csn_fail_sys(err, -errno, "open '%s'", outside);
    r = cli_kind_inside(c, inside, &kind, err);
    if (r < 0)
        return r;
    cli_base_name(outside, name, sizeof(name));
    csn_buf_puts(&path, inside);
    if (name[0] &&
        (kind == CSN_FILE_DIRECTORY || csn_str_ends_with(csn_str_of(inside), CSN_STR("/"))))
        csn_buf_printf(&path, "%s%s", csn_str_ends_with(csn_str_of(inside), CSN_STR("/")) ? "" : "/", name);
    if (path.error < 0)
        return csn_fail_sys(err, path.error, "name '%s'", inside);
    if (S_ISDIR(st.st_mode))
        return put_directory(c, &fd, path.data, 0, err);
    if (!S_ISREG(st.st_mode))
        return csn_fail(err, CSN_E_NOT_REGULAR, "copy '%s': neither file nor directory", outside);
    return put_file(c, fd, st.st_mode, path.data, err);
}
