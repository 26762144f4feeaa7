#include "import.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "copy.h"
#include "tar.h"

static int make_dir(int dirfd, const char *name, mode_t mode)
{
    csn_auto(fd) int fd = -1;

    if (mkdirat(dirfd, name, 0700) < 0)
        return -errno;
    fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, mode) < 0)
        return -errno;
    return csn_take_fd(&fd);
}

int csn_import_make_layer(csn_import *im, const char *id)
{
    csn_auto(fd) int fd = -1;

    fd = make_dir(im->tmp_fd, id, 0755);
    return fd < 0 ? fd : make_dir(fd, "root", 0755);
}

void csn_import_add_layer(csn_import *im, const char *id, bool is_fresh)
{
    size_t i = 0;

    while (i < im->n_layers && !csn_streq(im->layers[i].id, id))
        i++;
    if (i < im->n_layers) {
        is_fresh = is_fresh || im->layers[i].is_fresh;
        memmove(&im->layers[i], &im->layers[i + 1], (im->n_layers - i - 1) * sizeof(im->layers[0]));
        im->n_layers--;
    }
    (void) csn_str_copy(im->layers[im->n_layers].id, CSN_DIGEST_SIZE, csn_str_of(id)); /* fits */
    im->layers[im->n_layers++].is_fresh = is_fresh;
}

static int fill_layer(csn_import *im, int fd, int root_fd, bool is_dir, csn_error *err)
{
    csn_writer w;
    int r;

    csn_writer_init(&w, root_fd, &im->budget, im->ids, false);
    r = is_dir ? csn_copy_tree(fd, (int[2]){ im->tmp_fd, im->layers_fd }, &w, err)
               : csn_tar_unpack(fd, &w, NULL, err);
    if (r == CSN_OK)
        r = csn_writer_finish(&w, err);
    csn_writer_done(&w);
    return r;
}

/* A tree of files, as a directory or as an archive: one layer. */
static int import_tree(csn_import *im, int fd, bool is_dir, csn_error *err)
{
    csn_auto(fd) int root_fd = -1;
    char id[33];
    int r;

    im->source = is_dir ? "directory" : "tar";
    r = csn_id_hex(id, 16);
    root_fd = r < 0 ? r : csn_import_make_layer(im, id);
    if (root_fd < 0)
        return csn_fail_sys(err, root_fd, "make a layer");
    r = fill_layer(im, fd, root_fd, is_dir, err);
    if (r == CSN_OK && im->budget.n_files == 0)
        return csn_fail(err, CSN_E_INVALID, "there is nothing in it");
    if (r == CSN_OK)
        csn_import_add_layer(im, id, true);
    return r;
}

/* An archive of blobs is unpacked beside the layers first; whoever removes the temporary directory removes it too. */
static int import_packed_layout(csn_import *im, int fd, csn_error *err)
{
    csn_auto(fd) int dirfd = -1;
    csn_budget outer = im->budget;
    csn_writer w;
    int r;

    dirfd = make_dir(im->tmp_fd, ".source", 0700);
    if (dirfd < 0)
        return csn_fail_sys(err, dirfd, "make a directory");
    csn_writer_init(&w, dirfd, &outer, (csn_layer_ids){ .is_kept = false }, false);
    r = csn_tar_unpack(fd, &w, NULL, err);
    csn_writer_done(&w);
    return r < 0 ? r : csn_layout_import(im, dirfd, err);
}

static int import_file(csn_import *im, int fd, csn_error *err)
{
    csn_tar_kind kind = CSN_TAR_TREE;
    int r;

    r = csn_tar_sniff(fd, &kind, err);
    if (r == CSN_OK && lseek(fd, 0, SEEK_SET) < 0)
        r = csn_fail_sys(err, -errno, "read the archive again");
    if (r < 0)
        return r;
    return kind == CSN_TAR_LAYOUT ? import_packed_layout(im, fd, err)
                                  : import_tree(im, fd, false, err);
}

int csn_import_run(csn_import *im, int fd, csn_error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return csn_fail_sys(err, -errno, "look at the source");
    if (S_ISREG(st.st_mode))
        return import_file(im, fd, err);
    if (!S_ISDIR(st.st_mode))
        return csn_fail(err, CSN_E_INVALID, "neither a file nor a directory");
    return csn_layout_is(fd) ? csn_layout_import(im, fd, err) : import_tree(im, fd, true, err);
}
