/* `caisson doctor`: each wall and limit tried for real by kern/probe, a whole sandbox last, as the proof. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <caisson/files.h>
#include <caisson/process.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/time.h"
#include "core/sandbox.h"
#include "kern/probe.h"
#include "local/open.h"

enum { LEAVING_MS = 200 }; /* what a thread that has ended takes to be gone from the count */

static bool has_one_thread(void)
{
    csn_auto(buf) csn_buf status = CSN_BUF_INIT;
    const char *at;

    if (csn_read_file(AT_FDCWD, "/proc/self/status", &status, 1 << 16) < 0)
        return false;
    at = strstr(status.data, "\nThreads:\t");
    return at && strncmp(at + 10, "1\n", 2) == 0;
}

/* The tries fork, which a program with threads must not do without exec. The engine's own end for it if they are idle. */
static bool is_alone(csn_engine *engine)
{
    bool may_have_ended = engine && engine->backend && !engine->backend->ops->is_remote &&
                          csn_local_rest(engine->backend);
    int64_t deadline = csn_deadline_in_ms(may_have_ended ? LEAVING_MS : 0);

    while (!has_one_thread()) {
        if (csn_deadline_passed(deadline))
            return false;
        (void) sched_yield(); /* can't fail */
    }
    return true;
}

/* "Operation not permitted: a system call filter is over this process": the kernel's word first. */
static void show_item(const csn_probe_item *item, csn_check_fn fn, void *user)
{
    csn_check check = { .name = item->name,
                        .kind = item->kind,
                        .ok = item->state == CSN_PROBE_OK,
                        .remedy = item->remedy[0] ? item->remedy : NULL,
                        .sys_errno = item->error,
                        .follows = item->follows };
    char text[320];

    if (item->follows)
        (void) snprintf(text, sizeof(text), "not tried: follows from '%s'", item->follows);
    else if (item->error)
        (void) snprintf(text, sizeof(text), "%s%s%s", csn_strerror(item->error),
                        item->detail[0] ? ": " : "", item->detail);
    check.detail = item->follows || item->error ? text : item->detail;
    fn(&check, user);
}

static void show_probes(const char *state_dir, csn_check_fn fn, void *user)
{
    csn_probe_item items[CSN_PROBE_MAX];
    size_t n = 0;

    if (csn_probe_run(state_dir, items, CSN_PROBE_MAX, &n) < 0)
        n = 0;
    for (size_t i = 0; i < n; i++)
        show_item(&items[i], fn, user);
}

int csn_engine_explain(csn_engine *engine, csn_check_fn fn, void *user)
{
    const char *state = engine ? csn_engine_state_dir(engine) : NULL;
    csn_probe_item item;

    if (!fn || !is_alone(engine) ||
        csn_probe_first_failed(state, engine && engine->optional_walls & CSN_WALL_LANDLOCK,
                               &item) == 0)
        return 0;
    show_item(&item, fn, user);
    return 1;
}

/* Writes a file in the home, as every verb that runs a script does, and runs a command. */
static int use_sandbox(csn_sandbox *sandbox, csn_receipt *ret_receipt, csn_error *err)
{
    static const char text[] = "doctor\n";
    const char *argv[] = { "/bin/cat", "doctor", NULL };
    csn_process_options po = { .size = sizeof(po), .argv = argv };
    csn_run_result result = { 0 };
    int r = csn_file_put(sandbox, "doctor", text, sizeof(text) - 1, 0644, err);

    if (r < 0)
        return csn_fail_in(err, r, "write a file in the home");
    r = csn_run(sandbox, &po, &result, err);
    if (r >= 0 && (result.receipt.ended != CSN_ENDED_EXIT || result.receipt.exit_code != 0))
        r = csn_fail(err, CSN_E_SYSTEM, "/bin/cat ended with '%s'",
                     csn_ending_name(result.receipt.ended));
    if (ret_receipt)
        *ret_receipt = result.receipt;
    csn_run_result_done(&result);
    return r;
}

/* A sandbox with every wall, a file and a command in it, and its end. */
static int try_sandbox(csn_engine *engine, bool stays, csn_receipt *ret_receipt, csn_error *err)
{
    csn_sandbox_options so = { .size = sizeof(so), .is_ephemeral = !stays };
    csn_sandbox *sandbox = NULL;
    int r = csn_sandbox_create(engine, &so, &sandbox, err);

    if (r < 0)
        return r;
    r = use_sandbox(sandbox, ret_receipt, err);
    int gone = csn_sandbox_delete(sandbox, r < 0 ? NULL : err);
    csn_sandbox_free(sandbox);
    return r < 0 ? r : gone;
}

static void show_proof(const char *name, const char *kind, int r, const csn_error *why,
                       const char *text, const char *remedy, csn_check_fn fn, void *user)
{
    csn_check check = { .name = name,
                        .kind = kind,
                        .ok = r >= 0,
                        .detail = r < 0 ? why->message : text,
                        .remedy = r < 0 ? remedy : NULL,
                        .sys_errno = r < 0 ? why->sys_errno : 0 };

    fn(&check, user);
}

/* Marks a failed wall, whose consequence the proof would only be. */
struct first_failure {
    csn_check_fn fn;
    void *user;
    const char *name; /* static, of the probe's table */
};

static void note_failure(const csn_check *check, void *user)
{
    struct first_failure *first = user;

    if (!check->ok && !check->follows && strcmp(check->kind, "wall") == 0 && !first->name)
        first->name = check->name;
    first->fn(check, first->user);
}

int csn_engine_doctor(csn_engine *engine, csn_check_fn fn, void *user, csn_error *err)
{
    struct first_failure first = { fn, user, NULL };
    csn_receipt receipt = { 0 };
    csn_error why = { 0 };
    char text[256] = "";
    int r = engine ? csn_engine_check_handle(engine, err) : CSN_OK;

    if (r < 0)
        return r;
    if (!fn)
        return csn_fail(err, CSN_E_INVALID, "doctor: no callback was given");
    if (is_alone(engine))
        show_probes(engine ? csn_engine_state_dir(engine) : NULL, note_failure, &first);
    if (!engine)
        return csn_fail(err, CSN_E_INVALID, "no engine was given");
    r = try_sandbox(engine, false, &receipt, &why);
    if (r >= 0)
        csn_receipt_text(&receipt, text, sizeof(text));
    if (r < 0 && first.name) {
        csn_check check = {
            .name = "sandbox", .kind = "wall", .detail = why.message, .follows = first.name
        };
        fn(&check, user);
    } else {
        show_proof("sandbox", "wall", r, &why, text,
                   "docs/machines.md, or a report with these lines", fn, user);
    }
    if (r >= 0) {
        csn_error stays = { 0 };
        int kept = try_sandbox(engine, true, NULL, &stays);
        show_proof("sandbox that stays", "limit", kept, &stays, "created, used, deleted",
                   "CAISSON_STATE=/a/directory on a disk of its own (ext4, xfs, btrfs) or a tmpfs",
                   fn, user);
    }
    if (r < 0 && err)
        *err = why;
    return r < 0 ? r : CSN_OK;
}
