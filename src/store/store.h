/* SPDX-License-Identifier: Apache-2.0 */
/* What the server was told to remember: one SQLite file, one source file per table.
 *
 * Theory of operation. One connection, one thread. WAL with synchronous=FULL: when a writing function returns CSN_OK, or
 * csn_store_commit() after several of them, a power cut loses nothing of it. Statements are prepared once and kept.
 * Rows are plain structs whose strings the reader owns. Migrations are the files of schema/, in order, each in one
 * transaction with its PRAGMA user_version; a database from a newer program is refused. */
#ifndef CSN_STORE_STORE_H
#define CSN_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include <caisson/error.h>

typedef struct csn_store csn_store;

/* Opens or makes the file (mode 0600). Errors: CSN_E_SYSTEM, CSN_E_UNSUPPORTED (newer schema). */
int csn_store_open(const char *path, csn_store **ret_store, csn_error *err);
csn_store *csn_store_free(csn_store *store); /* NULL is fine; always NULL */
void csn_store_auto(csn_store **store);
/* How long a change waits for another process that is writing [5000], before it fails with CSN_E_BUSY and EAGAIN. */
void csn_store_set_patience(csn_store *store, int ms);
/* Takes the room ahead that a few hundred changes need, so that they can be written when the disk is full. Opening does it; called
 * again it takes what was used up meanwhile. Where the file system can't, or has no room, there is less of it. */
void csn_store_reserve(csn_store *store);

/* Several changes as one: all or nothing, one sync. They don't nest. */
int csn_store_begin(csn_store *store, csn_error *err);
int csn_store_commit(csn_store *store, csn_error *err);
void csn_store_rollback(csn_store *store);

int csn_store_version(const csn_store *store); /* of the schema */

#endif
