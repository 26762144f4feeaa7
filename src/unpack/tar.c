#include "tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "leash.h"

enum { BLOCK = 128 << 10 };

/* libarchive's view of a descriptor, digested as it is read. */
typedef struct input {
    int fd;
    csn_digest *digest; /* NULL: nobody asked */
    int64_t n_read;
    int64_t bytes_before; /* the budget's, when this archive began */
    int error;
    char block[BLOCK];
} input;

static ssize_t input_read(input *in)
{
    ssize_t n = csn_read(in->fd, in->block, sizeof(in->block));

    if (n > 0 && in->digest && csn_digest_add(in->digest, in->block, (size_t) n) < 0)
        n = -EIO;
    if (n < 0)
        in->error = (int) n;
    else
        in->n_read += n;
    return n;
}

static la_ssize_t on_read(struct archive *a, void *user, const void **ret_data)
{
    input *in = user;
    ssize_t n = input_read(in);

    if (n < 0)
        archive_set_error(a, -in->error, "read the archive");
    *ret_data = in->block;
    return n < 0 ? ARCHIVE_FATAL : n;
}

static void archive_auto(struct archive **a)
{
    if (*a)
        (void) archive_read_free(*a); /* only read from */
}

/* Only what is built in: a filter libarchive would start a program for answers with a warning, and is left out. */
static int open_tar(input *in, struct archive **ret, csn_error *err)
{
    __attribute__((cleanup(archive_auto))) struct archive *a = archive_read_new();

    if (!a)
        return csn_fail(err, CSN_E_NO_MEMORY, "read the archive");
    if (archive_read_support_format_tar(a) != ARCHIVE_OK ||
        archive_read_support_filter_gzip(a) != ARCHIVE_OK)
        return csn_fail(err, CSN_E_UNSUPPORTED, "libarchive was built without tar or gzip");
    (void) archive_read_support_filter_zstd(a); /* where it is built in */
    (void) archive_read_support_filter_xz(a);   /* where it is built in */
    if (archive_read_open(a, in, NULL, on_read, NULL) < ARCHIVE_WARN)
        return csn_fail(err, CSN_E_INVALID, "no archive we know (tar, plain or gz, zst, xz): %s",
                        archive_error_string(a) ? archive_error_string(a) : "?");
    *ret = a;
    a = NULL; /* given away */
    return CSN_OK;
}

static int fail_broken(struct archive *a, const input *in, csn_error *err)
{
    const char *why = archive_error_string(a);
    char shown[160];

    if (in->error < 0)
        return csn_fail_sys(err, in->error, "read the archive");
    csn_entry_show(why ? why : "?", shown, sizeof(shown));
    return csn_fail(err, CSN_E_INVALID, "broken archive: %s", shown);
}

/* Warnings are about names or attributes that this locale can't show, not about the bytes. */
static int next_entry(struct archive *a, const input *in, struct archive_entry **ret,
                      csn_error *err)
{
    int r = archive_read_next_header(a, ret);

    if (r == ARCHIVE_EOF)
        return 0;
    return r >= ARCHIVE_WARN ? 1 : fail_broken(a, in, err);
}

static csn_meta meta_of(struct archive_entry *e)
{
    return (csn_meta){ .mode = archive_entry_perm(e),
                       .uid = archive_entry_uid(e),
                       .gid = archive_entry_gid(e),
                       .mtime = { .tv_sec = archive_entry_mtime(e),
                                  .tv_nsec = archive_entry_mtime_nsec(e) } };
}

static int put_xattrs(struct archive_entry *e, int fd)
{
    const void *value;
    const char *name;
    size_t len;
    int r = 0;

    archive_entry_xattr_reset(e);
    while (r == 0 && archive_entry_xattr_next(e, &name, &value, &len) == ARCHIVE_OK)
        if (name && value)
            r = csn_writer_xattr(fd, name, value, len);
    return r;
}

static int write_at(int fd, const char *data, size_t len, int64_t offset)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, data, len, offset);

        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0) {
            data += n;
            len -= (size_t) n;
            offset += n;
        }
    }
    return 0;
}

