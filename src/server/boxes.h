/* SPDX-License-Identifier: Apache-2.0 */
/* The sandboxes of this server while it runs: rows of the store joined with what the engine says. */
#ifndef CSN_SERVER_BOXES_H
#define CSN_SERVER_BOXES_H

#include <caisson/sandbox.h>

#include "server/server.h"

/* For auth, on toolbox routes: the started sandbox (by UUID, or by name) of this organisation, connected. Answers through
 * `done`, maybe before it returns. CSN_E_NOT_FOUND: not there or not theirs; CSN_E_STATE: not running (message says how).
 * The handle is borrowed and stays valid while the caller holds a reference (csn_boxes_hold / _release). */
typedef void csn_boxes_open_fn(csn_sandbox *sandbox, const char *id, int result,
                               const csn_error *err, void *user);
void csn_boxes_open(csn_boxes *boxes, const char *org_id, const char *id_or_name,
                    csn_boxes_open_fn *done, void *user);
/* As above, of any organisation: who asks has a preview token, or the sandbox is public. */
void csn_boxes_open_by_id(csn_boxes *boxes, const char *id, csn_boxes_open_fn *done, void *user);

/* Keeps the current connection of a sandbox alive, also when the sandbox stops meanwhile. NULL: not connected. */
typedef struct csn_box_hold csn_box_hold;
csn_box_hold *csn_boxes_hold(csn_boxes *boxes, const char *id);
csn_box_hold *csn_boxes_release(csn_box_hold *hold); /* NULL is fine; always NULL */

/* Reads the store's rows. csn_boxes_reconcile() then compares them with what the warden says: `done` when every row tells
 * the truth and requests may be answered. */
int csn_boxes_new(csn_server *server, csn_boxes **ret, csn_error *err);
void csn_boxes_reconcile(csn_boxes *boxes,
                         void (*done)(int result, const csn_error *err, void *user), void *user);
bool csn_boxes_ready(const csn_boxes *boxes);
/* The server is about to end (is_stopping is set): what nobody owns is deleted. */
void csn_boxes_stop(csn_boxes *boxes);
bool csn_boxes_is_making(const csn_boxes *boxes); /* a ready one: what it makes is deleted when it is there */
csn_boxes *csn_boxes_free(csn_boxes *boxes);

/* Something happened in it: last activity is now. */
void csn_boxes_touch(csn_boxes *boxes, const char *id);

/* Facts the toolbox needs of a sandbox; borrowed until the next turn of the loop. NULL: unknown id. */
typedef struct csn_box_facts {
    const char *id, *org_id, *user, *work_dir, *home_dir, *snapshot, *region;
    const char *const
        *env; /* "KEY=value", complete: DAYTONA_… and the create-time variables; NULL at the end */
    int64_t memory_bytes, cpu_milli, disk_bytes;
} csn_box_facts;
const csn_box_facts *csn_boxes_facts(csn_boxes *boxes, const char *id);

/* POST /env: changes the environment of commands started later. Entries "KEY=value" set, "KEY" unset. 0 or CSN_E_…. */
int csn_boxes_set_env(csn_boxes *boxes, const char *id, const char *const *changes, csn_error *err);

/* Called when a sandbox leaves the state `started` for whatever reason: sessions and contexts are dropped. */
typedef void csn_boxes_ended_fn(const char *id, void *user);
void csn_boxes_on_ended(csn_boxes *boxes, csn_boxes_ended_fn *fn, void *user);

#endif
