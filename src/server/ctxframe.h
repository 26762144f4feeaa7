/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between the server and an interpreter inside: 4 bytes of length, big-endian, and one JSON object. Bytes from
 * inside are hostile. */
#ifndef CSN_SERVER_CTXFRAME_H
#define CSN_SERVER_CTXFRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"

enum {
    CSN_CTXFRAME_MAX = 2 << 20
}; /* of one that comes; text in it is cut to 128 Ki characters each */

typedef struct csn_ctxframe {
    csn_json *doc; /* owned: csn_json_free() */
    bool is_done;  /* else: ready */
    int64_t id;
    bool has_error;
    const char *name, *value, *traceback; /* borrowed from doc */
} csn_ctxframe;

/* Takes the first whole frame out of `in`. 1: it is in *ret; 0: more bytes are needed; -EBADMSG; -ENOMEM. */
int csn_ctxframe_take(csn_buf *in, csn_ctxframe *ret);

/* Appends a run as a frame. envs: an object or NULL. Sticky in out->error. */
void csn_ctxframe_put(csn_buf *out, int64_t id, const char *code, size_t len, const csn_json *envs);

#endif
