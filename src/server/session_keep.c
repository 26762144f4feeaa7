/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation. Rows are written as things happen, so a server that is killed leaves what its successor must know.
 * That one asks the keeper of each sandbox which commands it holds, finds shells and couriers by the marks among their
 * arguments, opens them and reads their output from the first byte. Requests to a sandbox's toolbox wait until that is done. */
#include "server/session_keep.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "base/time.h"
#include "server/cell.h"
#include "store/sessions.h"

enum { LOOK_MS = 5, PATIENCE_MS = 10000, MARK_MAX = 36 };

struct csn_keep {
    csn_toolbox *toolbox;
    csn_server *server;
    csn_table boxes; /* those whose sessions are still to be found, by id */
    csn_table lost;  /* "<sandbox>/<kind>/<id>" of what ended with an earlier server */
    csn_list all_lost, findings;
};

typedef struct lost_one {
    csn_list link;
    uint32_t number;
    bool is_pty;
    char box_id[37];
    char key[]; /* of the table */
} lost_one;

/* A command that the keeper holds. */
typedef struct held_one {
    uint32_t number;
    char mark[MARK_MAX + 1]; /* its last argument */
    int64_t n_bytes;         /* of its log */
    bool is_running_pty;
} held_one;

typedef struct waiter {
    csn_list link;
    csn_keep_done_fn *done;
    void *user;
} waiter;

typedef struct finding { /* of one sandbox */
    csn_list link;
    csn_keep *keep;
    char id[37];
    bool is_begun;
    csn_box_hold *hold;
    csn_bench *bench;
    csn_op *listing;
    csn_timer look;
    int64_t deadline_ns;
    csn_list waiters;
    held_one *held;
    size_t n_held, n_room;
    csn_session *session; /* while its rows are read */
} finding;

/* ---- writing down ------------------------------------------------------------------------------------------------ */

static void warn(int result, const char *id, const csn_error *err)
{
    if (result < 0)
        csn_log(CSN_LOG_WARN, "session not written down, a restart of the server will lose it",
                "session", id, "error", err->message, NULL);
}

static void on_event(const csn_session *s, csn_session_event event, const csn_session_command *c,
                     void *user)
{
    const csn_bench *bench = user;
    csn_store *store = bench->server->store;
    csn_error err = { 0 };
    int r = CSN_OK;

    switch (event) {
    case CSN_SESSION_BEGUN:
        r = csn_store_session_insert(store, bench->id, s->id, s->mark, &err);
        break;
    case CSN_SESSION_GONE:
        r = csn_store_session_remove(store, bench->id, s->id, &err);
        break;
    case CSN_SESSION_COMMAND_NEW:
        r = csn_store_session_command_insert(store, bench->id, s->id,
                                             &(csn_session_command_row){ .id = c->id,
                                                                         .text = c->text,
                                                                         .nonce = c->nonce,
                                                                         .is_async = c->is_async,
                                                                         .no_echo = c->no_echo },
                                             &err);
        break;
    case CSN_SESSION_COMMAND_TOLD:
        r = csn_store_session_command_told(store, c->id, c->told, &err);
        break;
    case CSN_SESSION_COMMAND_ENDED:
        r = csn_store_session_command_ended(store, c->id, c->exit_code, &err);
        break;
    case CSN_SESSION_COMMAND_FORGOTTEN:
        r = csn_store_session_command_remove(store, c->id, &err);
        break;
    }
    warn(r, s->id, &err);
}

static void on_echo(const csn_session_command *c, int64_t at, const char *data, size_t len,
                    void *user)
{
    const csn_bench *bench = user;
    csn_error err = { 0 };

    (void) len; /* it ends with a newline and a NUL */
    warn(csn_store_session_echo_insert(bench->server->store, c->id, at, data, &err), c->session->id,
         &err);
}

static void follow(csn_bench *bench, csn_session *s)
{
    s->keep = on_event;
    s->keep_echo = on_echo;
    s->keep_user = bench;
}

void csn_session_keep(csn_bench *bench, csn_session *s)
{
    follow(bench, s);
    on_event(s, CSN_SESSION_BEGUN, NULL, bench);
}

