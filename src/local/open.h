/* SPDX-License-Identifier: Apache-2.0 */
/* Backends on this machine. */
#ifndef CSN_LOCAL_OPEN_H
#define CSN_LOCAL_OPEN_H

#include "core/backend.h"

/* local.c: sandboxes of a state directory */
int csn_local_open(csn_loop *loop, const csn_engine_options *opts, csn_backend **ret_backend,
                   csn_error *err);
/* csn_workers_rest() of its threads. */
bool csn_local_rest(csn_backend *backend);
/* guest.c: lent sandboxes only */
int csn_guest_open(csn_loop *loop, const csn_engine_options *opts, csn_backend **ret_backend,
                   csn_error *err);

#endif
