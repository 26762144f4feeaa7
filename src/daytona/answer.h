/* SPDX-License-Identifier: Apache-2.0 */
/* What a service answers, read. Every byte is a stranger's: each field's type and length is checked, unknown ones are passed
 * over, and what is shown to people is made harmless. No I/O here. */
#ifndef CSN_DAYTONA_ANSWER_H
#define CSN_DAYTONA_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <caisson/error.h>
#include <caisson/sandbox.h>

#include "base/json.h"
#include "core/wish.h"

enum { CSN_DTO_LABELS_MAX = 64, CSN_DTO_LIST_MAX = 200, CSN_WORDS_SIZE = 160 };

/* A sandbox as the service tells of it. Strings point into the document it was read from. */
typedef struct csn_dto {
    char id[CSN_ANY_ID_SIZE]; /* [A-Za-z0-9_-]{1,64} */
    const char *name;         /* "": none, or the id again */
    const char *state_word;   /* its own word */
    csn_state state;
    bool has_failed;     /* "error", "build_failed": nothing will come of it */
    const char *reason;  /* of that; "": not said */
    const char *toolbox; /* a URL without a '/' at its end; "": not said */
    const char *image;   /* "": not said */
    bool blocks_network;
    int64_t created_ms;                          /* 0: not said */
    int64_t cpu_milli, memory_bytes, disk_bytes; /* -1: not said */
    int64_t stop_min;   /* idle for so long it stops; 0: never, or not said */
    int64_t delete_min; /* stopped for so long it is deleted; -1: never, or not said */
    int64_t ttl_ms;     /* from its creation on; 0: none */
    struct {
        const char *key, *value;
    } labels[CSN_DTO_LABELS_MAX];
    size_t n_labels;
} csn_dto;

int csn_dto_read(const csn_json *value, csn_dto *ret, csn_error *err);
/* The whole text is one sandbox; *ret_doc holds the strings. */
int csn_dto_parse(const char *data, size_t len, csn_json **ret_doc, csn_dto *ret, csn_error *err);

/* {"items": […], "nextCursor": …} */
int csn_dto_list_parse(const char *data, size_t len, csn_json **ret_doc, const csn_json **ret_items,
                       const char **ret_cursor, csn_error *err);

/* {"url": …}: a URL without a '/' at its end, or "". Points into *ret_doc. */
int csn_url_answer_parse(const char *data, size_t len, csn_json **ret_doc, const char **ret_url,
                         csn_error *err);

/* {"memUsed": …, "diskUsed": …}: bytes; -1: not said. */
typedef struct csn_metrics_answer {
    int64_t memory_bytes, disk_bytes;
} csn_metrics_answer;
int csn_metrics_answer_parse(const char *data, size_t len, csn_metrics_answer *ret, csn_error *err);

/* {"exitCode": …, "result": …} */
typedef struct csn_exec_answer {
    int exit_code; /* -1: it could not be started */
    const char *output;
    size_t output_len;
} csn_exec_answer;
int csn_exec_answer_parse(const char *data, size_t len, csn_json **ret_doc, csn_exec_answer *ret,
                          csn_error *err);

/* {"cmdId": …}: [A-Za-z0-9_-]{1,64} */
int csn_started_answer_parse(const char *data, size_t len, char ret_id[CSN_ANY_ID_SIZE],
                             csn_error *err);

/* {"id": …, "exitCode": …}: a command that runs has no exit code, or null. -1: unknown. */
int csn_command_answer_parse(const char *data, size_t len, bool *ret_is_ended, int *ret_exit_code,
                             csn_error *err);

/* The explanation in an error's body, one line, without control characters and without `secret` (may be NULL). "": none. */
void csn_error_words(const char *data, size_t len, const char *secret, char out[CSN_WORDS_SIZE]);

/* Any text of a stranger for a message: likewise. */
void csn_words_of(const char *text, size_t len, const char *secret, char out[CSN_WORDS_SIZE]);

#endif
