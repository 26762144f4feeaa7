/* `caisson doctor`: each wall and limit tried for real by kern/probe, a whole sandbox last, as the proof. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "core/sandbox.h"
#include "kern/probe.h"

#include <caisson/process.h>

/* The tries fork, which a program with threads must not do without exec. */
static bool is_single_threaded(void)
{
    csn_auto(buf) csn_buf status = CSN_BUF_INIT;
    const char *at;

    if (csn_read_file(AT_FDCWD, "/proc/self/status", &status, 1 << 16) < 0)
        return false;
    at = strstr(status.data, "\nThreads:\t");
    return at && strncmp(at + 10, "1\n", 2) == 0;
}

static void show_probes(csn_check_fn fn, void *user)
{
    csn_probe_item items[CSN_PROBE_MAX];
    size_t n = 0;

    if (csn_probe_run(items, CSN_PROBE_MAX, &n) < 0)
        n = 0;
    for (size_t i = 0; i < n; i++) {
        csn_check check = { .name = items[i].name,
                            .kind = items[i].kind,
                            .ok = items[i].state == CSN_PROBE_OK,
                            .detail = items[i].detail,
                            .remedy = items[i].remedy };
        fn(&check, user);
    }
}

/* A sandbox with every wall, a command in it, and its end. */
static int try_sandbox(csn_engine *engine, csn_receipt *ret_receipt, csn_error *err)
{
    csn_sandbox_options so = { .size = sizeof(so), .is_ephemeral = 1 };
    const char *argv[] = { "/bin/true", NULL };
    csn_process_options po = { .size = sizeof(po), .argv = argv };
    csn_run_result result = { 0 };
    csn_sandbox *sandbox = NULL;
    int r = csn_sandbox_create(engine, &so, &sandbox, err);

    if (r < 0)
        return r;
    r = csn_run(sandbox, &po, &result, err);
    if (r >= 0 && (result.receipt.ended != CSN_ENDED_EXIT || result.receipt.exit_code != 0))
        r = csn_fail(err, CSN_E_SYSTEM, "/bin/true ended with '%s'",
                     csn_ending_name(result.receipt.ended));
    *ret_receipt = result.receipt;
    csn_run_result_done(&result);
    int gone = csn_sandbox_delete(sandbox, r < 0 ? NULL : err);
    csn_sandbox_free(sandbox);
    return r < 0 ? r : gone;
}

int csn_engine_doctor(csn_engine *engine, csn_check_fn fn, void *user, csn_error *err)
{
    csn_receipt receipt = { 0 };
    csn_error why = { 0 };
    char text[256];
    int r = csn_engine_check_handle(engine, err);

    if (r < 0)
        return r;
    if (!fn)
        return csn_fail(err, CSN_E_INVALID, "doctor: no callback was given");
    if (is_single_threaded())
        show_probes(fn, user);
    r = try_sandbox(engine, &receipt, &why);
    if (r >= 0)
        csn_receipt_text(&receipt, text, sizeof(text));
    else
        (void) snprintf(text, sizeof(text), "%s", why.message);
    csn_check check = { .name = "sandbox", .kind = "wall", .ok = r >= 0, .detail = text };
    fn(&check, user);
    if (r < 0 && err)
        *err = why;
    return r < 0 ? r : CSN_OK;
}
