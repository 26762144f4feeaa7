/* SPDX-License-Identifier: Apache-2.0 */
/* A command on its way to being started, by somebody who may be gone when it is. */
#ifndef CSN_SERVER_LAUNCH_H
#define CSN_SERVER_LAUNCH_H

#include <caisson/process.h>

typedef struct csn_launch csn_launch;

/* The process is yours. Runs once, unless cancelled; the launch is gone when it runs. */
typedef void csn_launch_fn(csn_process *process, int result, const csn_error *err, void *user);

/* CSN_OK or CSN_E_… (then fn never runs). */
int csn_launch_start(csn_sandbox *box, const csn_process_options *opts, csn_launch_fn *fn,
                     void *user, csn_launch **ret, csn_error *err);
csn_launch *csn_launch_cancel(
    csn_launch *launch); /* it will be killed when it comes; NULL is fine; always NULL */

#endif
