/* SPDX-License-Identifier: Apache-2.0 */
/* The backend of a service elsewhere. */
#ifndef CSN_DAYTONA_OPEN_H
#define CSN_DAYTONA_OPEN_H

#include "core/backend.h"

int csn_daytona_open(csn_loop *loop, const csn_engine_options *opts, csn_backend **ret_backend,
                     csn_error *err);

#endif
