/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's images, as of the last look. An operator may add one at any time: who misses one looks again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "server/cell.h"

typedef struct look {
    csn_boxes *boxes;
    csn_image *images;
    size_t n;
    bool is_short; /* of memory */
    csn_images_done_fn *done;
    void *user;
} look;

static void on_image(const char *name, int64_t size_bytes, void *user)
{
    look *l = user;

    if ((l->n & (l->n - 1)) == 0) { /* full at every power of two */
        csn_image *more = reallocarray(l->images, l->n ? l->n * 2 : 1, sizeof(*more));
        if (!more) {
            l->is_short = true;
            return;
        }
        l->images = more;
    }
    csn_image *image = &l->images[l->n++];
    (void) snprintf(image->name, sizeof(image->name), "%s", name);
    image->size_bytes = size_bytes;
}

static void on_looked(int result, const csn_error *err, void *user)
{
    look *l = user;
    csn_boxes *b = l->boxes;

    if (result == CSN_OK && !l->is_short) {
        free(b->images);
        b->images = l->images;
        b->n_images = l->n;
    } else {
        free(l->images);
    }
    l->done(result, err, l->user);
    free(l);
}

void csn_boxes_look_at_images(csn_boxes *boxes, csn_images_done_fn *done, void *user)
{
    csn_error err = { 0 };
    look *l = calloc(1, sizeof(*l));

    if (!l) {
        (void) csn_fail(&err, CSN_E_NO_MEMORY, "look at the images");
        done(CSN_E_NO_MEMORY, &err, user);
        return;
    }
    l->boxes = boxes;
    l->done = done;
    l->user = user;
    int r = csn_warden_images(boxes->server->warden, on_image, on_looked, l);
    if (r < 0) {
        r = csn_warden_cannot(r, &err);
        on_looked(r, &err, l);
    }
}

const csn_image *csn_boxes_image(const csn_boxes *boxes, const char *name)
{
    for (size_t i = 0; i < boxes->n_images; i++)
        if (strcmp(boxes->images[i].name, name) == 0)
            return &boxes->images[i];
    return NULL;
}
