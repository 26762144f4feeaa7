/* SPDX-License-Identifier: Apache-2.0 */
/* What the toolbox remembers of live sandboxes: sessions, interpreter contexts, terminals. It all ends with the sandbox;
 * contexts and terminals with this server, too (docs/design/0007). */
#ifndef CSN_SERVER_TOOLBOX_H
#define CSN_SERVER_TOOLBOX_H

#include "server/boxes.h"
#include "server/context.h"
#include "server/req.h"
#include "server/session.h"
#include "server/version.h"

enum { CSN_TOOLBOX_SESSIONS_MAX = 64, CSN_TOOLBOX_CONTEXTS_MAX = 32, CSN_TOOLBOX_PTYS_MAX = 32 };

typedef struct csn_bench { /* of one sandbox */
    csn_list link;
    csn_server *server;
    char id[37];
    csn_box_hold *hold;
    csn_sandbox *box; /* borrowed, valid while held */
    csn_list sessions, contexts, ptys;
    size_t n_contexts;
    int64_t cpu_us, cpu_at_ns;    /* the last look, for a share of time */
    csn_context *default_context; /* NULL until first used; not in the list */
    bool is_default_kept;         /* written down: code ran in it */
} csn_bench;

int csn_toolbox_new(csn_server *server, csn_toolbox **ret, csn_error *err);
csn_toolbox *csn_toolbox_free(csn_toolbox *toolbox); /* NULL is fine; always NULL */
int csn_toolbox_log_dir(const csn_toolbox *toolbox); /* a descriptor, borrowed */

/* The bench of the request's sandbox; NULL: nothing was ever put there (may_make: no memory, a 500 was answered). */
csn_bench *csn_req_bench(csn_req *req, bool may_make);

/* A new one, with a hold of its own on the same line. NULL: no memory, or there is one. */
csn_bench *csn_toolbox_make_bench(csn_toolbox *toolbox, const char *id, csn_box_hold *hold);
/* session_keep.h: what outlives this server. */
struct csn_keep *csn_toolbox_keep(const csn_toolbox *toolbox);

/* The bench of a sandbox whose handle was `box` when it was asked for; NULL: it has ended since. */
csn_bench *csn_toolbox_bench(csn_toolbox *toolbox, const char *id, const csn_sandbox *box);

/* The sandbox's environment with the members of `envs` (may be NULL) on top; csn_envs_free() it. NULL: a 400 or 500 was
 * answered. */
char **csn_req_env(csn_req *req, const csn_json *envs);

/* `cwd` made absolute against the work dir; NULL or "": the work dir. 0 or -errno. */
int csn_req_cwd(csn_req *req, const char *cwd, csn_buf *out);

/* By the version header, or by the token of a WebSocket's offer. */
csn_log_style csn_req_log_style(const csn_req *req);

/* Whether a client decodes strictly and must not see fields of our own (Go before 0.188). */
bool csn_req_is_strict(const csn_req *req);

/* "2026-01-01T00:00:00.000Z" as a member. */
void csn_jw_ktime(csn_jw *w, const char *key, int64_t wall_ms);

#endif
