/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "store/db.h"
#include "store/schema_001.h"
#include "store/schema_002.h"
#include "store/schema_003.h"
#include "store/schema_004.h"
#include "store/schema_005.h"
#include "store/schema_006.h"
#include "store/schema_007.h"

static const struct {
    const unsigned char *sql; /* ends with a NUL, see tools/embed.c */
} migrations[] = {
    { csn_schema_001 }, { csn_schema_002 }, { csn_schema_003 },
    { csn_schema_004 }, { csn_schema_005 }, { csn_schema_006 }, { csn_schema_007 },
};

static int run_text(csn_store *store, const char *sql, csn_error *err)
{
    if (sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return CSN_OK;
    return csn_fail(err, CSN_E_SYSTEM, "database: %s", sqlite3_errmsg(store->db));
}

static int read_version(csn_store *store, csn_error *err)
{
    sqlite3_stmt *stmt = csn_db_bind(store, err, "PRAGMA user_version", "");

    if (!stmt)
        return CSN_E_SYSTEM;
    int r = csn_db_step(store, stmt, err);
    if (r < 0)
        return r;
    store->version = sqlite3_column_int(stmt, 0);
    (void) sqlite3_reset(stmt); /* it only ends the read */
    return CSN_OK;
}

static int migrate_one(csn_store *store, size_t i, csn_error *err)
{
    char pragma[48];

    int r = csn_store_begin(store, err);
    if (r < 0)
        return r;
    (void) snprintf(pragma, sizeof(pragma), "PRAGMA user_version = %zu", i + 1);
    r = run_text(store, (const char *) migrations[i].sql, err);
    if (r == CSN_OK)
        r = run_text(store, pragma, err);
    if (r == CSN_OK)
        r = csn_store_commit(store, err);
    if (r < 0) {
        csn_store_rollback(store);
        return csn_fail_in(err, r, "bring the database to version %zu", i + 1);
    }
    store->version = (int) i + 1;
    return CSN_OK;
}

static int migrate(csn_store *store, csn_error *err)
{
    int r = read_version(store, err);

    if (r < 0)
        return r;
    if (store->version < 0 || (size_t) store->version > CSN_COUNT(migrations))
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "the database has version %d, this program knows up to %zu", store->version,
                        CSN_COUNT(migrations));
    for (size_t i = (size_t) store->version; i < CSN_COUNT(migrations); i++) {
        r = migrate_one(store, i, err);
        if (r < 0)
            return r;
    }
    return CSN_OK;
}

/* SQLite would make the file with the umask's mode; it and its WAL take over the mode of what is there. */
static int make_private(const char *path, int *ret_fd, csn_error *err)
{
    struct stat st;
    csn_auto(fd) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

    if (fd < 0)
        return csn_fail_sys(err, -errno, "open '%s'", path);
    if (fstat(fd, &st) < 0)
        return csn_fail_sys(err, -errno, "look at '%s'", path);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
        return csn_fail(err, CSN_E_DENIED,
                        "'%s' must be a file of this user that nobody else can open (chmod 600)",
                        path);
    *ret_fd = csn_take_fd(&fd);
    return CSN_OK;
}

/* Every page and every row can be read and fits its table. */
static int check_whole(csn_store *store, csn_error *err)
{
    sqlite3_stmt *stmt = csn_db_bind(store, err, "PRAGMA quick_check(1)", "");
    int r = stmt ? csn_db_step(store, stmt, err) : CSN_E_SYSTEM;

    if (r < 0)
        return r;
    const char *said = r == 1 ? (const char *) sqlite3_column_text(stmt, 0) : NULL;
    r = csn_streq(said ? said : "", "ok")
            ? CSN_OK
            : csn_fail(err, CSN_E_SYSTEM, "database: %s", said ? said : "no answer");
    (void) sqlite3_reset(stmt); /* it only ends the read */
    return r;
}

