/* SPDX-License-Identifier: Apache-2.0 */
#include "answer_sessions.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

#define PREFIX "caisson-command-"

void csn_session_name(uint32_t number, char out[CSN_SESSION_NAME_SIZE])
{
    (void) snprintf(out, CSN_SESSION_NAME_SIZE, PREFIX "%u", number); /* fits */
}

/* As csn_session_name() writes it, so that two names are never one number. */
static bool read_number(const char *name, uint32_t *ret)
{
    char again[CSN_SESSION_NAME_SIZE];
    uint64_t number;

    if (!csn_starts_with(name, PREFIX) ||
        csn_parse_u64(csn_str_of(name + sizeof(PREFIX) - 1), &number) < 0 || number < 1 ||
        number > UINT32_MAX)
        return false;
    csn_session_name((uint32_t) number, again);
    *ret = (uint32_t) number;
    return csn_streq(again, name);
}

bool csn_session_read(const csn_json *v, csn_session_dto *ret)
{
    const csn_json *one = csn_json_at(csn_json_get(v, "commands"), 0);
    const csn_json *command = csn_json_get(one, "command"), *code = csn_json_get(one, "exitCode");
    const char *name = csn_answer_text(v, "sessionId", 255);
    const char *id = csn_answer_text(one, "id", CSN_ANY_ID_SIZE - 1);
    csn_session_dto dto = { .exit_code = -1 };

    if (!name || !read_number(name, &dto.number) || !id || !csn_answer_is_id(id) ||
        csn_str_copy(dto.command_id, sizeof(dto.command_id), csn_str_of(id)) < 0)
        return false;
    dto.command = csn_json_str(command, "");
    dto.command_len = csn_json_str_len(command);
    dto.is_ended = csn_json_type_of(code) == CSN_JSON_INT;
    if (dto.is_ended && csn_json_int(code, -1) >= 0 && csn_json_int(code, -1) <= 255)
        dto.exit_code = (int) csn_json_int(code, -1);
    *ret = dto;
    return true;
}

int csn_session_answer_parse(const char *data, size_t len, csn_json **ret_doc, csn_session_dto *ret,
                             csn_error *err)
{
    int r = csn_answer_parse(data, len, ret_doc, err);

    if (r < 0 || csn_session_read(*ret_doc, ret))
        return r;
    *ret_doc = csn_json_free(*ret_doc);
    return csn_answer_wrong(err, "a session has no command");
}

/* ---- terminals ---- */

static int signal_of(const char *reason)
{
    int64_t number;

    if (csn_streq(reason, "SIGKILL"))
        return SIGKILL;
    if (csn_streq(reason, "SIGTERM"))
        return SIGTERM;
    if (csn_streq(reason, "Ctrl+C"))
        return SIGINT;
    return csn_starts_with(reason, "signal ") &&
                   csn_parse_i64(csn_str_of(reason + 7), &number) == 0 && number > 0 && number <= 64
               ? (int) number
               : 0;
}

/* A control message has a status; the reason of a close has an exit code alone. */
void csn_terminal_word_read(const char *data, size_t len, csn_terminal_word *ret)
{
    csn_auto(json) csn_json *doc = NULL;
    const char *status, *reason, *why;
    int64_t code;

    *ret = (csn_terminal_word){ .kind = CSN_TERMINAL_OTHER, .exit_code = -1 };
    if (csn_json_parse(data, len, &doc, NULL) < 0 || csn_json_type_of(doc) != CSN_JSON_OBJECT)
        return;
    status = csn_answer_text(doc, "status", 64);
    reason = csn_answer_text(doc, "exitReason", 64);
    why = csn_answer_text(doc, "error", sizeof(ret->why) - 1);
    code = csn_json_get_int(doc, "exitCode", -1);
    if (csn_streq(status, "connected")) {
        ret->kind = CSN_TERMINAL_CONNECTED;
    } else if (csn_streq(status, "error")) {
        ret->kind = CSN_TERMINAL_ERROR;
        (void) csn_str_copy(ret->why, sizeof(ret->why), csn_str_of(why ? why : "")); /* fits */
    } else if (code >= 0 && code <= 255) {
        ret->kind = CSN_TERMINAL_EXITED;
        ret->exit_code = (int) code;
        ret->signal = reason ? signal_of(reason) : 0;
    }
}
