/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_PROBE_H
#define CSN_KERN_PROBE_H

#include <stdbool.h>
#include <stddef.h>

/* What this kernel and this user can do. Each answer comes from a real try in a forked child, the way this process's
 * sandboxes take; so only for single-threaded processes. Nothing remains afterwards. */

enum csn_probe_state {
    CSN_PROBE_OK,
    CSN_PROBE_LIMITED,   /* works, with less: `detail` says what */
    CSN_PROBE_MISSING,   /* an optional thing isn't there */
    CSN_PROBE_FAILED,    /* a wall can't be built: sandboxes don't start */
    CSN_PROBE_NOT_TRIED, /* it follows from another item, `follows` */
};

typedef struct csn_probe_item {
    const char *name; /* static: "user namespace" */
    const char *kind; /* static: "wall", "limit" or "extra" */
    enum csn_probe_state state;
    int error;           /* errno of the try, or 0 */
    const char *follows; /* static: the name of the item whose failure explains this one, or NULL */
    char detail[192];    /* what was found: "ABI 7"; of a failure: why, as far as it can be seen */
    char remedy[320];    /* a command or a setting; empty when there is nothing to do */
} csn_probe_item;

#define CSN_PROBE_MAX 48

/* Fills `items`, at most `max`. `state_dir`: where sandboxes are kept, or NULL. */
int csn_probe_run(const char *state_dir, csn_probe_item *items, size_t max, size_t *ret_n);

/* The first wall that can't be built: 1 and the item, 0 when all can. Stops there, so it takes a moment only. Landlock
 * counts unless `without_landlock`. */
int csn_probe_first_failed(const char *state_dir, bool without_landlock, csn_probe_item *ret_item);

#endif