/* ---- finding again ----------------------------------------------------------------------------------------------- */

static void free_finding(finding *f)
{
    (void) csn_table_remove(&f->keep->boxes, f->id); /* it is there */
    csn_list_remove(&f->link);
    csn_op_drop(f->listing);
    csn_timer_cancel(&f->look);
    (void) csn_boxes_release(f->hold);
    free(f->held);
    free(f);
}

static void finish(finding *f)
{
    csn_list waiters = CSN_LIST_INIT(waiters);
    csn_list *node;

    while ((node = csn_list_pop(&f->waiters)))
        csn_list_append(&waiters, node);
    free_finding(f);
    while ((node = csn_list_pop(&waiters))) {
        waiter *w = csn_list_entry(node, waiter, link);
        csn_keep_done_fn *done = w->done;
        void *user = w->user;

        free(w);
        done(user);
    }
}

static const held_one *find_held(const finding *f, const char *mark)
{
    for (size_t i = 0; i < f->n_held; i++)
        if (csn_streq(f->held[i].mark, mark))
            return &f->held[i];
    return NULL;
}

static uint32_t number_of(const finding *f, const char *mark)
{
    const held_one *held = find_held(f, mark);

    return held ? held->number : 0;
}

static void add_held(const csn_process_info *info, void *user)
{
    finding *f = user;
    const char *space = strrchr(info->command, ' ');
    const csn_receipt *r = &info->receipt;
    const int64_t max = CSN_CMDLOG_MAX;

    if (f->n_held == f->n_room) {
        size_t room = f->n_room ? 2 * f->n_room : 64;
        held_one *more = csn_realloc(f->held, room * sizeof(*more));
        if (!more)
            return; /* one that is not found counts as lost */
        f->held = more;
        f->n_room = room;
    }
    held_one *held = &f->held[f->n_held++];
    *held = (held_one){ .number = info->id,
                        .n_bytes = (r->stdout_bytes < max ? r->stdout_bytes : max) +
                                   (r->stderr_bytes < max ? r->stderr_bytes : max),
                        .is_running_pty = info->is_pty && info->is_running };
    if (space && info->is_background)
        (void) csn_str_copy(held->mark, sizeof(held->mark),
                            csn_str_of(space + 1)); /* a longer one is none of ours */
}

static void add_echo(int64_t at, const char *data, void *user)
{
    (void) csn_session_restore_echo(user, at, data, strlen(data)); /* no memory: without it */
}

static void add_command(const csn_session_command_row *row, void *user)
{
    finding *f = user;
    csn_session_command *c = csn_session_restore_command(
        f->session, row->id, row->text, row->nonce, row->is_async, row->no_echo,
        (csn_session_told) row->told, row->has_ended ? &row->exit_code : NULL);

    if (c)
        (void) csn_store_session_echo_each(f->keep->server->store, row->id, add_echo, c, NULL);
}

static void add_session(const char *id, const char *mark, void *user)
{
    finding *f = user;
    csn_server *server = f->keep->server;
    uint32_t shell = number_of(f, mark);
    csn_session *s = NULL;

    if (shell != 0) /* else it is of an earlier run of the sandbox */
        s = csn_session_restore(server->loop, f->bench->box, id, mark,
                                csn_toolbox_log_dir(server->toolbox));
    if (!s)
        return;
    f->session = s;
    follow(f->bench, s);
    (void) csn_store_session_command_each(server->store, f->id, id, add_command, f, NULL);
    csn_list_append(&f->bench->sessions, &s->link);
    csn_list_foreach (node, &s->commands) {
        csn_session_command *c = csn_list_entry(node, csn_session_command, link);
        csn_session_attach_command(c, number_of(f, c->id));
    }
    csn_session_attach(s, shell);
}

/* Has everything been read again that was there when we came? */
static bool is_read(const finding *f)
{
    csn_list_foreach (at, &f->bench->sessions) {
        csn_session *s = csn_list_entry(at, csn_session, link);
        csn_list_foreach (node, &s->commands) {
            csn_session_command *c = csn_list_entry(node, csn_session_command, link);
            const held_one *held = c->courier ? find_held(f, c->id) : NULL;
            if (held && csn_held_offset(c->courier) < held->n_bytes)
                return false;
        }
    }
    return true;
}

