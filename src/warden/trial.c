/* SPDX-License-Identifier: Apache-2.0 */
/* One sandbox before the first request: a server that can make none says so at once, in the words of `caisson doctor`,
 * and not to each client in turn. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <caisson/process.h>
#include <caisson/sandbox.h>

#include "base/err.h"
#include "base/log.h"
#include "warden/warden.h"

static void keep_cause(const csn_check *check, void *user)
{
    csn_error *err = user;

    bool has_way_out = check->remedy && strstr(check->remedy, "--optional");

    (void) csn_fail(err, err->code, "%s: %s%s%s", check->name, check->detail,
                    has_way_out ? "; " : "", has_way_out ? check->remedy : "");
}

static int use(csn_sandbox *sandbox, csn_receipt *ret_receipt, csn_error *err)
{
    const char *argv[] = { "/bin/true", NULL };
    csn_process_options po = { .size = sizeof(po), .argv = argv };
    csn_run_result result = { 0 };
    int r = csn_run(sandbox, &po, &result, err);

    *ret_receipt = result.receipt;
    csn_run_result_done(&result);
    return r;
}

int csn_trial_run(csn_wd *wd, csn_warden_options *o, csn_error *err)
{
    csn_sandbox_options so = { .size = sizeof(so) }; /* what clients ask for is refused to them */
    csn_receipt receipt = { 0 };
    csn_sandbox *sandbox = NULL;
    char names[128];
    int r = csn_sandbox_create(wd->engine, &so, &sandbox, err);

    if (r == CSN_OK) {
        r = use(sandbox, &receipt, err);
        int gone = csn_sandbox_delete(sandbox, r < 0 ? NULL : err);
        r = r < 0 ? r : gone;
        csn_sandbox_free(sandbox);
    }
    if (r < 0 && (err->sys_errno == ENOSPC || err->sys_errno == EDQUOT)) {
        /* Deleting is the way out, and it goes through us. */
        csn_log(CSN_LOG_ERROR,
                "the disk is full: no sandbox can be made until something is deleted", "error",
                err->message, NULL);
        *err = (csn_error){ 0 };
        return CSN_OK;
    }
    if (r < 0) {
        (void) csn_engine_explain(wd->engine, keep_cause, err); /* else it stays as it is */
        return csn_fail_in(err, r, "no sandbox starts here");
    }
    if (receipt.walls_missing) {
        (void) csn_wall_names(receipt.walls_missing, names, sizeof(names));
        (void) snprintf(o->missing, sizeof(o->missing), "--walls-missing=%s", names); /* fits */
    }
    return CSN_OK;
}
