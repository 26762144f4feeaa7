/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "answer_read.h"
#include "base/err.h"
#include "base/str.h"
#include "base/time.h"
#include "base/utf8.h"
#include "url.h"

enum { NAME_MAX_BYTES = 256, WORD_MAX = 32, REASON_MAX = 1024, URL_MAX_BYTES = 2048 };
enum { INTERVAL_MAX = 1000 * 1000 * 1000 }; /* minutes */

#define GIB        (INT64_C(1) << 30)
#define AMOUNT_MAX (INT64_C(1) << 60)

int csn_answer_wrong(csn_error *err, const char *what)
{
    return csn_fail(err, CSN_E_PROTOCOL, "the service's answer is not as agreed: %s", what);
}

int csn_answer_parse(const char *data, size_t len, csn_json **ret_doc, csn_error *err)
{
    int r = csn_json_parse(data, len, ret_doc, NULL);

    if (r == -ENOMEM)
        return csn_fail(err, CSN_E_NO_MEMORY, "read the service's answer");
    return r < 0 ? csn_answer_wrong(err, "it is no JSON") : CSN_OK;
}

const char *csn_answer_text(const csn_json *v, const char *key, size_t max)
{
    const csn_json *member = csn_json_get(v, key);
    csn_json_type type = csn_json_type_of(member);

    if (type == CSN_JSON_NONE || type == CSN_JSON_NULL)
        return "";
    if (type != CSN_JSON_STRING || csn_json_str_len(member) > max)
        return NULL;
    return csn_json_str(member, "");
}

bool csn_answer_is_id(const char *s)
{
    size_t n = 0;

    for (; s[n]; n++)
        if (!isalnum((unsigned char) s[n]) && s[n] != '-' && s[n] != '_')
            return false;
    return n > 0 && n < CSN_ANY_ID_SIZE;
}

static const struct {
    const char *word;
    csn_state state;
    bool has_failed;
} states[] = {
    { "started", CSN_STATE_STARTED, false },     { "stopped", CSN_STATE_STOPPED, false },
    { "archived", CSN_STATE_STOPPED, false },    { "paused", CSN_STATE_STOPPED, false },
    { "stopping", CSN_STATE_STARTED, false },    { "archiving", CSN_STATE_STOPPED, false },
    { "destroying", CSN_STATE_DELETING, false }, { "destroyed", CSN_STATE_DELETED, false },
    { "error", CSN_STATE_STOPPED, true },        { "build_failed", CSN_STATE_STOPPED, true },
};

static void read_state(csn_dto *dto)
{
    dto->state = CSN_STATE_CREATING; /* whatever else: it is on its way */
    for (size_t i = 0; i < CSN_COUNT(states); i++) {
        if (strcmp(states[i].word, dto->state_word) != 0)
            continue;
        dto->state = states[i].state;
        dto->has_failed = states[i].has_failed;
    }
}

static int read_labels(const csn_json *labels, csn_dto *dto, csn_error *err)
{
    csn_json_type type = csn_json_type_of(labels);

    if (type == CSN_JSON_NONE || type == CSN_JSON_NULL)
        return CSN_OK;
    if (type != CSN_JSON_OBJECT)
        return csn_answer_wrong(err, "\"labels\" is no object");
    for (void *it = csn_json_iter(labels); it; it = csn_json_iter_next(labels, it)) {
        const csn_json *value = csn_json_iter_value(it);

        if (csn_json_type_of(value) != CSN_JSON_STRING)
            return csn_answer_wrong(err, "a label is no text");
        if (dto->n_labels == CSN_DTO_LABELS_MAX)
            break; /* ours are looked for by name: these are shown, no more */
        dto->labels[dto->n_labels].key = csn_json_iter_key(it);
        dto->labels[dto->n_labels++].value = csn_json_str(value, "");
    }
    return CSN_OK;
}

static const char *url_of(const csn_json *v, const char *key)
{
    const char *url = csn_answer_text(v, key, URL_MAX_BYTES);
    csn_origin origin;

    if (!url || !url[0])
        return url;
    return csn_origin_parse(url, &origin) == 0 && url[strlen(url) - 1] != '/' ? url : NULL;
}

bool csn_answer_amount(const csn_json *v, const char *key, int64_t unit, int64_t *ret)
{
    const csn_json *member = csn_json_get(v, key);
    csn_json_type type = csn_json_type_of(member);
    double amount = csn_json_double(member, -1);

    *ret = -1;
    if (type == CSN_JSON_NONE || type == CSN_JSON_NULL)
        return true;
    if (!(amount >= 0 && amount * (double) unit < (double) AMOUNT_MAX))
        return false;
    *ret = (int64_t) (amount * (double) unit);
    return true;
}