static void on_look(csn_timer *timer, void *user)
{
    finding *f = user;

    if (is_read(f) || csn_deadline_passed(f->deadline_ns) ||
        csn_timer_set(f->keep->server->loop, timer, csn_deadline_in_ms(LOOK_MS), on_look, f) < 0)
        finish(f);
}

static void on_killed_open(csn_process *process, int result, const csn_error *err, void *user)
{
    (void) err;
    (void) user;
    if (result < 0)
        return;
    (void) csn_process_signal_async(process, SIGKILL, 1, NULL, NULL, NULL); /* NULL: it has ended */
    csn_process_free(process);
}

/* Nobody can come back to a terminal of an earlier server: its shell would go on for nobody. */
static void end_terminals(const finding *f)
{
    csn_list_foreach (node, &f->keep->all_lost) {
        const lost_one *lost = csn_list_entry(node, lost_one, link);

        for (size_t i = 0; i < f->n_held && lost->is_pty; i++)
            if (csn_streq(lost->box_id, f->id) && f->held[i].number == lost->number &&
                f->held[i].is_running_pty)
                (void) csn_process_open_async(f->hold->sandbox, lost->number, on_killed_open, NULL,
                                              NULL); /* NULL: it lives until the sandbox stops */
    }
}

static void on_listed(int result, const csn_error *err, void *user)
{
    finding *f = user;
    csn_error own = { 0 };

    f->listing = NULL;
    if (result == CSN_OK)
        f->bench = csn_toolbox_make_bench(f->keep->toolbox, f->id, f->hold);
    if (result < 0 || !f->bench) {
        csn_log(CSN_LOG_ERROR, "sessions lost", "sandbox", f->id, "error",
                result < 0 ? err->message : "out of memory", NULL);
        finish(f);
        return;
    }
    end_terminals(f);
    result = csn_store_session_each(f->keep->server->store, f->id, add_session, f, &own);
    if (result < 0)
        csn_log(CSN_LOG_ERROR, "sessions lost", "sandbox", f->id, "error", own.message, NULL);
    f->deadline_ns = csn_deadline_in_ms(PATIENCE_MS);
    on_look(&f->look, f);
}

static bool begin(finding *f)
{
    csn_error err = { 0 };

    f->hold = csn_boxes_hold(f->keep->server->boxes, f->id);
    f->listing =
        f->hold ? csn_process_list_async(f->hold->sandbox, add_held, on_listed, f, &err) : NULL;
    f->is_begun = f->listing != NULL;
    return f->is_begun;
}

bool csn_keep_await(csn_keep *keep, const char *box_id, csn_keep_done_fn *done, void *user)
{
    finding *f = csn_table_get(&keep->boxes, box_id);
    waiter *w = f ? csn_calloc(1, sizeof(*w)) : NULL;

    if (!w)
        return false;
    if (!f->is_begun && !begin(f)) {
        free(w);
        free_finding(f);
        return false;
    }
    *w = (waiter){ .done = done, .user = user };
    csn_list_append(&f->waiters, &w->link);
    return true;
}

void csn_keep_box_ended(csn_keep *keep, const char *box_id)
{
    finding *f = csn_table_get(&keep->boxes, box_id);

    if (f && f->is_begun)
        finish(f);
}

static void on_nobody_waits(void *user)
{
    (void) user;
}

static void on_opened(csn_sandbox *sandbox, const char *id, int result, const csn_error *err,
                      void *user)
{
    (void) sandbox;
    (void) err;
    if (result == CSN_OK)
        (void) csn_keep_await(user, id, on_nobody_waits, NULL);
}

static void open_one(const char *box_id, void *user)
{
    csn_keep *keep = user;

    if (csn_table_get(&keep->boxes, box_id))
        csn_boxes_open_by_id(keep->server->boxes, box_id, on_opened, keep);
}

void csn_keep_restore_all(csn_keep *keep)
{
    (void) csn_store_session_boxes(keep->server->store, open_one, keep, NULL); /* else when asked */
}

/* ---- what ends with us ------------------------------------------------------------------------------------------- */

