/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broom.h"

#include <stdlib.h>

#include <caisson/files.h>

#include "base/fault.h"

enum { TRIES_MAX = 8 };

typedef struct broom {
    csn_box_hold *hold;
    csn_sandbox *box; /* valid while held */
    csn_buf path;
    int n_tries;
} broom;

static void sweep(broom *b);

static void free_broom(broom *b)
{
    csn_buf_free(&b->path);
    csn_boxes_release(b->hold);
    free(b);
}

/* A disk that is too full kills all that runs inside, this too: so it is tried again. */
static void on_swept(int64_t n, int result, const csn_error *err, void *user)
{
    (void) n;
    (void) err;
    if (result == CSN_E_LOST || result == CSN_E_BUSY)
        sweep(user);
    else
        free_broom(user);
}

static void sweep(broom *b)
{
    csn_file_request fr = { .size = sizeof(fr), .verb = CSN_FILE_DELETE, .path = b->path.data };

    if (++b->n_tries > TRIES_MAX || !csn_file_request_async(b->box, &fr, on_swept, b, NULL))
        free_broom(b); /* the sandbox is gone, and the file with it */
}

void csn_broom_sweep(csn_boxes *boxes, const char *box_id, csn_sandbox *box, csn_buf *path)
{
    broom *b = csn_xalloc(1, sizeof(*b));

    *b = (broom){ .hold = csn_boxes_hold(boxes, box_id), .box = box, .path = *path };
    *path = (csn_buf) CSN_BUF_INIT;
    if (b->hold)
        sweep(b);
    else
        free_broom(b); /* not connected any more */
}