static int read_limits(const csn_json *v, csn_dto *dto, csn_error *err)
{
    const char *destroy_at = csn_answer_text(v, "autoDestroyAt", 64);
    int64_t destroy_ms;

    if (!csn_answer_amount(v, "cpu", 1000, &dto->cpu_milli) ||
        !csn_answer_amount(v, "memory", GIB, &dto->memory_bytes) ||
        !csn_answer_amount(v, "disk", GIB, &dto->disk_bytes))
        return csn_answer_wrong(err, "\"cpu\", \"memory\" or \"disk\" of a sandbox is no amount");
    dto->stop_min = csn_json_get_int(v, "autoStopInterval", 0);
    dto->delete_min = csn_json_get_int(v, "autoDeleteInterval", -1);
    if (dto->stop_min < 0 || dto->stop_min > INTERVAL_MAX || dto->delete_min > INTERVAL_MAX)
        return csn_answer_wrong(err, "an interval of a sandbox is none");
    if (dto->created_ms > 0 && destroy_at && csn_parse_iso8601(destroy_at, &destroy_ms) == 0 &&
        destroy_ms > dto->created_ms)
        dto->ttl_ms = destroy_ms - dto->created_ms;
    return CSN_OK;
}

int csn_dto_read(const csn_json *v, csn_dto *ret, csn_error *err)
{
    csn_dto dto = { 0 };
    const char *id = csn_answer_text(v, "id", CSN_ANY_ID_SIZE), *created;

    if (csn_json_type_of(v) != CSN_JSON_OBJECT)
        return csn_answer_wrong(err, "a sandbox is no object");
    if (!id || !csn_answer_is_id(id))
        return csn_answer_wrong(err, "\"id\" of a sandbox is missing or none");
    memcpy(dto.id, id, strlen(id) + 1);
    dto.name = csn_answer_text(v, "name", NAME_MAX_BYTES);
    dto.state_word = csn_answer_text(v, "state", WORD_MAX);
    dto.reason = csn_answer_text(v, "errorReason", REASON_MAX);
    dto.toolbox = url_of(v, "toolboxProxyUrl");
    dto.image = csn_answer_text(v, "snapshot", NAME_MAX_BYTES);
    created = csn_answer_text(v, "createdAt", 64);
    if (!dto.name || !dto.image || !created)
        return csn_answer_wrong(err,
                                "\"name\", \"snapshot\" or \"createdAt\" of a sandbox is no text");
    if (!dto.state_word || !dto.state_word[0])
        return csn_answer_wrong(err, "\"state\" of a sandbox is missing or no text");
    if (!dto.reason)
        dto.reason = "";
    if (!dto.toolbox)
        return csn_answer_wrong(err, "\"toolboxProxyUrl\" of a sandbox is no URL");
    if (csn_parse_iso8601(created, &dto.created_ms) < 0)
        dto.created_ms = 0;
    dto.blocks_network = csn_json_get_bool(v, "networkBlockAll", false);
    read_state(&dto);
    int r = read_limits(v, &dto, err);
    if (r >= 0)
        r = read_labels(csn_json_get(v, "labels"), &dto, err);
    if (r >= 0)
        *ret = dto;
    return r;
}

int csn_dto_parse(const char *data, size_t len, csn_json **ret_doc, csn_dto *ret, csn_error *err)
{
    int r = csn_answer_parse(data, len, ret_doc, err);

    if (r < 0)
        return r;
    r = csn_dto_read(*ret_doc, ret, err);
    if (r < 0)
        *ret_doc = csn_json_free(*ret_doc);
    return r;
}

int csn_dto_list_parse(const char *data, size_t len, csn_json **ret_doc, const csn_json **ret_items,
                       const char **ret_cursor, csn_error *err)
{
    int r = csn_answer_parse(data, len, ret_doc, err);

    if (r < 0)
        return r;
    *ret_items = csn_json_get(*ret_doc, "items");
    *ret_cursor = csn_answer_text(*ret_doc, "nextCursor", 1024);
    if (csn_json_type_of(*ret_items) != CSN_JSON_ARRAY)
        r = csn_answer_wrong(err, "\"items\" of a list is no array");
    else if (csn_json_count(*ret_items) > CSN_DTO_LIST_MAX)
        r = csn_answer_wrong(err, "a page of a list is longer than was asked for");
    else if (!*ret_cursor)
        r = csn_answer_wrong(err, "\"nextCursor\" of a list is no text");
    if (r < 0)
        *ret_doc = csn_json_free(*ret_doc);
    return r;
}

int csn_url_answer_parse(const char *data, size_t len, csn_json **ret_doc, const char **ret_url,
                         csn_error *err)
{
    int r = csn_answer_parse(data, len, ret_doc, err);

    if (r < 0)
        return r;
    *ret_url = url_of(*ret_doc, "url");
    if (*ret_url && (*ret_url)[0])
        return CSN_OK;
    *ret_doc = csn_json_free(*ret_doc);
    return csn_answer_wrong(err, "\"url\" is missing or none");
}

