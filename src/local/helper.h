/* A keeper that builds nothing: it copies or removes a tree whose files may belong to other ids. */
#ifndef CSN_LOCAL_HELPER_H
#define CSN_LOCAL_HELPER_H

#include "local/local.h"
#include "wire/plan.h"

/* Removes boxes/<id>/disk and waits for it. */
int csn_helper_remove(csn_local *local, const char *id, csn_error *err);

/* Any tree below the state directory: `done` runs later. */
int csn_helper_remove_tree(csn_local *local, const char *target, csn_done_fn done, void *user,
                           csn_error *err);

typedef struct csn_helper csn_helper; /* one at work: until `done` */

/* Copies the upper layers in `source_fd` to layers/<layer>; `userns_fd` may be -1. `done` runs later. */
int csn_helper_copy(csn_local *local, const csn_wish *wish, const char *layer, int source_fd,
                    int userns_fd, csn_done_fn done, void *user, csn_helper **ret_helper,
                    csn_error *err);
/* Ends it: `done` runs now, with CSN_E_CANCELLED. */
void csn_helper_cancel(csn_helper *helper);

/* Before the engine's loop goes. */
void csn_helper_cancel_all(csn_local *local);

/* The plan of a box; strings are borrowed from the wish. */
void csn_plan_of(const csn_local *local, const csn_wish *wish, uint32_t mode, csn_plan *ret_plan);
/* Sends a plan to a fresh keeper. 0 or -errno. */
int csn_plan_ask(csn_conn *conn, const csn_plan *plan, const int *fds, size_t n_fds,
                 csn_request *req, csn_answer_fn *answer);

#endif
