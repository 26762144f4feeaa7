/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs of images and volumes whose work on disk a thread does.
 *
 * A verb's own struct begins with a csn_disk_verb. `run` has the thread to itself and may wait; it touches the verb and the state
 * directory, and nothing of the engine. Its locks end with it: whoever waited for one in the loop would keep the loop from giving it
 * back. What only a helper can remove (files of subordinate ids) it leaves in `left`; the rest is done in turns of the loop, and then
 * the operation ends. */
#ifndef CSN_IMAGE_DISK_H
#define CSN_IMAGE_DISK_H

#include "base/work.h"
#include "image/images.h"
#include "image/names.h"

typedef struct csn_disk_verb csn_disk_verb;

struct csn_disk_verb {
    csn_work work;
    csn_images *images; /* borrowed; not for `run` */
    csn_op *op;
    int state_fd; /* borrowed: threads end before it is closed */
    char name[65];
    int (*run)(csn_disk_verb *verb, csn_error *err);
    void (*tell)(csn_disk_verb *verb); /* NULL, or: after a success that is still wanted */
    void (*free)(csn_disk_verb *verb); /* NULL, or: frees what the verb's own struct holds */
    csn_names left; /* paths below the state directory */
    bool must_go;   /* it is a failure if they can't be removed */
    int result;
    csn_error err;
};

/* A new one, of `size` bytes. `name`: NULL where the verb is about all. NULL: no memory, and *err says so. */
void *csn_disk_verb_new(csn_images *images, size_t size, const char *name, csn_op *op,
                        csn_error *err);
/* Begins it; frees it on failure. */
int csn_disk_verb_start(csn_disk_verb *verb, int (*run)(csn_disk_verb *verb, csn_error *err),
                        csn_error *err);

#endif
