#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "copy.h"
#include "out.h"
#include "place.h"
#include "session.h"
#include "stream.h"

/* One directory as it was listed; names are the sandbox's, so nothing is believed before is_plain_name(). */
struct entry {
    char *name, *target;
    csn_file_kind kind;
    uint32_t mode;
};

struct entries {
    struct entry *items;
    size_t n, cap;
};

static void csn_entries_auto(struct entries *e)
{
    for (size_t i = 0; i < e->n; i++) {
        free(e->items[i].name);
        free(e->items[i].target);
    }
    free(e->items);
}

static void note_entry(const csn_file_info *info, void *user)
{
    struct entries *e = user;

    if (e->n == e->cap) {
        e->cap = e->cap ? e->cap * 2 : 64;
        e->items = csn_realloc_array(e->items, e->cap, sizeof(*e->items));
        if (!e->items)
            cli_out_of_memory();
    }
    e->items[e->n++] = (struct entry){
        .name = csn_xstrdup(info->path),
        .target = info->target ? csn_xstrdup(info->target) : NULL,
        .kind = info->kind,
        .mode = info->mode,
    };
}

static bool is_plain_name(const char *name)
{
    return name[0] && !strchr(name, '/') && !csn_streq(name, ".") && !csn_streq(name, "..");
}

/* Copies at most the size the file has now: one that grows for ever must end. */
static int pour(cli_copy *c, int from, int to, csn_error *err)
{
    char piece[65536];
    struct stat st;
    int64_t left;

    if (fstat(from, &st) < 0)
        return csn_fail_sys(err, -errno, "look at the file");
    for (left = st.st_size; left > 0;) {
        size_t want = left < (int64_t) sizeof(piece) ? (size_t) left : sizeof(piece);
        ssize_t n = csn_read(from, piece, want);
        int r;

        if (n < 0)
            return csn_fail_sys(err, (int) n, "read");
        if (n == 0)
            break;
        if (cli_signal_pending())
            return csn_fail(err, CSN_E_CANCELLED, "interrupted");
        r = to == STDOUT_FILENO ? cli_write(to, piece, (size_t) n)
                                : csn_write_all(to, piece, (size_t) n);
        if (r < 0)
            return csn_fail_sys(err, r, "write");
        left -= n;
        c->n_bytes += n;
    }
    c->n_files++;
    return CSN_OK;
}

/* From a service: straight into the file, which keeps what it had when there is nothing to be had. */
static int fetch_file(cli_copy *c, const char *inside, int dir, const char *name, int flags,
                      uint32_t mode, csn_error *err)
{
    const int how = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | flags;
    csn_auto(fd) int to = openat(dir, name, how | O_EXCL, mode & 0777);
    bool is_new = to >= 0;
    struct stat st;
    int64_t n = 0;
    int r;

    if (to < 0 && errno == EEXIST)
        to = openat(dir, name, how, mode & 0777);
    if (to < 0 || fstat(to, &st) < 0)
        return csn_fail_sys(err, -errno, "write '%s'", name);
    r = csn_file_get_fd(c->box, inside, to, &n, err);
    if (r < 0) {
        if (is_new)
            (void) unlinkat(dir, name, 0); /* why there is none is told */
        return csn_fail_in(err, r, "copy '%s'", inside);
    }
    if (S_ISREG(st.st_mode) && ftruncate(to, n) < 0)
        return csn_fail_sys(err, -errno, "write '%s'", name);
    c->n_files++;
    c->n_bytes += n;
    return CSN_OK;
}

/* `dir` and `name`: where it goes on the host. O_NOFOLLOW below the destination, where the sandbox chose the names. */
static int get_file(cli_copy *c, const char *inside, int dir, const char *name, int flags,
                    uint32_t mode, csn_error *err)
{
    csn_auto(fd) int from = -1;
    csn_auto(fd) int to = -1;
    int r;

    if (cli_place_is_remote())
        return fetch_file(c, inside, dir, name, flags, mode, err);
    r = csn_file_open(c->box, inside, CSN_OPEN_READ, 0, &from, err);
    if (r < 0)
        return r;
    to =
        openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | flags, mode & 0777);
    if (to < 0)
        return csn_fail_sys(err, -errno, "write '%s'", name);
    r = pour(c, from, to, err);
    return r < 0 ? csn_fail_in(err, r, "copy '%s'", inside) : r;
}

