/* SPDX-License-Identifier: Apache-2.0 */
/* A cell: one sandbox as the server knows it, its row, its state, its line to the keeper. The inside of boxes*.c and of the
 * control plane's routes.
 *
 * Theory of operation. Every live row of the store is a cell in memory; reads never touch the disk. A change is made in
 * memory, asked of the warden and committed to the store; the answer goes out when both are done. The store remembers
 * wishes and the last state; whether a sandbox runs is the engine's word (csn_boxes_reconcile). A cell whose delete was
 * accepted leaves the tables at once, so that nobody finds it and its name is free, and stays in `dying` until the engine
 * has no trace of it; only then its row goes. */
#ifndef CSN_SERVER_CELL_H
#define CSN_SERVER_CELL_H

#include "base/list.h"
#include "server/boxes.h"
#include "server/machine.h"
#include "server/table.h"
#include "server/warden.h"
#include "shape/create.h"
#include "shape/sandbox.h"
#include "store/quotas.h"
#include "store/sandboxes.h"

typedef enum csn_cell_state {
    CSN_CELL_CREATING,
    CSN_CELL_STARTED,
    CSN_CELL_STOPPING,
    CSN_CELL_STOPPED,
    CSN_CELL_STARTING,
    CSN_CELL_ARCHIVED,
    CSN_CELL_SNAPSHOTTING,
    CSN_CELL_ERROR,
    CSN_CELL_DESTROYING
} csn_cell_state;

/* A line to a keeper; counted by csn_boxes_hold(). */
struct csn_box_hold {
    csn_sandbox *sandbox;
    unsigned n_refs;
};

typedef struct csn_cell {
    csn_list link; /* in boxes->cells or boxes->dying */
    csn_boxes *boxes;
    csn_sandbox_row row; /* row.state follows `state` when it is written */
    csn_cell_state state;
    csn_map env, labels;
    csn_shape_mount *mounts; /* as many as there are: each is more than a kilobyte */
    size_t n_mounts;
    char *name;         /* what it was called, also after its name was released */
    csn_box_hold *line; /* NULL: not connected */
    bool is_connecting;
    csn_list waiters;    /* of csn_boxes_open() while connecting */
    unsigned n_pending;  /* asks at the warden that come back to this cell */
    unsigned n_requests; /* toolbox requests under way: activity */
    bool is_dirty;       /* memory knows more than the row */
    bool is_dying;
    bool was_inserted;
    bool is_unwritten; /* dying, and its row doesn't say so: the disk is full */
    void (*on_removed)(struct csn_cell *cell, int result, const csn_error *err, void *user);
    void *on_removed_user; /* of csn_cell_remove(), while that has to wait */
    int insert_errno;      /* why it was not */
    csn_timer timer;       /* the nearest of auto-stop, auto-archive, auto-delete, time to live */
    char *name_key;
    csn_box_facts facts;
    const char **facts_env; /* owned list of owned strings; NULL: to be made */
} csn_cell;

typedef struct csn_warm {
    csn_list link;
    char id[37];
    csn_box_hold *line;
} csn_warm;

typedef struct csn_lull {
    csn_timer timer;
    int64_t deadline_ns; /* when it is waited for no longer */
    uint64_t n_requests; /* at the last look */
    uint32_t n_put_off;  /* pieces of work; 0: none waits */
    bool is_here;
} csn_lull;

typedef struct csn_image {
    char name[65];
    int64_t size_bytes;
} csn_image;

enum { CSN_BOXES_LISTENERS_MAX = 8 };

struct csn_boxes {
    csn_server *server;
    csn_list cells, dying;
    csn_table by_id, by_name; /* by_name: "<org>/<name>" */
    csn_list warm;
    uint32_t n_warm, n_warming, n_warm_wanted;
    csn_timer warm_timer, cool_timer, flush_timer;
    csn_lull lull;
    csn_image *images; /* the engine's, as of the last look */
    size_t n_images;
    bool is_ready;
    struct {
        csn_boxes_ended_fn *fn;
        void *user;
    } ended[CSN_BOXES_LISTENERS_MAX];
    size_t n_ended;
    csn_list to_weigh; /* volumes */
    csn_timer weigh_timer;
    bool is_weighing;
    int64_t weigh_ns; /* when this round began */
};

#define CSN_HOST_IMAGE     "host"
#define CSN_DEFAULT_CPU    1000
#define CSN_DEFAULT_MEMORY (INT64_C(1) << 30)
#define CSN_DEFAULT_DISK   (INT64_C(3) << 30)

/* ---- cells (cells.c) ---- */

const char *csn_cell_state_name(csn_cell_state state);
/* Takes the row (it is empty after). Parses its maps. NULL: no memory, or a row nobody can read (the row is freed). */
csn_cell *csn_cell_new(csn_boxes *boxes, csn_sandbox_row *row);
void csn_cell_free(csn_cell *cell);
/* Into the tables. 0, -EEXIST (the name), -ENOMEM. */
int csn_cell_enter(csn_cell *cell);
/* Out of the tables: nobody finds it any more. */
void csn_cell_leave(csn_cell *cell);
/* Of this organisation, by id or name. NULL: not there. */
csn_cell *csn_boxes_find(csn_boxes *boxes, const char *org_id, const char *id_or_name);
/* Changes the state, tells listeners of the event channel, sets the timer. */
void csn_cell_set_state(csn_cell *cell, csn_cell_state state);
/* Writes the row, durable on return. */
int csn_cell_save(csn_cell *cell, csn_error *err);
void csn_cell_shape(const csn_cell *cell, const char *toolbox_url, csn_shape_sandbox *ret);
/* Forget what was derived from env, user, snapshot. */
void csn_cell_forget_facts(csn_cell *cell);

