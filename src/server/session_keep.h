/* SPDX-License-Identifier: Apache-2.0 */
/* What of the toolbox outlives this server: sessions are written down as they change and found again after a start;
 * terminals and contexts, which end with the server, are written down so that whoever asks for one is told. */
#ifndef CSN_SERVER_SESSION_KEEP_H
#define CSN_SERVER_SESSION_KEEP_H

#include "server/toolbox.h"

/* From now on the database knows it. */
void csn_session_keep(csn_bench *bench, csn_session *session);

typedef struct csn_keep csn_keep;

/* Reads which sandboxes have any. */
int csn_keep_open(csn_toolbox *toolbox, csn_server *server, csn_keep **ret, csn_error *err);
csn_keep *csn_keep_free(csn_keep *keep); /* NULL is fine; always NULL */
/* Begins to find them all, without anyone asking. */
void csn_keep_restore_all(csn_keep *keep);

/* Must this started sandbox's sessions be found first? Then done, once they are or can't be. */
typedef void csn_keep_done_fn(void *user);
bool csn_keep_await(csn_keep *keep, const char *box_id, csn_keep_done_fn *done, void *user);
void csn_keep_box_ended(csn_keep *keep, const char *box_id);

/* kind: "pty", "context". */
void csn_keep_other(csn_keep *keep, const char *box_id, const char *kind, const char *id,
                    uint32_t number);
void csn_keep_other_gone(csn_keep *keep, const char *box_id, const char *kind, const char *id);
/* Did it end with an earlier server? */
bool csn_keep_is_lost(const csn_keep *keep, const char *box_id, const char *kind, const char *id);

#endif
