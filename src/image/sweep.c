#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "boxes.h"
#include "hostbase.h"
#include "image.h"
#include "names.h"
#include "record.h"
#include "tree.h"

typedef struct sweep {
    int state_fd, layers_fd;
    csn_layer_used_fn is_used;
    void *user;
    csn_names images;
    char host[CSN_LAYER_ID_SIZE]; /* the present base: the next create wants it */
    uint32_t n_removed;
} sweep;

static void sweep_auto(sweep *s)
{
    csn_close(&s->layers_fd);
    csn_names_auto(&s->images);
}

/* 1: yes, 0: no, CSN_E_…: unknown, so it stays. */
static int is_named(sweep *s, const char *layer, csn_error *err)
{
    for (size_t i = 0; i < s->images.n; i++) {
        csn_auto(image_record) csn_image_record rec = CSN_IMAGE_RECORD_INIT;
        int r = csn_image_record_load(s->state_fd, s->images.at[i], &rec, err);

        if (r == CSN_E_NOT_FOUND)
            continue;
        if (r < 0)
            return r;
        for (uint32_t k = 0; k < rec.ref.n_layers; k++)
            if (csn_streq(rec.ref.layers[k], layer))
                return 1;
    }
    return 0;
}

static int is_needed(sweep *s, const char *layer, csn_error *err)
{
    uint32_t n = 0;
    int r;

    if (csn_streq(layer, s->host))
        return 1;
    if (s->is_used) {
        if (s->is_used(layer, s->user))
            return 1;
    } else {
        r = csn_boxes_with_layer(s->state_fd, layer, &n, err);
        if (r < 0 || n > 0)
            return r < 0 ? r : 1;
    }
    return is_named(s, layer, err);
}

/* A temporary tree belongs to whoever holds its lock. */
static bool has_maker(int dirfd, const char *name)
{
    csn_auto(fd) int fd = -1;

    fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

/* Renamed first: whoever looks for the layer meanwhile finds it whole or not at all. */
static void remove_layer(sweep *s, const char *layer)
{
    char gone[80];

    (void) snprintf(gone, sizeof(gone), ".gone-%.64s", layer); /* fits */
    if (csn_tree_rename(s->layers_fd, layer, s->layers_fd, gone) == 0 &&
        csn_tree_remove(s->layers_fd, gone) == 0)
        s->n_removed++;
}

static int sweep_entry(sweep *s, const char *name, csn_error *err)
{
    int r;

    if (csn_starts_with(name, ".tmp-") || csn_starts_with(name, ".gone-")) {
        if (!has_maker(s->layers_fd, name) && csn_tree_remove(s->layers_fd, name) == 0)
            s->n_removed++;
        return CSN_OK;
    }
    if (!csn_layer_is_id(name))
        return CSN_OK;
    r = is_needed(s, name, err);
    if (r == 0)
        remove_layer(s, name);
    return r < 0 ? r : CSN_OK;
}

static int sweep_layers(sweep *s, csn_error *err)
{
    struct dirent *entry;
    int fd, r = CSN_OK;
    DIR *dir;

    fd = csn_fd_dup(s->layers_fd, 3);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        csn_close(&fd);
        return csn_fail(err, CSN_E_NO_MEMORY, "sweep layers");
    }
    while (r == CSN_OK && (entry = readdir(dir)))
        r = sweep_entry(s, entry->d_name, err);
    (void) closedir(dir); /* only read from */
    return r;
}

/* With the lock nobody is giving or taking names: a temporary one is a left-over. */
static void sweep_left_overs(sweep *s, const char *where)
{
    struct dirent *entry;
    DIR *dir;
    int fd;

    fd = openat(s->state_fd, where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        csn_close(&fd);
        return;
    }
    while ((entry = readdir(dir)))
        if (csn_starts_with(entry->d_name, ".tmp-") || csn_starts_with(entry->d_name, ".gone-"))
            if (csn_tree_remove(fd, entry->d_name) == 0)
                s->n_removed++;
    (void) closedir(dir); /* only read from */
}

int csn_layer_sweep(int state_fd, csn_layer_used_fn is_used, void *user, uint32_t *ret_n_removed,
                    csn_error *err)
{
    __attribute__((cleanup(sweep_auto)))
    sweep s = { .state_fd = state_fd, .layers_fd = -1, .is_used = is_used, .user = user };
    csn_auto(fd) int lock = -1;
    int r;

    s.layers_fd = openat(state_fd, "layers", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s.layers_fd < 0)
        return errno == ENOENT ? CSN_OK : csn_fail_sys(err, -errno, "sweep layers");
    r = csn_layers_hold_alone(state_fd, &lock, err);
    if (r == CSN_E_BUSY) /* somebody works: another time */
        return CSN_OK;
    if (r < 0)
        return r;
    csn_hostbase_name(s.host);
    r = csn_names_read(state_fd, "images", &s.images);
    if (r < 0)
        return csn_fail_sys(err, r, "sweep layers");
    sweep_left_overs(&s, "images");
    sweep_left_overs(&s, "volumes");
    r = sweep_layers(&s, err);
    if (ret_n_removed)
        *ret_n_removed = s.n_removed;
    return r;
}
