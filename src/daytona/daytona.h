/* SPDX-License-Identifier: Apache-2.0 */
/* The backend of a service elsewhere that speaks Daytona's API: what its files share. */
#ifndef CSN_DAYTONA_H
#define CSN_DAYTONA_H

#include "base/buf.h"
#include "base/list.h"
#include "core/backend.h"
#include "webline.h"

typedef struct csn_daytona {
    csn_backend base;
    char *url;    /* of the API, without a '/' at its end */
    char *target; /* NULL: none */
    char *secret; /* what must not be shown */
    csn_webline line;
    csn_list boxes;
    csn_list creations;
    csn_list calls;
    bool is_closing;
    char machine[33], boot[40], program[48]; /* labels: whose sandboxes these are */
} csn_daytona;

typedef struct csn_daytona_box {
    csn_box base;
    csn_list link;  /* in csn_daytona.boxes */
    char *toolbox;  /* URL of this sandbox's own verbs */
    uint32_t last;  /* its request for the end; 0: none */
    csn_list files; /* puts and gets under way */
    uint32_t n_execs;
} csn_daytona_box;

static inline csn_daytona *csn_daytona_of(csn_backend *backend)
{
    return csn_container_of(backend, csn_daytona, base);
}

static inline csn_daytona_box *csn_daytona_box_of(csn_box *box)
{
    return csn_container_of(box, csn_daytona_box, base);
}

enum { /* time limits, ms */
       CSN_DAYTONA_ASK_MS = 30 * 1000,
       CSN_DAYTONA_CREATE_MS = 60 * 1000,
       CSN_DAYTONA_DELETE_MS = 60 * 1000,
       CSN_DAYTONA_FILE_MS = 30 * 60 * 1000,
       CSN_DAYTONA_EXEC_GRACE_MS = 15 * 1000, /* on top of the command's own limit */
       CSN_DAYTONA_EXEC_MS = 24 * 3600 * 1000
};

/* "the remote backend can't … yet" */
int csn_daytona_cannot(csn_error *err, const char *what);

/* box.c */
csn_daytona_box *csn_daytona_box_new(csn_daytona *d, csn_error *err); /* one reference */
void csn_daytona_box_free(csn_box *box);
int csn_daytona_box_check(csn_box *box, csn_error *err); /* CSN_E_STATE: its engine was closed */
/* Where the service has its verbs about it; 0 or -errno. */
int csn_daytona_box_url(csn_buf *out, const csn_daytona *d, const char *id_or_name);
int csn_daytona_delete(csn_box *box, csn_op *op, csn_error *err); /* op may be NULL */

/* create.c */
int csn_daytona_create(csn_backend *backend, csn_wish *wish, csn_op *op, csn_error *err);
void csn_daytona_end_creations(csn_daytona *d);
/* look.c */
int csn_daytona_find(csn_backend *backend, const char *key, csn_op *op, csn_error *err);
int csn_daytona_list(csn_backend *backend, csn_sandbox_list_fn fn, void *user, csn_op *op,
                     csn_error *err);
int csn_daytona_refresh(csn_box *box, csn_op *op, csn_error *err);
int csn_daytona_gc(csn_backend *backend, csn_op *op, csn_error *err);
/* What a service does not tell. */
void csn_daytona_facts(csn_receipt *receipt);

/* exec.c */
int csn_daytona_exec(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events,
                     void *user, csn_exec **ret_exec, csn_error *err);
csn_exec *csn_daytona_exec_free(csn_exec *exec);
/* A command line that a shell takes apart into exactly these words; stdin at its end. */
int csn_shell_command(csn_buf *out, const char *const *argv);

/* file.c */
int csn_daytona_put(csn_box *box, const csn_put_call *call, csn_op *op, csn_error *err);
int csn_daytona_get(csn_box *box, const csn_get_call *call, csn_op *op, csn_error *err);

/* labels.c */
void csn_daytona_whose(csn_daytona *d);
struct csn_dto;
/* Made by a program of this machine that is no more, and not to live on without it. */
bool csn_daytona_is_left(const csn_daytona *d, const struct csn_dto *dto);

#endif
