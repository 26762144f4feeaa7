/* SPDX-License-Identifier: Apache-2.0 */
/* SQLite for the files of this room: prepared statements by their text, values by a format. */
#ifndef CSN_STORE_DB_H
#define CSN_STORE_DB_H

#include <sqlite3.h>
#include <stddef.h>

#include "store/store.h"

enum { CSN_DB_STATEMENTS_MAX = 128 };

struct csn_store {
    sqlite3 *db;
    int version;
    bool is_in_transaction;
    int file_fd, wal_fd; /* what reserve.c holds room with; -1: not open */
    size_t n_statements;
    struct {
        const char *sql; /* a literal: compared by address */
        sqlite3_stmt *stmt;
    } statements[CSN_DB_STATEMENTS_MAX];
};

/* reserve.c: SQLite has closed and emptied its log. */
void csn_store_keep_room(csn_store *store);

/* The statement, reset and bound. Format letters: t text (NULL: NULL), i int64_t, o int64_t that is NULL when 0,
 * h 32 bytes. NULL and *err on failure. */
sqlite3_stmt *csn_db_bind(csn_store *store, csn_error *err, const char *sql, const char *format,
                          ...);

/* One step: 1 a row, 0 done (the statement is reset), or CSN_E_… */
int csn_db_step(csn_store *store, sqlite3_stmt *stmt, csn_error *err);

/* Bind and run to the end. CSN_OK, CSN_E_EXISTS for a broken uniqueness, CSN_E_… */
int csn_db_run(csn_store *store, csn_error *err, const char *sql, const char *format, ...);

/* How many rows the last csn_db_run changed. */
int csn_db_changes(const csn_store *store);

/* The first two columns of the one row of a statement that csn_db_bind() gave (NULL: its failure). */
int csn_db_two(csn_store *store, sqlite3_stmt *stmt, int64_t *ret_a, int64_t *ret_b,
               csn_error *err);

/* A column as an owned copy; NULL for NULL. *error becomes -ENOMEM. */
char *csn_db_text(sqlite3_stmt *stmt, int column, int *error);
/* As above into an array; what does not fit is an error (-EBADMSG). */
void csn_db_copy(sqlite3_stmt *stmt, int column, char *out, size_t size, int *error);

#endif