/* ---- lines (boxes.c) ---- */

/* fd is taken in every case. */
csn_box_hold *csn_line_new(csn_boxes *boxes, const char *id, const char *user, int fd,
                           csn_error *err);
/* Its line broke: whether it still runs is to be asked, by csn_boxes_open(). */
bool csn_cell_is_lost(const csn_cell *cell);
/* The sandbox ended or is about to: sessions are dropped, waiters told, the line let go. */
void csn_cell_disconnect(csn_cell *cell, const csn_error *why);

/* Connections that nobody holds are closed, so that others have their descriptors; who comes next connects anew. */
void csn_boxes_disconnect_idle(csn_boxes *boxes);

/* ---- life (life.c): each ends in done, once; cell NULL when it is gone by then ---- */

typedef void csn_cell_done_fn(csn_cell *cell, int result, const csn_error *err, void *user);
/* A cell that was entered, with the engine's part of its wish in the row. On failure it is gone. */
void csn_cell_create(csn_cell *cell, csn_cell_done_fn *done, void *user);
void csn_cell_start(csn_cell *cell, csn_cell_done_fn *done, void *user);
void csn_cell_stop(csn_cell *cell, bool is_forced, csn_cell_done_fn *done, void *user);
/* Durable and released when it returns CSN_OK: the engine's part happens behind. The cell is no longer to be used. */
/* On a full disk the engine's part comes first, which frees space, and the row follows. */
int csn_cell_delete(csn_cell *cell, csn_error *err);
/* As above, and done when it is durable in any case: then no crash brings the sandbox back. done gets no cell. */
void csn_cell_remove(csn_cell *cell, csn_cell_done_fn *done, void *user);
int csn_cell_archive(csn_cell *cell, csn_error *err);
void csn_cell_fork(csn_cell *source, csn_cell *fork, csn_cell_done_fn *done, void *user);
void csn_cell_resize(csn_cell *cell, int64_t cpu_milli, int64_t memory_bytes, int64_t disk_bytes,
                     csn_cell_done_fn *done, void *user);
void csn_cell_snapshot(csn_cell *cell, const char *image, csn_cell_done_fn *done, void *user);
/* The engine knows nothing of it: nothing but a delete will help. */
void csn_cell_lost(csn_cell *cell);
/* Goes on with a delete when nothing else is pending, in the next lull. */
void csn_cell_bury(csn_cell *cell);

/* ---- timers (timers.c) ---- */

void csn_cell_plan(csn_cell *cell);
void csn_boxes_start_flushing(csn_boxes *boxes);
/* Every dirty row, in one transaction. */
void csn_boxes_flush(csn_boxes *boxes);

/* ---- ready ones (warm.c) ---- */

/* One that no code ever ran in and that fits the wish: its id goes to the row, its line to the cell. False: none. */
bool csn_warm_take(csn_boxes *boxes, csn_sandbox_row *row, csn_box_hold **ret_line);
void csn_warm_fill(csn_boxes *boxes);
void csn_warm_done(csn_boxes *boxes);

/* ---- what nobody waits for (lull.c) ---- */

/* There is something to bury or to fill: done when it is quiet, at the latest in a moment. */
void csn_lull_await(csn_boxes *boxes);
void csn_lull_work(csn_boxes *boxes); /* now */

/* ---- the engine's images (images.c) ---- */

/* Looks again, then done. */
typedef void csn_images_done_fn(int result, const csn_error *err, void *user);
void csn_boxes_look_at_images(csn_boxes *boxes, csn_images_done_fn *done, void *user);
const csn_image *csn_boxes_image(const csn_boxes *boxes, const char *name);

/* ---- quotas (quota.c) ---- */

/* What an organisation may have, its own or the server's; 0: any number. */
int64_t csn_quota_of(const csn_server *server, const char *org_id, csn_quota limit);
/* What started sandboxes of all organisations were promised, and of disk the stopped ones, too. */
csn_size csn_quota_promised(const csn_boxes *boxes);
/* May this organisation have one more of this shape, and can the machine promise it? CSN_OK, CSN_E_DENIED (403) or CSN_E_CANCELLED
 * (503), with the number. except: a cell not to count, or NULL. */
int csn_quota_check(const csn_boxes *boxes, const char *org_id, int64_t cpu_milli,
                    int64_t memory_bytes, int64_t disk_bytes, const csn_cell *except,
                    csn_error *err);
/* One more snapshot of this size? */
int csn_quota_snapshots(const csn_server *server, const char *org_id, int64_t more_bytes,
                        csn_error *err);
/* So many more volumes (0: use of those that are there), as last weighed? */
int csn_quota_volumes(const csn_server *server, const char *org_id, int64_t more, csn_error *err);

/* ---- what lies in volumes (weigh.c) ---- */

/* The cell's state changed: what it has mounted is worth a look. */
void csn_weigh_note(const csn_cell *cell);
void csn_weigh_done(csn_boxes *boxes);

#endif
