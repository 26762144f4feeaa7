/* SPDX-License-Identifier: Apache-2.0 */
/* What the server asks of the process that holds the engine. Every call is started here and ends in `done`, once, from
 * the loop. Sandboxes are known by the UUID the server gave them: it is their name in the engine. */
#ifndef CSN_SERVER_WARDEN_H
#define CSN_SERVER_WARDEN_H

#include <caisson/receipt.h>
#include <caisson/sandbox.h>

#include "server/server.h"

typedef struct csn_box_mount {
    char volume[65]; /* the engine's name of the volume: its UUID */
    char path[1024];
    char subpath[256];
    bool is_read_only;
} csn_box_mount;

enum { CSN_BOX_MOUNTS_MAX = 16 };

typedef struct csn_box_spec {
    char id[37];    /* UUID; the name in the engine */
    char image[65]; /* "host" or a name */
    char user[33];
    bool has_network;
    bool is_ephemeral;                                 /* files in memory, gone when it stops */
    int64_t memory_bytes, cpu_milli, disk_bytes, pids; /* 0: the engine's default */
    size_t n_mounts;
    csn_box_mount mounts[CSN_BOX_MOUNTS_MAX];
} csn_box_spec;

typedef struct csn_box_seen {
    char id[37]; /* the engine's name */
    csn_state state;
} csn_box_seen;

typedef void csn_warden_done_fn(int result, const csn_error *err, void *user);
typedef void csn_warden_fd_fn(int fd, int result, const csn_error *err,
                              void *user); /* fd is yours */

int csn_warden_create(csn_warden *w, const csn_box_spec *spec, csn_warden_done_fn *done,
                      void *user);
int csn_warden_start(csn_warden *w, const char *id, csn_warden_done_fn *done, void *user);
int csn_warden_stop(csn_warden *w, const char *id, int grace_ms, csn_warden_done_fn *done,
                    void *user);
int csn_warden_delete(csn_warden *w, const char *id, csn_warden_done_fn *done, void *user);
int csn_warden_fork(csn_warden *w, const char *id, const char *new_id, csn_warden_done_fn *done,
                    void *user);
int csn_warden_snapshot(csn_warden *w, const char *id, const char *image, csn_warden_done_fn *done,
                        void *user);
/* New limits; 0 leaves one as it is. CSN_E_STATE: the disk of a started one. */
int csn_warden_resize(csn_warden *w, const char *id, int64_t memory_bytes, int64_t cpu_milli,
                      int64_t disk_bytes, csn_warden_done_fn *done, void *user);
/* A connection to a started sandbox's keeper, for csn_sandbox_borrow(). */
int csn_warden_lend(csn_warden *w, const char *id, csn_warden_fd_fn *done, void *user);
/* seen: once per sandbox the engine knows, before done. */
typedef void csn_warden_seen_fn(const csn_box_seen *box, void *user);
int csn_warden_list(csn_warden *w, csn_warden_seen_fn *seen, csn_warden_done_fn *done, void *user);

int csn_warden_volume_create(csn_warden *w, const char *name, csn_warden_done_fn *done, void *user);
int csn_warden_volume_delete(csn_warden *w, const char *name, csn_warden_done_fn *done, void *user);
typedef void csn_warden_name_fn(const char *name, int64_t size_bytes, void *user);
/* seen: once, with what lies in it, before done. */
int csn_warden_volume_size(csn_warden *w, const char *name, csn_warden_name_fn *seen,
                           csn_warden_done_fn *done, void *user);
int csn_warden_images(csn_warden *w, csn_warden_name_fn *seen, csn_warden_done_fn *done,
                      void *user);
int csn_warden_image_delete(csn_warden *w, const char *name, csn_warden_done_fn *done, void *user);

/* For whoever waits, when one of the above returned `r` below 0: no fault of the request, and where the warden is gone or
 * busy one that passes (503). Returns the error's code. */
int csn_warden_cannot(int r, csn_error *ret_err);

/* Takes one end of the socket pair; `on_lost` when the warden is gone (the server ends then). */
int csn_warden_open(csn_loop *loop, int fd, void (*on_lost)(void *user), void *user,
                    csn_warden **ret);
/* The warden was told to end (SIGTERM): end gracefully, within 7 s. `user` is the one given to csn_warden_open(). */
void csn_warden_on_quit(csn_warden *w, void (*on_quit)(void *user));
/* From now on requests are answered: a front that ends before has said itself why. */
int csn_warden_ready(csn_warden *w, csn_warden_done_fn *done, void *user);
/* Descriptors that were only kept for a lend that may follow. */
void csn_warden_drop_spare_fds(csn_warden *w);
/* Calls under way end in CSN_E_LOST. NULL is fine; always NULL. */
csn_warden *csn_warden_free(csn_warden *w);

#endif
