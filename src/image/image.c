/* Theory of operation. A layer is born below a temporary name and renamed when it is whole; an image is a directory with
 * one record, born the same way. So whatever has a proper name is complete, and whatever has none is garbage as soon as
 * nobody holds its lock. Names come and go at once; the layers below them are taken by a sweep, which reads all records
 * and runs only while nobody is between "found a layer" and "wrote it into a record" (csn_layers_hold). */
#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "base/time.h"
#include "hostbase.h"
#include "record.h"
#include "tree.h"

int csn_layer_new_id(char out[33])
{
    return csn_id_hex(out, 16);
}

static int hold(int state_fd, int how, int *ret_lock_fd, csn_error *err)
{
    csn_auto(fd) int dirfd = -1, fd = -1;
    int r;

    dirfd = csn_tree_open_dir(state_fd, "layers", 0700);
    if (dirfd < 0)
        return csn_fail_sys(err, dirfd, "open the layers' directory");
    fd = openat(dirfd, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return csn_fail_sys(err, -errno, "lock the layers");
    r = csn_fault_as("flock", ENOLCK);
    if (r < 0)
        return csn_fail_sys(err, r, "lock the layers");
    while (flock(fd, how) < 0) {
        if (errno == EWOULDBLOCK)
            return csn_fail(err, CSN_E_BUSY, "images and volumes are being worked on: try again");
        if (errno != EINTR)
            return csn_fail_sys(err, -errno, "lock the layers");
    }
    *ret_lock_fd = csn_take_fd(&fd);
    return CSN_OK;
}

int csn_layers_hold(int state_fd, int *ret_lock_fd, csn_error *err)
{
    return hold(state_fd, LOCK_SH, ret_lock_fd, err);
}

int csn_layers_hold_alone(int state_fd, int *ret_lock_fd, csn_error *err)
{
    return hold(state_fd, LOCK_EX | LOCK_NB, ret_lock_fd, err);
}

static int resolve_host(int state_fd, bool may_make, csn_image_ref *ref, csn_error *err)
{
    char *layer = ref->layers[ref->n_layers];
    int r = may_make ? csn_hostbase_prepare(state_fd, layer, err)
                     : csn_hostbase_find(state_fd, layer);

    if (r == CSN_OK)
        ref->n_layers++;
    return r;
}

static int check_layers(int state_fd, const char *name, const csn_image_ref *ref, csn_error *err)
{
    for (uint32_t i = 0; i < ref->n_layers; i++) {
        char path[96];

        (void) snprintf(path, sizeof(path), "layers/%s", ref->layers[i]); /* fits */
        if (faccessat(state_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
            return csn_fail_sys(err, -errno, "image '%s': layer '%s'", name, ref->layers[i]);
    }
    return CSN_OK;
}

static int resolve(int state_fd, const char *name, bool may_make, csn_image_ref *ret,
                   csn_error *err)
{
    csn_auto(image_record) csn_image_record rec = CSN_IMAGE_RECORD_INIT;
    int r;

    if (!name || name[0] == '\0')
        name = "host";
    if (csn_streq(name, "host")) {
        rec.ref.is_host_based = 1;
    } else {
        r = csn_image_record_load(state_fd, name, &rec, err);
        if (r == CSN_OK)
            r = check_layers(state_fd, name, &rec.ref, err);
        if (r < 0)
            return r;
    }
    if (rec.ref.is_host_based) {
        r = resolve_host(state_fd, may_make, &rec.ref, err);
        if (r != CSN_OK)
            return r;
    }
    *ret = rec.ref;
    memset(&rec, 0, sizeof(rec)); /* given away */
    return CSN_OK;
}

int csn_image_resolve(int state_fd, const char *name, csn_image_ref *ret, csn_error *err)
{
    return resolve(state_fd, name, true, ret, err);
}

int csn_image_find(int state_fd, const char *name, csn_image_ref *ret, csn_error *err)
{
    return resolve(state_fd, name, false, ret, err);
}

static int64_t count_layers(int state_fd, const csn_image_ref *ref)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < ref->n_layers; i++) {
        csn_tree_count count;
        char path[96];

        (void) snprintf(path, sizeof(path), "layers/%s", ref->layers[i]); /* fits */
        if (!csn_layer_is_host(ref->layers[i]) && csn_tree_measure(state_fd, path, &count) == 0)
            sum += count.bytes;
    }
    return sum;
}

/* images/.tmp-<id>/image.json, then the whole directory gets its name: rename() onto a directory that isn't empty fails,
 * so a name is given once. */
static int name_record(int images_fd, const char *name, const csn_buf *text, csn_error *err)
{
    csn_auto(fd) int tmp_fd = -1;
    char tmp[48], id[33];
    int r;

    r = csn_layer_new_id(id);
    if (r < 0)
        return csn_fail_sys(err, r, "name image '%s'", name);
    (void) snprintf(tmp, sizeof(tmp), ".tmp-%s", id); /* fits */
    tmp_fd = csn_tree_open_dir(images_fd, tmp, 0700);
    if (tmp_fd < 0)
        return csn_fail_sys(err, tmp_fd, "record image '%s'", name);
    r = csn_write_file_atomic(tmp_fd, "image.json", text->data, text->len, 0600, true);
    if (r == 0)
        r = csn_tree_rename(images_fd, tmp, images_fd, name);
    if (r == 0)
        (void) fsync(images_fd); /* best effort: the name is valid either way */
    else
        (void) csn_tree_remove(images_fd, tmp); /* the first mistake is the one to report */
    if (r == -EEXIST)
        return csn_fail(err, CSN_E_EXISTS, "an image '%s' exists already", name);
    return r < 0 ? csn_fail_sys(err, r, "record image '%s'", name) : CSN_OK;
}

int csn_image_check_new_name(int state_fd, const char *name, csn_error *err)
{
    char path[96];

    if (!name || !csn_is_name(name))
        return csn_fail(err, CSN_E_INVALID,
                        "'%.80s' is no name for an image: 1 to 64 of A-Z a-z 0-9 . _ -",
                        name ? name : "");
    if (csn_streq(name, "host"))
        return csn_fail(err, CSN_E_EXISTS,
                        "image 'host' is this machine itself: take another name");
    (void) snprintf(path, sizeof(path), "images/%s/image.json", name); /* fits */
    if (faccessat(state_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return csn_fail(err, CSN_E_EXISTS, "an image '%s' exists already", name);
    return CSN_OK;
}

int csn_image_put(int state_fd, const char *name, const csn_image_ref *ref, const char *source,
                  csn_error *err)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(fd) int lock = -1, images_fd = -1;
    csn_image_record rec = { .ref = *ref }; /* borrowed, not freed here */
    int r;

    r = csn_image_check_new_name(state_fd, name, err);
    if (r == CSN_OK)
        r = csn_layers_hold(state_fd, &lock, err);
    if (r == CSN_OK)
        r = check_layers(state_fd, name, ref, err);
    if (r < 0)
        return r;
    (void) snprintf(rec.source, sizeof(rec.source), "%s", source); /* one of our own words */
    rec.created_ms = csn_wall_ms();
    rec.size_bytes = count_layers(state_fd, ref);
    if (csn_image_record_write(name, &rec, &text) < 0)
        return csn_fail_sys(err, text.error, "record image '%s'", name);
    images_fd = csn_tree_open_dir(state_fd, "images", 0700);
    if (images_fd < 0)
        return csn_fail_sys(err, images_fd, "open the images' directory");
    return name_record(images_fd, name, &text, err);
}