static int set_up(csn_store *store, csn_error *err)
{
    /* Closing checkpoints; a crash leaves the WAL to the next open. */
    static const char pragmas[] = "PRAGMA busy_timeout = 5000;"
                                  "PRAGMA journal_mode = WAL;"
                                  "PRAGMA synchronous = FULL;"
                                  "PRAGMA foreign_keys = ON;"
                                  "PRAGMA trusted_schema = OFF;"
                                  "PRAGMA cell_size_check = ON;"
                                  "PRAGMA journal_size_limit = 4194304;";

    int persist = 1;

    (void) sqlite3_extended_result_codes(store->db, 1); /* fails for no database only */
    /* Against SQL in a tampered file: no code in the schema, no double-quoted strings. */
    (void) sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void) sqlite3_db_config(store->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    (void) sqlite3_db_config(store->db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
    /* The empty log stays when the last one closes, with the room it has: the next start may find a full disk. */
    (void) sqlite3_file_control(store->db, NULL, SQLITE_FCNTL_PERSIST_WAL, &persist);
    int r = run_text(store, pragmas, err);
    if (r == CSN_OK)
        r = check_whole(store, err);
    return r < 0 ? r : migrate(store, err);
}

static int keep_name(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
    (void) vfs;
    return snprintf(out, (size_t) size, "%s", name) < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

/* SQLite makes every name absolute and resolves its links. Ours is relative to a directory that is open to us while the
 * way to it may not be, so it is used as it is given. Everything else is the default. */
static const char *plain_files(void)
{
    static sqlite3_vfs plain;
    const sqlite3_vfs *usual = sqlite3_vfs_find(NULL);

    if (plain.zName || !usual)
        return plain.zName;
    plain = *usual;
    plain.pNext = NULL;
    plain.zName = "caisson";
    plain.xFullPathname = keep_name;
    return sqlite3_vfs_register(&plain, 0) == SQLITE_OK ? plain.zName : NULL;
}

static int open_file(csn_store *store, const char *path, csn_error *err)
{
    if (sqlite3_open_v2(path, &store->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
                        plain_files()) != SQLITE_OK)
        return csn_fail(err, CSN_E_SYSTEM, "open the database '%s': %s", path,
                        store->db ? sqlite3_errmsg(store->db) : "out of memory");
    int r = set_up(store, err);
    int kind = sqlite3_errcode(store->db) & 0xff;
    if (r == CSN_E_SYSTEM && (kind == SQLITE_OK || kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB))
        return csn_fail_in(err, r, "'%s' is damaged: put a copy of it in its place", path);
    return r < 0 ? csn_fail_in(err, r, "open '%s'", path) : CSN_OK;
}

int csn_store_open(const char *path, csn_store **ret_store, csn_error *err)
{
    csn_auto(fd) int fd = -1;
    int r = make_private(path, &fd, err);

    if (r < 0)
        return r;
    csn_store *store = calloc(1, sizeof(*store));
    if (!store)
        return csn_fail(err, CSN_E_NO_MEMORY, "open the database");
    store->file_fd = csn_take_fd(&fd);
    store->wal_fd = -1;
    r = open_file(store, path, err);
    if (r < 0) {
        (void) csn_store_free(store);
        return r;
    }
    csn_store_reserve(store);
    *ret_store = store;
    return CSN_OK;
}

csn_store *csn_store_free(csn_store *store)
{
    if (!store)
        return NULL;
    for (size_t i = 0; i < store->n_statements; i++)
        (void) sqlite3_finalize(store->statements[i].stmt); /* repeats an error already told */
    (void) sqlite3_close(store->db); /* every statement is finalized: it can't refuse */
    csn_store_keep_room(store);
    csn_close(&store->wal_fd);
    csn_close(&store->file_fd); /* after SQLite let go of its locks */
    free(store);
    return NULL;
}

void csn_store_auto(csn_store **store)
{
    int saved = errno;

    *store = csn_store_free(*store);
    errno = saved;
}

void csn_store_set_patience(csn_store *store, int ms)
{
    (void) sqlite3_busy_timeout(store->db, ms); /* fails for no database only */
}

int csn_store_begin(csn_store *store, csn_error *err)
{
    if (store->is_in_transaction)
        return csn_fail(err, CSN_E_STATE, "database: a transaction is open");
    int r = csn_db_run(store, err, "BEGIN IMMEDIATE", "");
    store->is_in_transaction = r == CSN_OK;
    return r;
}

int csn_store_commit(csn_store *store, csn_error *err)
{
    int r = csn_db_run(store, err, "COMMIT", "");

    if (r == CSN_OK)
        store->is_in_transaction = false;
    else
        csn_store_rollback(store);
    return r;
}

void csn_store_rollback(csn_store *store)
{
    if (store->is_in_transaction && !sqlite3_get_autocommit(store->db))
        (void) csn_db_run(store, NULL, "ROLLBACK", ""); /* the file knows nothing of it anyway */
    store->is_in_transaction = false;
}

int csn_store_version(const csn_store *store)
{
    return store->version;
}