int csn_metrics_answer_parse(const char *data, size_t len, csn_metrics_answer *ret, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    int r = csn_answer_parse(data, len, &doc, err);

    if (r < 0)
        return r;
    if (csn_json_type_of(doc) != CSN_JSON_OBJECT ||
        !csn_answer_amount(doc, "memUsed", 1, &ret->memory_bytes) ||
        !csn_answer_amount(doc, "diskUsed", 1, &ret->disk_bytes))
        return csn_answer_wrong(err, "\"memUsed\" or \"diskUsed\" is no amount");
    return CSN_OK;
}

int csn_exec_answer_parse(const char *data, size_t len, csn_json **ret_doc, csn_exec_answer *ret,
                          csn_error *err)
{
    const csn_json *code, *output;
    int r = csn_json_parse_with_nul(data, len, ret_doc);

    if (r < 0)
        return r == -ENOMEM ? csn_fail(err, CSN_E_NO_MEMORY, "read the service's answer")
                            : csn_answer_wrong(err, "it is no JSON");
    code = csn_json_get(*ret_doc, "exitCode");
    output = csn_json_get(*ret_doc, "result");
    if (csn_json_type_of(code) != CSN_JSON_INT || csn_json_int(code, -2) < -1 ||
        csn_json_int(code, -2) > 255)
        r = csn_answer_wrong(err, "\"exitCode\" is missing or none");
    else if (csn_json_type_of(output) != CSN_JSON_STRING)
        r = csn_answer_wrong(err, "\"result\" is missing or no text");
    if (r < 0) {
        *ret_doc = csn_json_free(*ret_doc);
        return r;
    }
    *ret = (csn_exec_answer){ .exit_code = (int) csn_json_int(code, -1),
                              .output = csn_json_str(output, ""),
                              .output_len = csn_json_str_len(output) };
    return CSN_OK;
}

int csn_started_answer_parse(const char *data, size_t len, char ret_id[CSN_ANY_ID_SIZE],
                             csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    const char *id;
    int r = csn_answer_parse(data, len, &doc, err);

    if (r < 0)
        return r;
    id = csn_answer_text(doc, "cmdId", CSN_ANY_ID_SIZE - 1);
    if (!id || !csn_answer_is_id(id) || csn_str_copy(ret_id, CSN_ANY_ID_SIZE, csn_str_of(id)) < 0)
        return csn_answer_wrong(err, "\"cmdId\" is missing or none");
    return CSN_OK;
}

int csn_command_answer_parse(const char *data, size_t len, bool *ret_is_ended, int *ret_exit_code,
                             csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_json_type type;
    int64_t code;
    int r = csn_answer_parse(data, len, &doc, err);

    if (r < 0)
        return r;
    if (csn_json_type_of(doc) != CSN_JSON_OBJECT)
        return csn_answer_wrong(err, "it is no object");
    type = csn_json_type_of(csn_json_get(doc, "exitCode"));
    code = csn_json_int(csn_json_get(doc, "exitCode"), -2);
    *ret_is_ended = type == CSN_JSON_INT;
    if (type == CSN_JSON_NONE || type == CSN_JSON_NULL)
        return CSN_OK;
    if (type != CSN_JSON_INT || code < -1 || code > 255)
        return csn_answer_wrong(err, "\"exitCode\" is none");
    *ret_exit_code = (int) code;
    return CSN_OK;
}

/* ---- words for people ---- */

static size_t secret_at(const char *text, size_t len, const char *secret)
{
    size_t n = secret ? strlen(secret) : 0;

    return n > 0 && n <= len && memcmp(text, secret, n) == 0 ? n : 0;
}

void csn_words_of(const char *text, size_t len, const char *secret, char out[CSN_WORDS_SIZE])
{
    static const char mark[] = "[REDACTED]";
    size_t n = 0;

    for (size_t i = 0; i < len;) {
        size_t hidden = secret_at(text + i, len - i, secret);
        unsigned code = 0;
        int step = hidden ? 0 : csn_utf8_next(text + i, len - i, &code);
        bool is_plain = step > 0 && code >= ' ' && code != 0x7f && !(code >= 0x80 && code < 0xa0);
        const char *piece = hidden ? mark : is_plain ? text + i : " ";
        size_t piece_len = hidden ? sizeof(mark) - 1 : is_plain ? (size_t) step : 1;

        if (n + piece_len >= CSN_WORDS_SIZE)
            break;
        memcpy(out + n, piece, piece_len);
        n += piece_len;
        i += hidden ? hidden : step > 0 ? (size_t) step : 1;
    }
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = '\0';
}

void csn_error_words(const char *data, size_t len, const char *secret, char out[CSN_WORDS_SIZE])
{
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *words;

    out[0] = '\0';
    if (csn_json_parse(data, len, &doc, NULL) < 0)
        return;
    words = csn_json_get(doc, "message");
    if (csn_json_type_of(words) == CSN_JSON_ARRAY)
        words = csn_json_at(words, 0);
    if (csn_json_type_of(words) != CSN_JSON_STRING)
        words = csn_json_get(doc, "error");
    if (csn_json_type_of(words) == CSN_JSON_STRING)
        csn_words_of(csn_json_str(words, ""), csn_json_str_len(words), secret, out);
}
