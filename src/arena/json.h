/* Results as JSON: written piece by piece, so that ten megabytes of output are never held twice. */
#ifndef CSN_ARENA_JSON_H
#define CSN_ARENA_JSON_H

#include <stdbool.h>

#include <caisson/arena.h>

#include "base/buf.h"
#include "base/json.h"

/* A writer that empties itself into a descriptor. */
typedef struct csn_sink {
    int fd;
    csn_buf buf;
    int error; /* the first failure, -errno */
} csn_sink;

void csn_sink_init(csn_sink *sink, int fd);
/* Writes out what has gathered; `all`: to the last byte. */
void csn_sink_flush(csn_sink *sink, bool all);
int csn_sink_done(csn_sink *sink, csn_error *err); /* CSN_OK or the failure */

/* "key": text, and "key_base64" where the bytes are not UTF-8; data NULL: null. */
void csn_put_bytes(csn_sink *sink, csn_jw *w, const char *key, const char *data, size_t len);
void csn_put_result(csn_sink *sink, csn_jw *w, const csn_candidate_result *result);
void csn_put_arena(csn_sink *sink, csn_jw *w, const csn_arena_result *result);

/* "qualified" or "disqualified": what the gates said, whatever the success and the score. */
const char *csn_text_verdict(const csn_score *score);

#endif
