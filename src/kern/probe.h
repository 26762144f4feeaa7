/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_PROBE_H
#define CSN_KERN_PROBE_H

#include <stddef.h>

/* What this kernel and this user can do. Each answer comes from a real try in a forked child; so
 * only for single-threaded processes. Nothing remains afterwards. */

enum csn_probe_state {
    CSN_PROBE_OK,
    CSN_PROBE_LIMITED, /* works, with less: `detail` says what */
    CSN_PROBE_MISSING, /* an optional thing isn't there */
    CSN_PROBE_FAILED,  /* a wall can't be built: sandboxes don't start */
};

typedef struct csn_probe_item {
    const char *name; /* static: "user namespace" */
    const char *kind; /* static: "wall", "limit" or "extra" */
    enum csn_probe_state state;
    int error;          /* errno of the try, or 0 */
    char detail[96];    /* what was found: "ABI 7" */
    const char *remedy; /* static; NULL when there is nothing to do */
} csn_probe_item;

#define CSN_PROBE_MAX 48

/* Fills `items`, at most `max`. */
int csn_probe_run(csn_probe_item *items, size_t max, size_t *ret_n);

#endif
