/* SPDX-License-Identifier: Apache-2.0 */
/* The only place that knows all backends: which one an engine gets. */
#include "daytona/open.h"

#include "base/err.h"
#include "core/engine.h"
#include "local/open.h"

int csn_engine_open(const csn_engine_options *opts, csn_engine **ret_engine, csn_error *err)
{
    csn_engine_options o;
    int r = csn_options_read(&o, sizeof(o), opts, "csn_engine_options", err);

    if (r < 0)
        return r;
    return csn_engine_new(&o,
                          o.remote_url ? csn_daytona_open
                          : o.is_guest ? csn_guest_open
                                       : csn_local_open,
                          ret_engine, err);
}

int csn_engine_open_like(csn_engine *engine, csn_engine **ret_engine, csn_error *err)
{
    csn_engine_options o;
    int r = csn_engine_check_handle(engine, err);

    if (r < 0)
        return r;
    o = engine->options;
    if (!o.remote_url && !o.is_guest) /* the working directory may be another by now */
        o.state_dir = csn_engine_state_dir(engine);
    o.n_spare = 0;
    return csn_engine_open(&o, ret_engine, err);
}