static char *key_of(const char *box_id, const char *kind, const char *id)
{
    char *key;

    return asprintf(&key, "%s/%s/%s", box_id, kind, id) < 0 ? NULL : key;
}

static lost_one *find_lost(const csn_keep *keep, const char *box_id, const char *kind,
                           const char *id)
{
    char *key = key_of(box_id, kind, id);
    lost_one *lost = key ? csn_table_get(&keep->lost, key) : NULL;

    free(key);
    return lost;
}

bool csn_keep_is_lost(const csn_keep *keep, const char *box_id, const char *kind, const char *id)
{
    return find_lost(keep, box_id, kind, id) != NULL;
}

static void forget_lost(csn_keep *keep, lost_one *lost)
{
    if (!lost)
        return;
    (void) csn_table_remove(&keep->lost, lost->key); /* it is there */
    csn_list_remove(&lost->link);
    free(lost);
}

void csn_keep_other(csn_keep *keep, const char *box_id, const char *kind, const char *id,
                    uint32_t number)
{
    csn_error err = { 0 };

    forget_lost(keep, find_lost(keep, box_id, kind, id));
    warn(csn_store_session_other_insert(keep->server->store, box_id, kind, id, number, &err), id,
         &err);
}

void csn_keep_other_gone(csn_keep *keep, const char *box_id, const char *kind, const char *id)
{
    if (!keep->server->is_stopping) /* else it ends with us, and that is to be told */
        (void) csn_store_session_other_remove(keep->server->store, box_id, kind, id, NULL);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void expect(const char *box_id, void *user)
{
    csn_keep *keep = user;
    finding *f = csn_table_get(&keep->boxes, box_id) ? NULL : csn_calloc(1, sizeof(*f));

    if (!f)
        return;
    f->keep = keep;
    (void) snprintf(f->id, sizeof(f->id), "%s", box_id); /* as long */
    csn_list_init(&f->waiters);
    if (csn_table_put(&keep->boxes, f->id, f) < 0)
        free(f);
    else
        csn_list_append(&keep->findings, &f->link);
}

static void add_lost(const char *box_id, const char *kind, const char *id, uint32_t number,
                     void *user)
{
    csn_keep *keep = user;
    char *key = key_of(box_id, kind, id);
    lost_one *lost = key ? csn_calloc(1, sizeof(*lost) + strlen(key) + 1) : NULL;

    if (lost) {
        *lost = (lost_one){ .number = number, .is_pty = csn_streq(kind, "pty") };
        (void) snprintf(lost->box_id, sizeof(lost->box_id), "%s", box_id); /* as long */
        memcpy(lost->key, key, strlen(key) + 1);
        csn_list_append(&keep->all_lost, &lost->link);
        if (csn_table_put(&keep->lost, lost->key, lost) < 0) {
            csn_list_remove(&lost->link);
            free(lost);
        }
        expect(box_id, keep);
    }
    free(key);
}

int csn_keep_open(csn_toolbox *toolbox, csn_server *server, csn_keep **ret, csn_error *err)
{
    csn_keep *keep = csn_calloc(1, sizeof(*keep));

    if (!keep)
        return csn_fail(err, CSN_E_NO_MEMORY, "read the sessions");
    keep->toolbox = toolbox;
    keep->server = server;
    csn_list_init(&keep->all_lost);
    csn_list_init(&keep->findings);
    int r = csn_store_session_boxes(server->store, expect, keep, err);
    if (r == CSN_OK)
        r = csn_store_session_other_each(server->store, add_lost, keep, err);
    if (r < 0) {
        (void) csn_keep_free(keep);
        return r;
    }
    *ret = keep;
    return CSN_OK;
}

csn_keep *csn_keep_free(csn_keep *keep)
{
    csn_list *node;

    if (!keep)
        return NULL;
    while ((node = csn_list_first(&keep->findings)))
        finish(csn_list_entry(node, finding, link));
    csn_table_done(&keep->boxes);
    while ((node = csn_list_first(&keep->all_lost)))
        forget_lost(keep, csn_list_entry(node, lost_one, link));
    csn_table_done(&keep->lost);
    free(keep);
    return NULL;
}