typedef struct block {
    const void *data;
    size_t len;
    la_int64_t offset;
} block;

/* The next piece of an entry's data: 1, 0 at its end, or CSN_E_… */
static int next_block(struct archive *a, const input *in, block *b, csn_error *err)
{
    int r;

    *b = (block){ NULL, 0, 0 };
    r = archive_read_data_block(a, &b->data, &b->len, &b->offset);
    if (r == ARCHIVE_EOF)
        return 0;
    if (r < ARCHIVE_WARN)
        return fail_broken(a, in, err);
    if (!csn_leash_holds())
        return csn_fail(err, CSN_E_CANCELLED, "nobody waits for this any more");
    return 1;
}

/* The size was charged from the header: bytes beyond it are a lie. */
static int copy_data(struct archive *a, const input *in, csn_writer *w, int fd, int64_t size,
                     csn_error *err)
{
    block b;
    int r;

    while ((r = next_block(a, in, &b, err)) > 0) {
        int64_t before = w->budget->bytes - in->bytes_before - size;

        if (b.offset < 0 || b.offset > size || b.len > (uint64_t) (size - b.offset))
            return csn_fail(err, CSN_E_INVALID, "broken archive: an entry is longer than it says");
        r = csn_budget_ratio(w->budget, before + b.offset + (int64_t) b.len, in->n_read, err);
        if (r < 0)
            return r;
        r = write_at(fd, b.data, b.len, b.offset);
        if (r < 0)
            return csn_fail_sys(err, r, "write an entry");
    }
    return r;
}

/* What an entry we don't take brings along still costs time to unpack. */
static int drop_data(struct archive *a, const input *in, csn_writer *w, csn_error *err)
{
    block b;
    int r;

    while ((r = next_block(a, in, &b, err)) > 0) {
        r = csn_budget_ratio(w->budget, b.offset + (int64_t) b.len, in->n_read, err);
        if (r < 0)
            return r;
    }
    return r;
}

static int put_file(struct archive *a, const input *in, struct archive_entry *e, csn_writer *w,
                    const char *name, csn_error *err)
{
    int64_t size = archive_entry_size_is_set(e) ? archive_entry_size(e) : 0;
    csn_meta meta = meta_of(e);
    int fd = -1, r, end;

    r = csn_writer_begin_file(w, name, size, &fd, err);
    if (r < 0 || fd < 0)
        return r;
    r = copy_data(a, in, w, fd, size, err);
    if (r == CSN_OK) {
        int x = put_xattrs(e, fd);

        if (x < 0)
            r = csn_fail_sys(err, x, "set an attribute");
    }
    end = csn_writer_end_file(w, fd, name, size, &meta, r < 0 ? NULL : err);
    return r < 0 ? r : end;
}

static int put_dir(struct archive_entry *e, csn_writer *w, const char *name, csn_error *err)
{
    csn_auto(fd) int fd = -1;
    csn_meta meta = meta_of(e);
    int r;

    r = csn_writer_dir(w, name, &meta, err);
    if (r < 0 || archive_entry_xattr_count(e) == 0)
        return r;
    fd = csn_writer_open_dir(w, name);
    r = fd < 0 ? fd : put_xattrs(e, fd);
    return r < 0 ? csn_fail_sys(err, r, "set an attribute") : CSN_OK;
}

static int put_entry(struct archive *a, const input *in, struct archive_entry *e, csn_writer *w,
                     csn_error *err)
{
    const char *name = archive_entry_pathname(e);
    const char *target = archive_entry_hardlink(e);
    csn_meta meta = meta_of(e);

    if (!name || !*name)
        return csn_fail(err, CSN_E_INVALID, "an entry without a name we can read");
    if (target) {
        int r = csn_writer_hardlink(w, name, target, err);

        return r < 0 ? r : drop_data(a, in, w, err);
    }
    switch (archive_entry_filetype(e)) {
    case AE_IFREG:
        return put_file(a, in, e, w, name, err);
    case AE_IFDIR:
        return put_dir(e, w, name, err);
    case AE_IFLNK:
        target = archive_entry_symlink(e);
        return csn_writer_symlink(w, name, target ? target : "", &meta, err);
    default: /* devices, FIFOs, sockets: a sandbox makes its own */
        w->budget->n_skipped++;
        return csn_budget_file(w->budget, err) < 0 ? CSN_E_LIMIT : drop_data(a, in, w, err);
    }
}

