/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/str.h"
#include "csn_test.h"
#include "store/db.h"
#include "store/keys.h"
#include "store/orgs.h"
#include "store/passes.h"
#include "store/sandboxes.h"
#include "store/sessions.h"
#include "store/snapshots.h"
#include "store/volumes.h"

static const char *path_of(const char *name)
{
    static char path[512];

    (void) snprintf(path, sizeof(path), "%s/%s", csn_test_dir(), name);
    return path;
}

static csn_store *open_store(void)
{
    csn_store *store = NULL;
    csn_error err = { 0 };

    if (csn_store_open(path_of("db"), &store, &err) < 0)
        FAIL("%s", err.message);
    return store;
}

static csn_store *store_with_orgs(void)
{
    csn_store *store = open_store();
    csn_org_row a = { .id = "org-a", .name = "a", .created_ms = 1 };
    csn_org_row b = { .id = "org-b", .name = "b", .created_ms = 2 };

    CHECK_INT(csn_store_org_insert(store, &a, NULL), CSN_OK);
    CHECK_INT(csn_store_org_insert(store, &b, NULL), CSN_OK);
    return store;
}

static csn_sandbox_row a_row(const char *id, const char *name)
{
    csn_sandbox_row row = { .org_id = "org-a", .state = "creating" };

    (void) snprintf(row.id, sizeof(row.id), "%s", id);
    row.name = name ? strdup(name) : NULL;
    row.image = strdup("host");
    row.user = strdup("daytona");
    row.target = strdup("local");
    row.env = strdup("{\"A\":\"1\"}");
    row.labels = strdup("{}");
    row.mounts = strdup("[]");
    row.auto_delete_min = -1;
    row.destroy_at_ms = 99;
    return row;
}

struct found {
    int n;
    csn_sandbox_row last;
};

static void find(csn_sandbox_row *row, void *user)
{
    struct found *f = user;

    f->n++;
    csn_sandbox_row_done(&f->last);
    f->last = *row;
    *row = (csn_sandbox_row){ 0 };
}

