/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes and snapshots as a service tells of them, read. No I/O here. */
#ifndef CSN_DAYTONA_ANSWER_NAMED_H
#define CSN_DAYTONA_ANSWER_NAMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "answer_read.h"
#include "core/wish.h"

enum { CSN_ENTRYPOINT_MAX = 64 };

/* Strings point into the value. */
typedef struct csn_named_dto {
    char id[CSN_ANY_ID_SIZE];
    const char *name; /* never empty, without control characters */
    const char *state_word;
    const char *reason;                             /* of a failure; "": not said */
    int64_t created_ms;                             /* 0: not said */
    int64_t size_bytes;                             /* of a snapshot; -1: not said */
    const char *entrypoint[CSN_ENTRYPOINT_MAX + 1]; /* of a snapshot; NULL at the end */
} csn_named_dto;

int csn_named_read(const csn_json *value, csn_named_dto *ret, csn_error *err);
/* The whole text is one of them; *ret_doc holds the strings. */
int csn_named_parse(const char *data, size_t len, csn_json **ret_doc, csn_named_dto *ret,
                    csn_error *err);
/* {"items": […], "totalPages": …} */
int csn_page_answer_parse(const char *data, size_t len, csn_json **ret_doc,
                          const csn_json **ret_items, int64_t *ret_n_pages, csn_error *err);

/* How a volume or a snapshot is: to be used, on its way there, gone or on its way out, or of no use. */
typedef enum csn_named_state {
    CSN_NAMED_COMING,
    CSN_NAMED_READY,
    CSN_NAMED_GOING,
    CSN_NAMED_GONE,
    CSN_NAMED_FAILED
} csn_named_state;
csn_named_state csn_named_state_of(const csn_named_dto *dto);

#endif
