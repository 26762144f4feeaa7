/* The verbs that look at images and take them away. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "boxes.h"
#include "image.h"
#include "images.h"
#include "names.h"
#include "record.h"
#include "tree.h"

static void tell(const char *name, const csn_image_record *rec, csn_image_fn fn, void *user)
{
    static const char *const none[] = { NULL };
    const csn_image_ref *ref = &rec->ref;
    csn_image_info info = {
        .name = name,
        .source = rec->source,
        .is_host_based = ref->is_host_based,
        .n_layers = ref->n_layers + (ref->is_host_based ? 1 : 0),
        .size_bytes = rec->size_bytes,
        .created_ms = rec->created_ms,
        .env = ref->env ? (const char *const *) ref->env : none,
        .cwd = ref->cwd ? ref->cwd : "",
        .entrypoint = ref->entrypoint ? (const char *const *) ref->entrypoint : none,
        .cmd = ref->cmd ? (const char *const *) ref->cmd : none,
        .user = ref->user ? ref->user : "",
    };

    fn(&info, user);
}

/* The machine itself: nothing of it is ours but the small base layer. */
static int tell_host(int state_fd, csn_image_fn fn, void *user, csn_error *err)
{
    csn_auto(image_ref) csn_image_ref ref = CSN_IMAGE_REF_INIT;
    csn_image_record rec = { .ref = { .is_host_based = 1 }, .source = "host" };
    csn_tree_count count = { 0, 0 };
    char path[96];
    int r;

    r = csn_image_resolve(state_fd, "host", &ref, err);
    if (r < 0)
        return r;
    (void) snprintf(path, sizeof(path), "layers/%s", ref.layers[0]); /* fits */
    if (csn_tree_measure(state_fd, path, &count) == 0)
        rec.size_bytes = count.bytes;
    tell("host", &rec, fn, user);
    return CSN_OK;
}

static int tell_image(int state_fd, const char *name, csn_image_fn fn, void *user, csn_error *err)
{
    csn_auto(image_record) csn_image_record rec = CSN_IMAGE_RECORD_INIT;
    int r;

    r = csn_image_record_load(state_fd, name, &rec, err);
    if (r == CSN_OK)
        tell(name, &rec, fn, user);
    return r;
}

int csn_images_list(int state_fd, csn_image_fn fn, void *user, csn_error *err)
{
    csn_auto(names) csn_names names = CSN_NAMES_INIT;
    int r = csn_names_read(state_fd, "images", &names);

    if (r < 0)
        return csn_fail_sys(err, r, "list images");
    r = tell_host(state_fd, fn, user, err);
    for (size_t i = 0; r == CSN_OK && i < names.n; i++) {
        r = tell_image(state_fd, names.at[i], fn, user, err);
        if (r == CSN_E_NOT_FOUND) /* removed meanwhile */
            r = CSN_OK;
    }
    return r;
}

int csn_images_inspect(int state_fd, const char *name, csn_image_fn fn, void *user, csn_error *err)
{
    if (csn_streq(name, "host"))
        return tell_host(state_fd, fn, user, err);
    return tell_image(state_fd, name, fn, user, err);
}

/* The name goes first and at once: moved aside, then taken apart. */
static int drop_record(int state_fd, const char *name, csn_error *err)
{
    csn_auto(fd) int images_fd = -1;
    char gone[48], id[33];
    int r;

    images_fd = openat(state_fd, "images", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = images_fd < 0 ? -errno : csn_layer_new_id(id);
    if (r < 0)
        return csn_fail_sys(err, r, "remove image '%s'", name);
    (void) snprintf(gone, sizeof(gone), ".gone-%s", id); /* fits */
    r = csn_tree_rename(images_fd, name, images_fd, gone);
    if (r < 0)
        return r == -ENOENT ? csn_fail(err, CSN_E_NOT_FOUND, "no image '%s'", name)
                            : csn_fail_sys(err, r, "remove image '%s'", name);
    (void) csn_tree_remove(images_fd, gone); /* what stays is taken by the next sweep */
    return CSN_OK;
}

static int check_idle(int state_fd, const char *name, csn_error *err)
{
    uint32_t n_boxes = 0;
    int r;

    r = csn_boxes_with_image(state_fd, name, &n_boxes, err);
    if (r < 0)
        return csn_fail_in(err, r, "remove image '%s'", name);
    if (n_boxes > 0)
        return csn_fail(err, CSN_E_BUSY, "image '%s' is used by %u sandbox%s: delete %s first",
                        name, n_boxes, n_boxes == 1 ? "" : "es", n_boxes == 1 ? "it" : "them");
    return CSN_OK;
}

/* Layers a sweep took the name of but couldn't remove: "root inside" wrote them with subordinate ids. */
static void clear_gone(csn_images *images)
{
    csn_auto(fd) int alone = -1;
    struct dirent *entry;
    DIR *dir;
    int fd;

    if (csn_layers_hold_alone(images->state_fd, &alone, NULL) < 0)
        return; /* another time */
    fd = openat(images->state_fd, "layers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        csn_close(&fd);
        return;
    }
    while ((entry = readdir(dir))) {
        char path[320];

        (void) snprintf(path, sizeof(path), "layers/%s", entry->d_name); /* fits */
        if (csn_starts_with(entry->d_name, ".gone-"))
            (void) images->remove_tree(path, images->user, NULL); /* another time, then */
    }
    (void) closedir(dir); /* only read from */
}

int csn_images_remove(csn_images *images, const char *name, csn_error *err)
{
    csn_auto(image_record) csn_image_record rec = CSN_IMAGE_RECORD_INIT;
    const int state_fd = images->state_fd;
    int r;

    if (!name || csn_streq(name, "host"))
        return csn_fail(err, CSN_E_INVALID,
                        "image 'host' is this machine itself: it can't be removed");
    r = csn_image_record_load(state_fd, name, &rec, err);
    if (r == CSN_E_INVALID || r == CSN_E_NOT_FOUND) /* a broken record may go */
        return r;
    r = check_idle(state_fd, name, err);
    if (r == CSN_OK)
        r = drop_record(state_fd, name, err);
    if (r == CSN_OK) { /* what stays goes with a later sweep */
        (void) csn_layer_sweep(state_fd, NULL, NULL, NULL, NULL);
        clear_gone(images);
    }
    return r;
}
