/* SPDX-License-Identifier: Apache-2.0 */
#include "server/launch.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/fault.h"

struct csn_launch {
    csn_launch_fn *fn; /* NULL: cancelled */
    void *user;
};

static void on_started(csn_process *process, int result, const csn_error *err, void *user)
{
    csn_launch launch = *(csn_launch *) user;

    free(user);
    if (launch.fn)
        launch.fn(process, result, err, launch.user);
    else
        csn_process_free(process);
}

int csn_launch_start(csn_sandbox *box, const csn_process_options *opts, csn_launch_fn *fn,
                     void *user, csn_launch **ret, csn_error *err)
{
    csn_launch *launch = csn_malloc(sizeof(*launch));
    int r;

    if (!launch)
        return csn_fail(err, CSN_E_NO_MEMORY, "start a command");
    *launch = (csn_launch){ fn, user };
    *ret = launch; /* before: nobody says that it can't be there at once */
    r = csn_process_start_start(box, opts, on_started, launch, err);
    if (r < 0) {
        *ret = NULL;
        free(launch);
    }
    return r;
}

csn_launch *csn_launch_cancel(csn_launch *launch)
{
    if (launch)
        launch->fn = NULL;
    return NULL;
}