TEST(a_new_database_is_private_and_at_the_newest_version)
{
    csn_auto(store) csn_store *store = open_store();
    struct stat st;

    CHECK_INT(csn_store_version(store), 7);
    CHECK_INT(stat(path_of("db"), &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
}

TEST(a_database_others_can_read_is_refused)
{
    csn_store *store = csn_store_free(open_store());
    csn_error err = { 0 };

    CHECK_INT(chmod(path_of("db"), 0644), 0);
    CHECK_INT(csn_store_open(path_of("db"), &store, &err), CSN_E_DENIED);
}

TEST(a_database_of_a_newer_program_is_refused)
{
    csn_store *store = csn_store_free(open_store());
    csn_error err = { 0 };
    sqlite3 *db = NULL;

    CHECK_INT(sqlite3_open(path_of("db"), &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, "PRAGMA user_version = 77", NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
    CHECK_INT(csn_store_open(path_of("db"), &store, &err), CSN_E_UNSUPPORTED);
    CHECK(strstr(err.message, "version 77") != NULL);
}

static void change_byte(const char *path, long at, int with)
{
    FILE *f = fopen(path, "r+b");

    CHECK(f && fseek(f, at, SEEK_SET) == 0);
    int was = fgetc(f);
    CHECK(was != EOF && fseek(f, at, SEEK_SET) == 0 && fputc(was ^ with, f) != EOF);
    CHECK(fclose(f) == 0);
}

TEST(a_damaged_database_is_refused_by_name)
{
    const struct {
        long at;
        int with, n;
    } damages[] = { { 0, 1, 1 },
                    { 100, 0xff, 1 },
                    { 4096, 0xff, 1 },
                    { 4096 + 3, 0xff, 2 },
                    { 3 * 4096, 0xff, 64 } };

    for (size_t i = 0; i < CSN_COUNT(damages); i++) {
        csn_store *store = csn_store_free(store_with_orgs());
        csn_error err = { 0 };
        for (int k = 0; k < damages[i].n; k++)
            change_byte(path_of("db"), damages[i].at + k, damages[i].with);
        CHECK_INT(csn_store_open(path_of("db"), &store, &err), CSN_E_SYSTEM);
        if (!strstr(err.message, path_of("db")) || !strstr(err.message, "is damaged"))
            FAIL("%zu: it says '%s'", i, err.message);
        CHECK(unlink(path_of("db")) == 0);
    }
    csn_store *store = csn_store_free(store_with_orgs());
    csn_error err = { 0 };
    CHECK_INT(truncate(path_of("db"), 3 * 4096 + 100), 0);
    CHECK_INT(csn_store_open(path_of("db"), &store, &err), CSN_E_SYSTEM);
    CHECK(strstr(err.message, "is damaged") != NULL);
}

TEST(rows_come_back_as_they_were_written)
{
    csn_auto(store) csn_store *store = store_with_orgs();
    csn_sandbox_row row = a_row("box-1", "mine");
    struct found f = { 0 };

    row.is_public = true;
    row.cpu_milli = 1500;
    row.stopped_ms = 0;
    CHECK_INT(csn_store_sandbox_insert(store, &row, NULL), CSN_OK);
    CHECK_INT(csn_store_sandbox_each(store, find, &f, NULL), CSN_OK);
    CHECK_INT(f.n, 1);
    CHECK_STR(f.last.name, "mine");
    CHECK_STR(f.last.env, "{\"A\":\"1\"}");
    CHECK(f.last.is_public && !f.last.is_blocked);
    CHECK(f.last.snapshot == NULL);
    CHECK_INT(f.last.cpu_milli, 1500);
    CHECK_INT(f.last.auto_delete_min, -1);
    CHECK_INT(f.last.destroy_at_ms, 99);
    CHECK_INT(f.last.stopped_ms, 0);
    csn_sandbox_row_done(&f.last);
    csn_sandbox_row_done(&row);
}

static void find_pass(const csn_pass_row *row, void *user)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;

    csn_buf_printf(&line, "%s %u %d %lld;", row->token, row->port, row->is_signed,
                   (long long) row->expires_ms);
    csn_buf_puts(user, line.data);
}

static const char *passes_of(csn_store *store, csn_buf *out)
{
    csn_buf_clear(out);
    CHECK_INT(csn_store_pass_each(store, find_pass, out, NULL), CSN_OK);
    return out->data;
}

TEST(passes_end_with_their_time_their_sandbox_and_unsigned_ones_with_a_stop)
{
    csn_auto(store) csn_store *store = store_with_orgs();
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_sandbox_row row = a_row("box-1", "mine");
    csn_pass_row p = { .token = "p", .sandbox_id = "box-1", .port = 3000, .expires_ms = 100 };
    csn_pass_row s = {
        .token = "s", .sandbox_id = "box-1", .port = 8, .is_signed = true, .expires_ms = 50
    };

    CHECK(csn_store_pass_insert(store, &p, NULL) < 0); /* of no sandbox */
    CHECK_INT(csn_store_sandbox_insert(store, &row, NULL), CSN_OK);
    CHECK_INT(csn_store_pass_insert(store, &p, NULL), CSN_OK);
    CHECK_INT(csn_store_pass_insert(store, &s, NULL), CSN_OK);
    CHECK_STR(passes_of(store, &out), "p 3000 0 100;s 8 1 50;");
    CHECK_INT(csn_store_pass_renew(store, "p", 200, NULL), CSN_OK);
    CHECK_INT(csn_store_pass_expire(store, 49, NULL), CSN_OK);
    CHECK_STR(passes_of(store, &out), "p 3000 0 200;s 8 1 50;");
    (void) snprintf(row.state, sizeof(row.state), "started");
    CHECK_INT(csn_store_sandbox_update(store, &row, NULL), CSN_OK);
    CHECK_STR(passes_of(store, &out), "p 3000 0 200;s 8 1 50;");
    (void) snprintf(row.state, sizeof(row.state), "stopped");
    CHECK_INT(csn_store_sandbox_update(store, &row, NULL), CSN_OK);
    CHECK_STR(passes_of(store, &out), "s 8 1 50;");
    CHECK_INT(csn_store_pass_insert(store, &p, NULL), CSN_OK);
    CHECK_INT(csn_store_pass_expire(store, 50, NULL), CSN_OK);
    CHECK_STR(passes_of(store, &out), "p 3000 0 100;");
    CHECK_INT(csn_store_sandbox_remove(store, "box-1", NULL), CSN_OK);
    CHECK_STR(passes_of(store, &out), "");
    csn_sandbox_row_done(&row);
}

static void find_session(const char *id, const char *mark, void *user)
{
    csn_buf_printf(user, "%s=%s;", id, mark);
}

static void find_command(const csn_session_command_row *row, void *user)
{
    csn_buf_printf(user, "%s %s %s %d%d %d ", row->id, row->text, row->nonce, row->is_async,
                   row->no_echo, row->told);
    csn_buf_printf(user, row->has_ended ? "ended %d;" : "runs;", row->exit_code);
}

static void find_echo(int64_t at, const char *data, void *user)
{
    csn_buf_printf(user, "%lld:%s;", (long long) at, data);
}

static void find_other(const char *box_id, const char *kind, const char *id, uint32_t number,
                       void *user)
{
    csn_buf_printf(user, "%s %s %s %u;", box_id, kind, id, number);
}

TEST(sessions_come_back_in_order_and_end_with_the_run_of_their_sandbox)
{
    csn_auto(store) csn_store *store = store_with_orgs();
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_sandbox_row row = a_row("box-1", "mine");
    csn_session_command_row one = { .id = "c2", .text = "ls", .nonce = "n1", .is_async = true };
    csn_session_command_row two = { .id = "c1", .text = "pwd", .nonce = "n2", .no_echo = true };

    CHECK_INT(csn_store_sandbox_insert(store, &row, NULL), CSN_OK);
    CHECK_INT(csn_store_session_insert(store, "box-1", "s", "mark", NULL), CSN_OK);
    CHECK(csn_store_session_command_insert(store, "box-1", "other", &one, NULL) < 0);
    CHECK_INT(csn_store_session_command_insert(store, "box-1", "s", &one, NULL), CSN_OK);
    CHECK_INT(csn_store_session_command_insert(store, "box-1", "s", &two, NULL), CSN_OK);
    CHECK_INT(csn_store_session_command_ended(store, "c2", -1, NULL), CSN_OK);
    CHECK_INT(csn_store_session_command_told(store, "c1", 2, NULL), CSN_OK);
    CHECK_INT(csn_store_session_echo_insert(store, "c2", 7, "in\n", NULL), CSN_OK);
    CHECK_INT(csn_store_session_other_insert(store, "box-1", "pty", "t", 5, NULL), CSN_OK);
    CHECK_INT(csn_store_session_other_insert(store, "box-1", "pty", "t", 6, NULL), CSN_OK);
    CHECK_INT(csn_store_session_each(store, "box-1", find_session, &out, NULL), CSN_OK);
    CHECK_INT(csn_store_session_command_each(store, "box-1", "s", find_command, &out, NULL),
              CSN_OK);
    CHECK_INT(csn_store_session_echo_each(store, "c2", find_echo, &out, NULL), CSN_OK);
    CHECK_INT(csn_store_session_other_each(store, find_other, &out, NULL), CSN_OK);
    CHECK_STR(out.data, "s=mark;c2 ls n1 10 0 ended -1;c1 pwd n2 01 2 runs;7:in\n;box-1 pty t 6;");
    csn_buf_clear(&out);
    (void) snprintf(row.state, sizeof(row.state), "stopped");
    CHECK_INT(csn_store_sandbox_update(store, &row, NULL), CSN_OK);
    CHECK_INT(csn_store_session_each(store, "box-1", find_session, &out, NULL), CSN_OK);
    CHECK_INT(csn_store_session_command_each(store, "box-1", "s", find_command, &out, NULL),
              CSN_OK);
    CHECK_INT(csn_store_session_echo_each(store, "c2", find_echo, &out, NULL), CSN_OK);
    CHECK_INT(csn_store_session_other_each(store, find_other, &out, NULL), CSN_OK);
    CHECK_STR(out.data, "");
    csn_sandbox_row_done(&row);
}

TEST(a_name_is_unique_in_its_organisation_until_released)
{
    csn_auto(store) csn_store *store = store_with_orgs();
    csn_sandbox_row one = a_row("box-1", "mine"), two = a_row("box-2", "mine");

    CHECK_INT(csn_store_sandbox_insert(store, &one, NULL), CSN_OK);
    csn_error err = { 0 };
    CHECK_INT(csn_store_sandbox_insert(store, &two, &err), CSN_E_EXISTS);
    (void) snprintf(two.org_id, sizeof(two.org_id), "org-b");
    CHECK_INT(csn_store_sandbox_insert(store, &two, &err), CSN_OK);
    free(one.name);
    one.name = NULL;
    CHECK_INT(csn_store_sandbox_update(store, &one, &err), CSN_OK);
    csn_sandbox_row three = a_row("box-3", "mine");
    CHECK_INT(csn_store_sandbox_insert(store, &three, &err), CSN_OK);
    csn_sandbox_row_done(&one);
    csn_sandbox_row_done(&two);
    csn_sandbox_row_done(&three);
}

TEST(an_update_never_crosses_organisations)
{
    csn_auto(store) csn_store *store = store_with_orgs();
    csn_sandbox_row row = a_row("box-1", "mine");
    csn_error err = { 0 };

    CHECK_INT(csn_store_sandbox_insert(store, &row, &err), CSN_OK);
    (void) snprintf(row.org_id, sizeof(row.org_id), "org-b");
    CHECK_INT(csn_store_sandbox_update(store, &row, &err), CSN_E_NOT_FOUND);
    csn_sandbox_row_done(&row);
}

TEST(keys_are_found_by_hash_and_revoked_at_once)
{
    csn_auto(store) csn_store *store = store_with_orgs();
    csn_key_row key = { .id = "key-1", .org_id = "org-a", .name = "first", .hint = "dtn_x" };
    csn_key_row got;
    csn_error err = { 0 };

    memset(key.hash, 7, sizeof(key.hash));
    key.is_admin = true;
    CHECK_INT(csn_store_key_count(store, &err), 0);
    CHECK_INT(csn_store_key_insert(store, &key, &err), CSN_OK);
    CHECK_INT(csn_store_key_count(store, &err), 1);
    CHECK_INT(csn_store_key_find(store, key.hash, &got, &err), CSN_OK);
    CHECK_STR(got.org_id, "org-a");
    CHECK(got.is_admin && got.expires_ms == 0);
    CHECK_INT(csn_store_key_remove(store, "org-b", "first", &err), CSN_E_NOT_FOUND);
    CHECK_INT(csn_store_key_remove(store, "org-a", "first", &err), CSN_OK);
    CHECK_INT(csn_store_key_find(store, key.hash, &got, &err), CSN_E_NOT_FOUND);
}

TEST(volumes_and_snapshots_are_found_by_id_and_name_within_their_organisation)
{
    csn_auto(store) csn_store *store = store_with_orgs();
    char name[] = "data", env[] = "{\"A\":\"b\"}";
    csn_volume_row v = { .id = "vol-1", .org_id = "org-a", .name = name, .state = "ready" }, gv;
    csn_snapshot_row s = { .id = "snap-1",
                           .org_id = "org-a",
                           .name = name,
                           .image = "i",
                           .env = env,
                           .state = "active" },
                     gs;
    csn_error err = { 0 };

    CHECK_INT(csn_store_volume_insert(store, &v, &err), CSN_OK);
    CHECK_INT(csn_store_volume_get(store, "org-a", "data", &gv, &err), CSN_OK);
    CHECK_STR(gv.id, "vol-1");
    csn_volume_row_done(&gv);
    CHECK_INT(csn_store_volume_get(store, "org-a", "vol-1", &gv, &err), CSN_OK);
    csn_volume_row_done(&gv);
    CHECK_INT(csn_store_volume_by_name(store, "org-a", "vol-1", &gv, &err), CSN_E_NOT_FOUND);
    CHECK_INT(csn_store_volume_get(store, "org-b", "vol-1", &gv, &err), CSN_E_NOT_FOUND);
    CHECK_INT(csn_store_snapshot_insert(store, &s, &err), CSN_OK);
    CHECK_INT(csn_store_snapshot_get(store, "org-a", "data", &gs, &err), CSN_OK);
    CHECK_STR(gs.image, "i");
    CHECK_STR(gs.env, "{\"A\":\"b\"}");
    csn_snapshot_row_done(&gs);
    CHECK_INT(csn_store_snapshot_get(store, "org-b", "data", &gs, &err), CSN_E_NOT_FOUND);
}

TEST(a_sandbox_uses_its_snapshot_and_its_volumes_of_its_own_organisation)
{
    csn_auto(store) csn_store *store = store_with_orgs();
    char name[] = "data";
    csn_volume_row v = { .id = "vol-1", .org_id = "org-a", .name = name, .state = "ready" };
    csn_snapshot_row s = { .id = "s-1", .org_id = "org-a", .name = name, .image = "i", .state = "active" };
    csn_sandbox_row row = a_row("box-1", "mine");

    CHECK_INT(csn_store_volume_insert(store, &v, NULL), CSN_OK);
    CHECK_INT(csn_store_snapshot_insert(store, &s, NULL), CSN_OK);
    free(row.mounts);
    row.mounts = strdup("[{\"volumeId\":\"vol-1\",\"mountPath\":\"/data\"}]");
    row.snapshot = strdup(name);
    for (int64_t at = 5; at <= 6; at++) { /* first another organisation's, of the same names */
        row.created_ms = at;
        (void) snprintf(row.id, sizeof(row.id), "box-%d", (int) at);
        (void) snprintf(row.org_id, sizeof(row.org_id), "%s", at == 5 ? "org-b" : "org-a");
        CHECK_INT(csn_store_sandbox_insert(store, &row, NULL), CSN_OK);
        CHECK_INT(csn_store_volume_get(store, "org-a", "vol-1", &v, NULL), CSN_OK);
        CHECK_INT(csn_store_snapshot_get(store, "org-a", name, &s, NULL), CSN_OK);
        CHECK_INT(v.used_ms, at == 5 ? 0 : at);
        CHECK_INT(s.used_ms, at == 5 ? 0 : at);
        csn_volume_row_done(&v);
        csn_snapshot_row_done(&s);
    }
    csn_sandbox_row_done(&row);
}

TEST(a_full_disk_is_told_as_one)
{
    csn_auto(store) csn_store *store = store_with_orgs();
    csn_error err = { 0 };
    int r = CSN_OK;

    CHECK_INT(sqlite3_exec(store->db, "PRAGMA max_page_count = 1", NULL, NULL, NULL), SQLITE_OK);
    for (int i = 0; i < 1000 && r == CSN_OK; i++) {
        char id[37];
        (void) snprintf(id, sizeof(id), "box-%d", i);
        csn_sandbox_row row = a_row(id, id);
        r = csn_store_sandbox_insert(store, &row, &err);
        csn_sandbox_row_done(&row);
    }
    CHECK_INT(r, CSN_E_SYSTEM);
    CHECK_INT(err.sys_errno, ENOSPC);
}

TEST(what_was_rolled_back_never_was)
{
    csn_auto(store) csn_store *store = store_with_orgs();
    csn_sandbox_row row = a_row("box-1", "mine");
    struct found f = { 0 };
    csn_error err = { 0 };

    CHECK_INT(csn_store_begin(store, &err), CSN_OK);
    CHECK_INT(csn_store_begin(store, &err), CSN_E_STATE);
    CHECK_INT(csn_store_sandbox_insert(store, &row, &err), CSN_OK);
    csn_store_rollback(store);
    CHECK_INT(csn_store_sandbox_each(store, find, &f, NULL), CSN_OK);
    CHECK_INT(f.n, 0);
    csn_sandbox_row_done(&row);
}

/* The child tells each committed row through the pipe, then is killed in the middle of its work. */
static void insert_until_killed(int to_parent)
{
    csn_store *store = store_with_orgs();

    for (int i = 0;; i++) {
        char id[37];
        (void) snprintf(id, sizeof(id), "box-%d", i);
        csn_sandbox_row row = a_row(id, id);
        if (csn_store_sandbox_insert(store, &row, NULL) < 0 ||
            write(to_parent, &i, sizeof(i)) != (ssize_t) sizeof(i))
            _exit(1);
        csn_sandbox_row_done(&row);
    }
}

TEST(nothing_that_was_committed_is_lost_by_a_kill)
{
    int ends[2], last = -1, i;

    CHECK_INT(pipe(ends), 0);
    (void) csn_test_dir();
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        (void) close(ends[0]);
        insert_until_killed(ends[1]);
    }
    (void) close(ends[1]);
    while (last < 40 && read(ends[0], &i, sizeof(i)) == (ssize_t) sizeof(i))
        last = i;
    CHECK_INT(kill(pid, SIGKILL), 0);
    while (read(ends[0], &i, sizeof(i)) == (ssize_t) sizeof(i))
        last = i; /* told before it died */
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    csn_auto(store) csn_store *store = open_store();
    struct found f = { 0 };
    CHECK_INT(csn_store_sandbox_each(store, find, &f, NULL), CSN_OK);
    CHECK(f.n >= last + 1);
    csn_sandbox_row_done(&f.last);
    (void) close(ends[0]);
}
