#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "import.h"
#include "tar.h"

/* Theory of operation. A layout is a directory: index.json names a manifest by digest, the manifest a configuration and
 * layers by digest, each a file blobs/sha256/<digest>. Every byte that is believed was digested in the same pass that used
 * it, so a file that changes meanwhile is found out. A docker-archive has manifest.json with file names instead; there the
 * digests of plain layers are the configuration's diff_ids. */

enum { INDEX_DEPTH_MAX = 4 };

/* Never out of the layout; links within it are fine (`docker save` made some). */
static int open_in(int dirfd, const char *path)
{
    struct open_how how = { .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                            .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
    csn_auto(fd) int fd = -1;
    struct stat st;

    fd = (int) syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? csn_take_fd(&fd) : -EINVAL;
}

static bool has_file(int dirfd, const char *path)
{
    csn_auto(fd) int fd = open_in(dirfd, path);

    return fd >= 0;
}

bool csn_layout_is(int dirfd)
{
    return has_file(dirfd, "oci-layout") || has_file(dirfd, "manifest.json");
}

static int read_json(int dirfd, const char *path, const char *sha256, csn_buf *out, csn_error *err)
{
    csn_auto(fd) int fd = open_in(dirfd, path);
    char found[CSN_DIGEST_SIZE];
    int r;

    r = fd < 0 ? fd : csn_read_to_buf(fd, out, CSN_MANIFEST_JSON_MAX);
    if (r == 0 && sha256)
        r = csn_digest_of(out->data, out->len, found);
    if (r == -ENOENT)
        return csn_fail(err, CSN_E_INVALID, "'%s' is missing", path);
    if (r < 0)
        return csn_fail_sys(err, r, "read '%s'", path);
    if (sha256 && !csn_streq(found, sha256))
        return csn_fail(err, CSN_E_INVALID, "'%s' is not what its digest says", path);
    return CSN_OK;
}

static const char *blob_path(const char *sha256, char out[96])
{
    (void) snprintf(out, 96, "blobs/sha256/%s", sha256); /* fits */
    return out;
}

static bool exists_already(const csn_import *im, const char *sha256)
{
    char path[96];

    (void) snprintf(path, sizeof(path), "%s/root", sha256); /* fits */
    return im->layers_fd >= 0 && faccessat(im->layers_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_packed(int fd)
{
    static const struct {
        const char *bytes;
        size_t len;
    } magics[] = { { "\x1f\x8b", 2 }, { "\x28\xb5\x2f\xfd", 4 }, { "\xfd\x37\x7a\x58", 4 } };
    char head[4] = { 0 };

    if (pread(fd, head, sizeof(head), 0) < 4)
        return false;
    for (size_t i = 0; i < CSN_COUNT(magics); i++)
        if (memcmp(head, magics[i].bytes, magics[i].len) == 0)
            return true;
    return false;
}

static int unpack_into(csn_import *im, int fd, const char *name, char ret_sha256[CSN_DIGEST_SIZE],
                       csn_error *err)
{
    csn_auto(fd) int root_fd = -1;
    csn_writer w;
    int r;

    root_fd = csn_import_make_layer(im, name);
    if (root_fd < 0)
        return csn_fail_sys(err, root_fd, "make a layer");
    csn_writer_init(&w, root_fd, &im->budget, im->ids, true);
    r = csn_tar_unpack(fd, &w, ret_sha256, err);
    if (r == CSN_OK)
        r = csn_writer_finish(&w, err);
    csn_writer_done(&w);
    return r;
}

/* Unpacks a layer under a name for the time being, then under its digest. `want` NULL: it gets the one it has. */
static int add_layer(csn_import *im, int dirfd, const char *path, const char *want, csn_error *err)
{
    csn_auto(fd) int fd = -1;
    char found[CSN_DIGEST_SIZE], name[32];
    int r;

    if (want && exists_already(im, want)) {
        csn_import_add_layer(im, want, false);
        return CSN_OK;
    }
    fd = open_in(dirfd, path);
    if (fd < 0)
        return csn_fail_sys(err, fd, "open layer '%s'", path);
    (void) snprintf(name, sizeof(name), ".new-%zu", im->n_layers); /* fits */
    r = unpack_into(im, fd, name, found, err);
    if (r < 0)
        return csn_fail_in(err, r, "layer '%.20s…'", want ? want : path);
    if (want && !csn_streq(found, want))
        return csn_fail(err, CSN_E_INVALID, "layer '%s' is not what its digest says", want);
    if (exists_already(im, found)) {
        csn_import_add_layer(im, found, false);
        return CSN_OK;
    }
    if (renameat(im->tmp_fd, name, im->tmp_fd, found) < 0 && errno != ENOTEMPTY)
        return csn_fail_sys(err, -errno, "name layer '%s'", found);
    csn_import_add_layer(im, found, true);
    return CSN_OK;
}

static bool is_in(const csn_import *im, const char *sha256)
{
    for (size_t i = 0; i < im->n_layers; i++)
        if (csn_streq(im->layers[i].id, sha256))
            return true;
    return false;
}

/* index.json → … → manifest: an index may name another for the platforms of one image. */
static int find_manifest(int dirfd, csn_manifest *ret, csn_error *err)
{
    csn_descriptor d = { .is_index = true };
    char path[96] = "index.json";

    for (int depth = 0; d.is_index; depth++) {
        csn_auto(buf) csn_buf text = CSN_BUF_INIT;
        int r;

        if (depth > INDEX_DEPTH_MAX)
            return csn_fail(err, CSN_E_INVALID, "an index within an index within an index …");
        r = read_json(dirfd, path, depth ? d.sha256 : NULL, &text, err);
        if (r == CSN_OK)
            r = csn_manifest_pick(text.data, text.len, csn_manifest_arch(), &d, err);
        if (r < 0)
            return r;
        blob_path(d.sha256, path);
    }
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    int r = read_json(dirfd, path, d.sha256, &text, err);

    return r < 0 ? r : csn_manifest_read(text.data, text.len, ret, err);
}

static int import_oci(csn_import *im, int dirfd, csn_error *err)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    static csn_manifest m; /* large, and there is one at a time */
    char path[96];
    int r;

    im->source = "oci";
    r = find_manifest(dirfd, &m, err);
    if (r == CSN_OK)
        r = read_json(dirfd, blob_path(m.config.sha256, path), m.config.sha256, &text, err);
    if (r == CSN_OK)
        r = csn_image_config_read(text.data, text.len, csn_manifest_arch(), &im->config, err);
    for (size_t i = 0; r == CSN_OK && i < m.n_layers; i++) {
        const char *sha256 = m.layers[i].sha256;

        if (is_in(im, sha256))
            csn_import_add_layer(im, sha256, false);
        else
            r = add_layer(im, dirfd, blob_path(sha256, path), sha256, err);
    }
    return r;
}

static const char *known_digest(const csn_import *im, int dirfd, const char *path, size_t i,
                                size_t n_layers)
{
    csn_auto(fd) int fd = open_in(dirfd, path);

    return fd >= 0 && im->config.n_diff_ids == n_layers && !is_packed(fd) ? im->config.diff_ids[i]
                                                                          : NULL;
}

static int import_docker(csn_import *im, int dirfd, csn_error *err)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT, config = CSN_BUF_INIT;
    static csn_docker_manifest m; /* large, and there is one at a time */
    int r;

    im->source = "docker-archive";
    r = read_json(dirfd, "manifest.json", NULL, &text, err);
    if (r == CSN_OK)
        r = csn_docker_manifest_read(text.data, text.len, &m, err);
    if (r == CSN_OK)
        r = read_json(dirfd, m.config, NULL, &config, err);
    if (r == CSN_OK)
        r = csn_image_config_read(config.data, config.len, csn_manifest_arch(), &im->config, err);
    for (size_t i = 0; r == CSN_OK && i < m.n_layers; i++) {
        const char *want = known_digest(im, dirfd, m.layers[i], i, m.n_layers);

        if (want && is_in(im, want))
            csn_import_add_layer(im, want, false);
        else
            r = add_layer(im, dirfd, m.layers[i], want, err);
    }
    return r;
}

int csn_layout_import(csn_import *im, int dirfd, csn_error *err)
{
    if (has_file(dirfd, "oci-layout"))
        return import_oci(im, dirfd, err);
    return import_docker(im, dirfd, err);
}