static int get_link(cli_copy *c, const struct entry *e, int dir, csn_error *err)
{
    struct stat st;

    if (fstatat(dir, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
        (void) unlinkat(dir, e->name, 0); /* symlinkat() tells */
    if (symlinkat(e->target ? e->target : "", dir, e->name) < 0)
        return csn_fail_sys(err, -errno, "make link '%s'", e->name);
    c->n_files++;
    return CSN_OK;
}

static int get_directory(cli_copy *c, const char *inside, int dir, const char *name, int depth,
                         csn_error *err);

static int get_entry(cli_copy *c, const struct entry *e, const char *inside, int dir, int depth,
                     csn_error *err)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;

    if (!is_plain_name(e->name))
        return csn_fail(err, CSN_E_PROTOCOL, "list '%s': '%s' is not a file name", inside, e->name);
    csn_buf_printf(&path, "%s/%s", inside, e->name);
    if (path.error < 0)
        return csn_fail_sys(err, path.error, "name '%s'", e->name);
    switch (e->kind) {
    case CSN_FILE_REGULAR:
        return get_file(c, path.data, dir, e->name, O_NOFOLLOW, e->mode, err);
    case CSN_FILE_DIRECTORY:
        return get_directory(c, path.data, dir, e->name, depth + 1, err);
    case CSN_FILE_SYMLINK:
        return get_link(c, e, dir, err);
    case CSN_FILE_FIFO:
    case CSN_FILE_SOCKET:
    case CSN_FILE_DEVICE:
        break;
    }
    c->n_skipped++;
    if (!c->quiet)
        cli_note("passed over '%s': neither file, directory nor link", path.data);
    return CSN_OK;
}

static int get_directory(cli_copy *c, const char *inside, int dir, const char *name, int depth,
                         csn_error *err)
{
    csn_auto(entries) struct entries e = { 0 };
    csn_auto(fd) int fd = -1;
    int r;

    if (depth > CLI_COPY_DEPTH)
        return csn_fail(err, CSN_E_TOO_LARGE, "copy '%s': more than %d directories deep", inside,
                        CLI_COPY_DEPTH);
    if (mkdirat(dir, name, 0777) < 0 && errno != EEXIST)
        return csn_fail_sys(err, -errno, "make directory '%s'", name);
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (depth ? O_NOFOLLOW : 0));
    if (fd < 0)
        return csn_fail_sys(err, -errno, "open directory '%s'", name);
    r = csn_file_list(c->box, inside, 0, note_entry, &e, err);
    for (size_t i = 0; r == CSN_OK && i < e.n; i++)
        r = get_entry(c, &e.items[i], inside, fd, depth, err);
    return r;
}

/* A service hands out no descriptors: what it sends waits in memory. */
static int fetch_to_memory(cli_copy *c, const char *inside, int *ret_fd, csn_error *err)
{
    csn_auto(fd) int fd = memfd_create("csn-copy", MFD_CLOEXEC);
    int r;

    if (fd < 0)
        return csn_fail_sys(err, -errno, "copy '%s'", inside);
    r = csn_file_get_fd(c->box, inside, fd, NULL, err);
    if (r < 0)
        return r;
    (void) lseek(fd, 0, SEEK_SET); /* a file of memory: it can */
    *ret_fd = csn_take_fd(&fd);
    return CSN_OK;
}

static int get_to_stdout(cli_copy *c, const char *inside, csn_error *err)
{
    csn_auto(fd) int fd = -1;
    cli_stream out;
    char piece[65536];
    int r;

    cli_stream_init(&out, STDOUT_FILENO, c->raw);
    if (!cli_place_is_remote())
        r = csn_file_open(c->box, inside, CSN_OPEN_READ, 0, &fd, err);
    else if (out.is_escaped)
        r = fetch_to_memory(c, inside, &fd, err);
    else
        return csn_file_get_fd(c->box, inside, STDOUT_FILENO, &c->n_bytes, err);
    if (r < 0)
        return r;
    if (!out.is_escaped)
        return pour(c, fd, STDOUT_FILENO, err);
    while (!out.is_broken && !cli_signal_pending()) {
        ssize_t n = csn_read(fd, piece, sizeof(piece));

        if (n <= 0)
            break;
        cli_stream_put(&out, piece, (size_t) n);
    }
    cli_stream_finish(&out);
    return cli_signal_pending() ? csn_fail(err, CSN_E_CANCELLED, "interrupted") : CSN_OK;
}

static bool is_directory(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int cli_copy_out(cli_copy *c, const char *inside, const char *outside, csn_error *err)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_file_kind kind;
    char name[256];
    int r;

    if (csn_streq(outside, "-"))
        return get_to_stdout(c, inside, err);
    r = cli_kind_inside(c, inside, &kind, err);
    if (r < 0)
        return r;
    if (!kind)
        return csn_fail(err, CSN_E_NOT_FOUND, "copy '%s': no such file inside", inside);
    cli_base_name(inside, name, sizeof(name));
    csn_buf_puts(&path, outside);
    if (name[0] && (is_directory(outside) || csn_str_ends_with(csn_str_of(outside), CSN_STR("/"))))
        csn_buf_printf(&path, "/%s", name);
    if (path.error < 0)
        return csn_fail_sys(err, path.error, "name '%s'", outside);
    if (kind == CSN_FILE_DIRECTORY)
        return get_directory(c, inside, AT_FDCWD, path.data, 0, err);
    return get_file(c, inside, AT_FDCWD, path.data, 0, 0666, err);
}
