/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of sessions, for a server that is started again while their sandboxes run. They must outlive the server, not
 * the machine, and so are written without waiting for the disk. */
#ifndef CSN_STORE_SESSIONS_H
#define CSN_STORE_SESSIONS_H

#include "store/store.h"

int csn_store_session_insert(csn_store *store, const char *box_id, const char *id, const char *mark,
                             csn_error *err);
int csn_store_session_remove(csn_store *store, const char *box_id, const char *id, csn_error *err);

typedef void csn_session_row_fn(const char *id, const char *mark, void *user);
int csn_store_session_each(csn_store *store, const char *box_id, csn_session_row_fn *fn, void *user,
                           csn_error *err);
/* Sandboxes that have any. */
typedef void csn_session_box_fn(const char *box_id, void *user);
int csn_store_session_boxes(csn_store *store, csn_session_box_fn *fn, void *user, csn_error *err);

typedef struct csn_session_command_row {
    const char *id, *text, *nonce; /* borrowed */
    bool is_async, no_echo, has_ended;
    int told, exit_code;
} csn_session_command_row;

int csn_store_session_command_insert(csn_store *store, const char *box_id, const char *session_id,
                                     const csn_session_command_row *row, csn_error *err);
int csn_store_session_command_told(csn_store *store, const char *id, int told, csn_error *err);
int csn_store_session_command_ended(csn_store *store, const char *id, int exit_code,
                                    csn_error *err);
int csn_store_session_command_remove(csn_store *store, const char *id, csn_error *err);
/* Oldest first. */
typedef void csn_session_command_row_fn(const csn_session_command_row *row, void *user);
int csn_store_session_command_each(csn_store *store, const char *box_id, const char *session_id,
                                   csn_session_command_row_fn *fn, void *user, csn_error *err);

int csn_store_session_echo_insert(csn_store *store, const char *command_id, int64_t at,
                                  const char *data, csn_error *err);
typedef void csn_session_echo_row_fn(int64_t at, const char *data, void *user);
int csn_store_session_echo_each(csn_store *store, const char *command_id,
                                csn_session_echo_row_fn *fn, void *user, csn_error *err);

/* kind: "pty", "context"; number: of its command in the sandbox. Being there already is fine. */
int csn_store_session_other_insert(csn_store *store, const char *box_id, const char *kind,
                                   const char *id, uint32_t number, csn_error *err);
int csn_store_session_other_remove(csn_store *store, const char *box_id, const char *kind,
                                   const char *id, csn_error *err);
typedef void csn_session_other_fn(const char *box_id, const char *kind, const char *id,
                                  uint32_t number, void *user);
int csn_store_session_other_each(csn_store *store, csn_session_other_fn *fn, void *user,
                                 csn_error *err);

#endif
