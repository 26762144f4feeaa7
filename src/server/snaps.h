/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox can be made from: snapshots of an organisation (in the store), general ones (the engine's images under
 * their names, and the host's under a few), and image references that an operator registered. */
#ifndef CSN_SERVER_SNAPS_H
#define CSN_SERVER_SNAPS_H

#include "server/cell.h"
#include "shape/volume.h"
#include "store/snapshots.h"

typedef struct csn_snap {
    char id[37]; /* of a general one: made from its name, always the same */
    char name[129];
    char image[65]; /* the engine's name */
    bool is_general;
    int64_t cpu_milli, memory_bytes, disk_bytes, size_bytes;
} csn_snap;

/* By id or name; NULL: the default. CSN_OK; CSN_E_NOT_FOUND (perhaps the engine has a new image: look again);
 * CSN_E_STATE: not active. Its variables are added to `env` (may be NULL) unless it has them. */
int csn_snap_find(csn_server *server, const char *org_id, const char *id_or_name, csn_snap *ret,
                  csn_map *env, csn_error *err);

/* The i-th general one. False: no more. */
bool csn_snap_general(csn_server *server, size_t i, csn_snap *ret);
/* As find, among the general ones only. */
bool csn_snap_general_find(csn_server *server, const char *id_or_name, csn_snap *ret);

/* The engine's image for a reference such as "python:3.12-slim". CSN_E_NOT_FOUND says how to register one. `env` as
 * above, when the reference is a snapshot's. */
int csn_snap_image(csn_server *server, const char *org_id, const char *ref, char ret_image[65],
                   csn_map *env, csn_error *err);

/* What an image that an organisation made takes, as of the last look; 0 for the others: they are not its own. */
int64_t csn_snap_size(const csn_server *server, const char *image);

/* Deletes the image of a snapshot that an organisation made, unless a row still names it. */
void csn_snap_drop_image(csn_server *server, const char *image);
/* The same for all of them: what a kill between an image and its row left. */
void csn_snap_drop_strays(csn_server *server);

void csn_snap_shape(const csn_server *server, const csn_snap *snap, csn_shape_snapshot *ret);
void csn_snap_row_shape(const csn_server *server, const csn_snapshot_row *row,
                        csn_shape_snapshot *ret);

#endif
