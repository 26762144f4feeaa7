/* SPDX-License-Identifier: Apache-2.0 */
/* A remote engine, against the server that DAYTONA_API_URL names: engine.py starts one. */
#ifndef CSN_REMOTE_WORLD_H
#define CSN_REMOTE_WORLD_H

#include <caisson.h>

csn_engine *remote_engine(void);
void free_engine(void *engine); /* for csn_test_defer() */
csn_sandbox *a_box(csn_engine *engine);
int count_boxes(csn_engine *engine);

#endif
