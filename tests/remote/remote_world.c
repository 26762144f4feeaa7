/* SPDX-License-Identifier: Apache-2.0 */
#include "remote_world.h"

#include <stdlib.h>

#include "story/story.h"

csn_engine *remote_engine(void)
{
    csn_engine_options o = { .size = sizeof(o),
                             .remote_url = getenv("DAYTONA_API_URL"),
                             .remote_key = getenv("DAYTONA_API_KEY") };
    csn_engine *engine = NULL;

    OK(csn_engine_open(&o, &engine, err));
    return engine;
}

static void count_one(const csn_sandbox_info *info, void *user)
{
    (void) info;
    ++*(int *) user;
}

int count_boxes(csn_engine *engine)
{
    int n = 0;

    OK(csn_sandbox_list(engine, count_one, &n, err));
    return n;
}

csn_sandbox *a_box(csn_engine *engine)
{
    csn_sandbox *box = NULL;

    OK(csn_sandbox_create(engine, NULL, &box, err));
    return box;
}

void free_engine(void *engine)
{
    csn_engine_free(engine);
}
