/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KEEPER_INSIDE_H
#define CSN_KEEPER_INSIDE_H

/* The child's half of the setup: from the clone into new namespaces to the exec of init. It may have been cloned before
 * the plan was known, so everything it needs arrives on the setup socket:
 *
 *   keeper → child   the packed plan, at once, so that the child wakes; csn_go, when ids are mapped; descriptors, up to
 *                    eight per message: init's image and, with privilege, /dev and the layers in the plan's order; last
 *                    csn_join and the cgroups' tasks files, which are made while the child builds
 *   child → keeper   csn_report NAMESPACED early on; FAILED and exit, or BUILT with the descriptors of csn_built_fd
 *
 * The socket is close-on-exec: its end without a FAILED is the exec of init. */

#include <stdbool.h>
#include <stdint.h>

enum {
    CSN_GO_FDS_MAX = 8,
    CSN_FAULT_INSIDE =
        1000 /* test builds: plan.fault_at beyond it counts the child's fault points */
};

typedef struct csn_go {
    uint32_t n_trees;
    uint32_t is_privileged;
    uint32_t has_ids;    /* inside 0 is mapped: the child becomes it to build */
    uint32_t
        is_other; /* the sandbox's user is not the keeper's outside: the child has to become it */
    uint32_t wants_proc; /* the watch rung needs a procfs without hidepid for the keeper */
    uint32_t n_processors; /* the watch rung: hold to so many; 0: all */
    uint64_t layers_with_usr; /* bit per layer of the plan */
} csn_go;

typedef struct csn_join {
    uint32_t n_tasks; /* descriptors that come with it; 0: nothing to join */
} csn_join;

enum { CSN_REPORT_FAILED = 1, CSN_REPORT_BUILT, CSN_REPORT_NAMESPACED };

typedef struct csn_report {
    uint32_t kind;
    uint32_t step; /* index for csn_inside_step_name() */
    int32_t error; /* -errno */
    uint32_t walls_missing;
    int64_t built_ns;   /* BUILT: the moment before init */
    int64_t disk_bytes; /* and what was on a disk of its own then */
    char detail[96]; /* what it was about, NUL-terminated; "": nothing to add */
} csn_report;

/* CLONE_NEW… that the child makes itself, set before it is cloned: a network namespace takes half a millisecond, in
 * which the keeper has other things to do. */
extern uint64_t csn_late_namespaces;

/* With privilege the keeper makes /dev itself; it says so before it clones. */
extern bool csn_dev_is_made;
int csn_dev_make(int *ret_fd); /* 0 or -errno */

/* Never returns. `setup_fd` and `control_fd` are the child's ends. */
_Noreturn void csn_inside_run(int setup_fd, int control_fd);

const char *csn_inside_step_name(uint32_t step); /* never NULL */
bool csn_inside_is_upper_step(uint32_t step);    /* it mounts the writable layer of / */

#endif
