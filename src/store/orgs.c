/* SPDX-License-Identifier: Apache-2.0 */
#include "store/orgs.h"

#include "base/err.h"
#include "store/db.h"

int csn_store_org_insert(csn_store *store, const csn_org_row *row, csn_error *err)
{
    return csn_db_run(store, err, "INSERT INTO orgs (id, name, created_ms) VALUES (?1, ?2, ?3)",
                      "tti", row->id, row->name, row->created_ms);
}

static int read_row(sqlite3_stmt *s, csn_org_row *row, csn_error *err)
{
    int error = 0;

    *row = (csn_org_row){ 0 };
    csn_db_copy(s, 0, row->id, sizeof(row->id), &error);
    csn_db_copy(s, 1, row->name, sizeof(row->name), &error);
    row->created_ms = sqlite3_column_int64(s, 2);
    return error == 0 ? CSN_OK : csn_fail_sys(err, error, "read an organisation");
}

int csn_store_org_get(csn_store *store, const char *id_or_name, csn_org_row *ret_row,
                      csn_error *err)
{
    sqlite3_stmt *stmt = csn_db_bind(store, err,
                                     "SELECT id, name, created_ms FROM orgs WHERE id = ?1 OR "
                                     "name = ?1 ORDER BY id = ?1 DESC LIMIT 1",
                                     "t", id_or_name);

    if (!stmt)
        return CSN_E_SYSTEM;
    int r = csn_db_step(store, stmt, err);
    if (r < 0)
        return r;
    if (r == 0)
        return csn_fail(err, CSN_E_NOT_FOUND, "Organization %.100s not found", id_or_name);
    r = read_row(stmt, ret_row, err);
    (void) sqlite3_reset(stmt); /* only ends the read */
    return r;
}

int csn_store_org_each(csn_store *store, csn_org_row_fn *fn, void *user, csn_error *err)
{
    int r;
    sqlite3_stmt *stmt = csn_db_bind(
        store, err, "SELECT id, name, created_ms FROM orgs ORDER BY created_ms, id", "");

    if (!stmt)
        return CSN_E_SYSTEM;
    while ((r = csn_db_step(store, stmt, err)) == 1) {
        csn_org_row row;
        r = read_row(stmt, &row, err);
        if (r < 0) {
            (void) sqlite3_reset(stmt); /* only ends the read */
            return r;
        }
        fn(&row, user);
    }
    return r;
}
