/* The verbs that look at images and take them away. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "boxes.h"
#include "disk.h"
#include "image.h"
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

/* ---- looking ---- */

typedef struct image_look {
    csn_disk_verb base;
    csn_names names;
    csn_image_record *records; /* one for each name; without layers: removed meanwhile */
    csn_image_fn fn;
    void *user;
} image_look;

static void free_look(csn_disk_verb *v)
{
    image_look *look = csn_container_of(v, image_look, base);

    for (size_t i = 0; look->records && i < look->names.n; i++)
        csn_image_record_auto(&look->records[i]);
    free(look->records);
    csn_names_auto(&look->names);
}

static void tell_look(csn_disk_verb *v)
{
    image_look *look = csn_container_of(v, image_look, base);

    for (size_t i = 0; i < look->names.n; i++)
        if (look->records[i].ref.n_layers > 0 || look->records[i].ref.is_host_based)
            tell(look->names.at[i], &look->records[i], look->fn, look->user);
}

/* The machine itself: nothing of it is ours but the small base layer. */
static int load_host(int state_fd, csn_image_record *rec, csn_error *err)
{
    csn_auto(image_ref) csn_image_ref ref = CSN_IMAGE_REF_INIT;
    csn_tree_count count = { 0, 0 };
    char path[96];
    int r;

    r = csn_image_resolve(state_fd, "host", &ref, err);
    if (r < 0)
        return r;
    rec->ref.is_host_based = 1;
    (void) csn_str_copy(rec->source, sizeof(rec->source), csn_str_of("host")); /* fits */
    (void) snprintf(path, sizeof(path), "layers/%s", ref.layers[0]);           /* fits */
    if (csn_tree_measure(state_fd, path, &count) == 0)
        rec->size_bytes = count.bytes;
    return CSN_OK;
}

static int load_all(image_look *look, csn_error *err)
{
    const int state_fd = look->base.state_fd;
    int r = CSN_OK;

    look->records = csn_calloc(look->names.n + 1, sizeof(*look->records));
    if (!look->records)
        return csn_fail(err, CSN_E_NO_MEMORY, "look at images");
    for (size_t i = 0; r == CSN_OK && i < look->names.n; i++) {
        if (csn_streq(look->names.at[i], "host"))
            r = load_host(state_fd, &look->records[i], err);
        else
            r = csn_image_record_load(state_fd, look->names.at[i], &look->records[i], err);
        if (r == CSN_E_NOT_FOUND && look->base.name[0] == '\0') /* of a list: removed meanwhile */
            r = CSN_OK;
    }
    return r;
}

/* The machine itself comes first. */
static int list(csn_disk_verb *v, csn_error *err)
{
    image_look *look = csn_container_of(v, image_look, base);
    csn_auto(names) csn_names named = CSN_NAMES_INIT;
    int r = csn_names_read(v->state_fd, "images", &named);

    if (r == 0)
        r = csn_names_add(&look->names, "host");
    for (size_t i = 0; r == 0 && i < named.n; i++)
        r = csn_names_add(&look->names, named.at[i]);
    return r < 0 ? csn_fail_sys(err, r, "list images") : load_all(look, err);
}

static int inspect(csn_disk_verb *v, csn_error *err)
{
    image_look *look = csn_container_of(v, image_look, base);
    int r = csn_names_add(&look->names, v->name);

    return r < 0 ? csn_fail_sys(err, r, "look at image '%s'", v->name) : load_all(look, err);
}

static int start_look(csn_images *images, const char *name, csn_image_fn fn, void *user, csn_op *op,
                      int (*run)(csn_disk_verb *v, csn_error *err), csn_error *err)
{
    image_look *look = csn_disk_verb_new(images, sizeof(*look), name, op, err);

    if (!look)
        return CSN_E_NO_MEMORY;
    look->fn = fn;
    look->user = user;
    look->base.tell = tell_look;
    look->base.free = free_look;
    return csn_disk_verb_start(&look->base, run, err);
}

int csn_images_list(csn_images *images, csn_image_fn fn, void *user, csn_op *op, csn_error *err)
{
    return start_look(images, NULL, fn, user, op, list, err);
}

int csn_images_inspect(csn_images *images, const char *name, csn_image_fn fn, void *user,
                       csn_op *op, csn_error *err)
{
    return start_look(images, name, fn, user, op, inspect, err);
}

/* ---- removing ---- */

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
static void note_gone(csn_disk_verb *v)
{
    struct dirent *entry;
    DIR *dir;
    int fd;

    fd = openat(v->state_fd, "layers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        csn_close(&fd);
        return;
    }
    while ((entry = readdir(dir))) {
        char path[320];

        (void) snprintf(path, sizeof(path), "layers/%s", entry->d_name); /* fits */
        if (csn_starts_with(entry->d_name, ".gone-"))
            (void) csn_names_add(&v->left, path); /* another time, then */
    }
    (void) closedir(dir); /* only read from */
}

static int remove_image(csn_disk_verb *v, csn_error *err)
{
    csn_auto(image_record) csn_image_record rec = CSN_IMAGE_RECORD_INIT;
    int r = csn_image_record_load(v->state_fd, v->name, &rec, err);

    if (r == CSN_E_INVALID || r == CSN_E_NOT_FOUND) /* a broken record may go */
        return r;
    r = check_idle(v->state_fd, v->name, err);
    if (r == CSN_OK)
        r = drop_record(v->state_fd, v->name, err);
    if (r == CSN_OK) { /* what stays goes with a later sweep */
        (void) csn_layer_sweep(v->state_fd, NULL, NULL, NULL, NULL);
        note_gone(v);
    }
    return r;
}

int csn_images_remove(csn_images *images, const char *name, csn_op *op, csn_error *err)
{
    csn_disk_verb *v;

    if (!name || csn_streq(name, "host"))
        return csn_fail(err, CSN_E_INVALID,
                        "image 'host' is this machine itself: it can't be removed");
    v = csn_disk_verb_new(images, sizeof(*v), name, op, err);
    return v ? csn_disk_verb_start(v, remove_image, err) : CSN_E_NO_MEMORY;
}
