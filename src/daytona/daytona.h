/* SPDX-License-Identifier: Apache-2.0 */
/* The backend of a service elsewhere that speaks Daytona's API: what its files share. */
#ifndef CSN_DAYTONA_H
#define CSN_DAYTONA_H

#include "base/buf.h"
#include "base/list.h"
#include "core/backend.h"
#include "webline.h"

/* Whose a sandbox is, as its labels say. "": not said. */
typedef struct csn_whose {
    char machine[33], boot[40];
    char program[48]; /* not of one that lives on without it */
} csn_whose;

typedef struct csn_daytona {
    csn_backend base;
    char *url;    /* of the API, without a '/' at its end */
    char *target; /* NULL: none */
    char *secret; /* what must not be shown */
    csn_webline line;
    csn_list boxes;
    csn_list creations;
    csn_list calls;
    csn_list verbs; /* csn_api_verb.link */
    csn_list execs; /* commands under way, by sessions */
    bool is_closing;
    csn_whose whose; /* what this program makes */
} csn_daytona;

typedef struct csn_daytona_box {
    csn_box base;
    csn_list link; /* in csn_daytona.boxes */
    char *toolbox; /* URL of this sandbox's own verbs */
    uint32_t last; /* its request for the end; 0: none */
    csn_whose whose;
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
       CSN_DAYTONA_SNAPSHOT_MS = 10 * 60 * 1000,
       CSN_DAYTONA_FILE_MS = 30 * 60 * 1000,
       CSN_DAYTONA_EXEC_GRACE_MS = 15 * 1000, /* on top of the command's own limit */
       CSN_DAYTONA_EXEC_MS = 24 * 3600 * 1000
};

/* Of one that names none: nobody uses it, so it stops. The service counts whole minutes. */
enum { CSN_DAYTONA_STOP_MIN = 15, CSN_DAYTONA_MINUTE_MS = 60 * 1000 };
static inline int64_t csn_daytona_minutes(int64_t ms)
{
    return ms / CSN_DAYTONA_MINUTE_MS + (ms % CSN_DAYTONA_MINUTE_MS > 0);
}

/* "the remote backend can't … yet" */
int csn_daytona_cannot(csn_error *err, const char *what);

/* box.c */
csn_daytona_box *csn_daytona_box_new(csn_daytona *d, csn_error *err); /* one reference */
void csn_daytona_box_free(csn_box *box);
int csn_daytona_box_check(csn_box *box, csn_error *err); /* CSN_E_STATE: its engine was closed */
void csn_daytona_box_gone(csn_daytona_box *box); /* deleted: nothing is left to do at the end */
/* Where the service has its verbs about it; 0 or -errno. */
int csn_daytona_box_url(csn_buf *out, const csn_daytona *d, const char *id_or_name);
int csn_daytona_delete(csn_box *box, csn_op *op, csn_error *err); /* op may be NULL */

/* create.c */
int csn_daytona_create(csn_backend *backend, csn_wish *wish, csn_op *op, csn_error *err);
int csn_daytona_fork(csn_box *box, csn_wish *own, csn_op *op, csn_error *err);
void csn_daytona_end_creations(csn_daytona *d);
/* look.c */
int csn_daytona_find(csn_backend *backend, const char *key, csn_op *op, csn_error *err);
int csn_daytona_list(csn_backend *backend, csn_sandbox_list_fn fn, void *user, csn_op *op,
                     csn_error *err);
int csn_daytona_refresh(csn_box *box, csn_op *op, csn_error *err);
struct csn_dto;
struct csn_json;
/* What the service tells of it now. */
int csn_daytona_box_renew(csn_box *box, const struct csn_dto *dto, csn_error *err);
/* The same out of an answer, which must be about this one; *ret_doc holds the strings. */
int csn_daytona_box_read(csn_box *box, const csn_web_answer *answer, struct csn_json **ret_doc,
                         struct csn_dto *ret, csn_error *err);
int csn_daytona_gc(csn_backend *backend, csn_op *op, csn_error *err);
/* What a service does not tell. */
void csn_daytona_facts(csn_receipt *receipt);

/* life.c */
int csn_daytona_start(csn_box *box, csn_op *op, csn_error *err);
int csn_daytona_stop(csn_box *box, int grace_ms, csn_op *op, csn_error *err);
int csn_daytona_snapshot(csn_box *box, const char *image, csn_op *op, csn_error *err);

/* settings.c */
int csn_daytona_set_labels(csn_box *box, const char *const *labels, csn_op *op, csn_error *err);
int csn_daytona_set_timers(csn_box *box, int64_t ttl_ms, int64_t idle_stop_ms, csn_op *op,
                           csn_error *err);
int csn_daytona_resize(csn_box *box, int64_t memory_bytes, int64_t cpu_milli, int64_t disk_bytes,
                       csn_op *op, csn_error *err);
int csn_daytona_stat(csn_box *box, csn_op *op, csn_error *err);

/* file.c */
int csn_daytona_put(csn_box *box, const csn_put_call *call, csn_op *op, csn_error *err);
int csn_daytona_get(csn_box *box, const csn_get_call *call, csn_op *op, csn_error *err);

/* files.c */
int csn_daytona_file(csn_box *box, const csn_file_call *call, csn_op *op, csn_error *err);

/* labels.c */
void csn_daytona_whose(csn_daytona *d);
struct csn_jw;
void csn_whose_read(const struct csn_dto *dto, csn_whose *ret);
/* One of the keys that say it. */
bool csn_is_whose_key(const char *key);
/* "key=value", NULL at the end, as members of an object. */
void csn_write_pairs(struct csn_jw *w, char *const *list);
/* An object: the caller's labels, and whose it is. */
void csn_write_labels(struct csn_jw *w, char *const *labels, const csn_whose *whose);
/* Made by a program of this machine that is no more, and not to live on without it. */
bool csn_daytona_is_left(const csn_daytona *d, const struct csn_dto *dto);

#endif