/* To the end of the bytes, which the digest wants to see too. */
static int drain(input *in, csn_error *err)
{
    ssize_t n;

    do
        n = in->digest ? input_read(in) : 0;
    while (n > 0);
    return n < 0 ? csn_fail_sys(err, (int) n, "read the archive") : CSN_OK;
}

static int unpack(input *in, csn_writer *w, csn_error *err)
{
    __attribute__((cleanup(archive_auto))) struct archive *a = NULL;
    struct archive_entry *e;
    int r;

    r = open_tar(in, &a, err);
    if (r < 0)
        return r;
    while ((r = next_entry(a, in, &e, err)) > 0) {
        r = put_entry(a, in, e, w, err);
        if (r < 0)
            return r;
        if (!csn_leash_holds())
            return csn_fail(err, CSN_E_CANCELLED, "nobody waits for this any more");
    }
    return r < 0 ? r : drain(in, err);
}

int csn_tar_unpack(int fd, csn_writer *w, char ret_sha256[CSN_DIGEST_SIZE], csn_error *err)
{
    csn_auto(digest) csn_digest *digest = NULL;
    static input in; /* large, and there is one at a time */
    int r;

    if (ret_sha256) {
        digest = csn_digest_new();
        if (!digest)
            return csn_fail(err, CSN_E_NO_MEMORY, "read the archive");
    }
    in.fd = fd;
    in.digest = digest;
    in.n_read = 0;
    in.bytes_before = w->budget->bytes;
    in.error = 0;
    r = unpack(&in, w, err);
    if (r == CSN_OK && digest && csn_digest_end(digest, ret_sha256) < 0)
        r = csn_fail(err, CSN_E_SYSTEM, "digest the archive");
    return r;
}

static bool is_layout_name(csn_str name)
{
    static const char *const dirs[] = { "blobs", "repositories" };
    csn_str first;

    if (csn_str_starts_with(name, CSN_STR("./")))
        name = csn_str_n(name.data + 2, name.len - 2);
    if (name.len == 0 || csn_str_is(name, "."))
        return true;
    if (csn_str_ends_with(name, CSN_STR(".json")) && csn_str_find(name, '/') < 0)
        return true;
    (void) csn_str_split(&name, '/', &first); /* there is always one part */
    for (size_t i = 0; i < CSN_COUNT(dirs); i++)
        if (csn_str_is(first, dirs[i]))
            return true;
    /* docker save: a directory per layer, named by 64 digits; a layer beside it may be a link */
    return first.len == 64 && strspn(first.data, "0123456789abcdef") >= 64;
}

int csn_tar_sniff(int fd, csn_tar_kind *ret, csn_error *err)
{
    __attribute__((cleanup(archive_auto))) struct archive *a = NULL;
    static input in; /* large, and there is one at a time */
    struct archive_entry *e;
    int r;

    in.fd = fd;
    in.n_read = 0;
    in.error = 0;
    r = open_tar(&in, &a, err);
    while (r >= 0 && (r = next_entry(a, &in, &e, err)) > 0) {
        csn_str name = csn_str_of(archive_entry_pathname(e));

        if (csn_str_is(name, "oci-layout") || csn_str_is(name, "./oci-layout") ||
            csn_str_is(name, "manifest.json") || csn_str_is(name, "./manifest.json")) {
            *ret = CSN_TAR_LAYOUT;
            return CSN_OK;
        }
        if (!is_layout_name(name) || !csn_leash_holds())
            break;
    }
    if (r >= 0)
        *ret = CSN_TAR_TREE;
    return r < 0 ? r : CSN_OK;
}
