/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions and terminals as a service tells of them, read. No I/O here. */
#ifndef CSN_DAYTONA_ANSWER_SESSIONS_H
#define CSN_DAYTONA_ANSWER_SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "answer_read.h"
#include "core/wish.h"

enum { CSN_SESSION_NAME_SIZE = 32 };

/* Of a background command: "caisson-command-7". */
void csn_session_name(uint32_t number, char out[CSN_SESSION_NAME_SIZE]);

typedef struct csn_session_dto {
    uint32_t number;
    char command_id[CSN_ANY_ID_SIZE];
    const char *command; /* its text; points into the document */
    size_t command_len;
    bool is_ended;
    int exit_code; /* -1: not known */
} csn_session_dto;

/* False: not one of a background command, or without its command yet. */
bool csn_session_read(const csn_json *value, csn_session_dto *ret);
int csn_session_answer_parse(const char *data, size_t len, csn_json **ret_doc, csn_session_dto *ret,
                             csn_error *err);

/* What a terminal's WebSocket says in text, or as its reason to close. */
typedef struct csn_terminal_word {
    enum {
        CSN_TERMINAL_OTHER,
        CSN_TERMINAL_CONNECTED,
        CSN_TERMINAL_EXITED,
        CSN_TERMINAL_ERROR
    } kind;
    int exit_code; /* of EXITED */
    int signal;    /* 0: none */
    char why[160]; /* of ERROR: a stranger's */
} csn_terminal_word;
void csn_terminal_word_read(const char *data, size_t len, csn_terminal_word *ret);

#endif
