/* SPDX-License-Identifier: Apache-2.0 */
#include "answer_named.h"

#include <string.h>

#include "base/err.h"
#include "base/time.h"

enum { NAME_BYTES_MAX = 256, WORD_MAX = 32, REASON_MAX = 1024, PAGES_MAX = 1000000 };

#define GIB (INT64_C(1) << 30)

static bool is_shown(const char *text)
{
    for (; *text; text++)
        if ((unsigned char) *text < ' ' || *text == 0x7f)
            return false;
    return true;
}

static int read_entrypoint(const csn_json *list, csn_named_dto *dto, csn_error *err)
{
    csn_json_type type = csn_json_type_of(list);
    size_t n = csn_json_count(list);

    if (type == CSN_JSON_NONE || type == CSN_JSON_NULL)
        return CSN_OK;
    if (type != CSN_JSON_ARRAY || n > CSN_ENTRYPOINT_MAX)
        return csn_answer_wrong(err, "\"entrypoint\" is no list of words");
    for (size_t i = 0; i < n; i++) {
        dto->entrypoint[i] = csn_json_str(csn_json_at(list, i), NULL);
        if (!dto->entrypoint[i])
            return csn_answer_wrong(err, "\"entrypoint\" is no list of words");
    }
    return CSN_OK;
}

int csn_named_read(const csn_json *v, csn_named_dto *ret, csn_error *err)
{
    csn_named_dto dto = { 0 };
    const char *id = csn_answer_text(v, "id", CSN_ANY_ID_SIZE), *created;

    if (csn_json_type_of(v) != CSN_JSON_OBJECT || !id || !csn_answer_is_id(id))
        return csn_answer_wrong(err, "\"id\" of a volume or snapshot is missing or none");
    memcpy(dto.id, id, strlen(id) + 1);
    dto.name = csn_answer_text(v, "name", NAME_BYTES_MAX);
    dto.state_word = csn_answer_text(v, "state", WORD_MAX);
    dto.reason = csn_answer_text(v, "errorReason", REASON_MAX);
    created = csn_answer_text(v, "createdAt", 64);
    if (!dto.name || !dto.name[0] || !is_shown(dto.name))
        return csn_answer_wrong(err, "\"name\" of a volume or snapshot is missing or none");
    if (!dto.state_word || !created || csn_parse_iso8601(created, &dto.created_ms) < 0)
        return csn_answer_wrong(err, "\"state\" or \"createdAt\" of a volume or snapshot is none");
    if (!dto.reason)
        dto.reason = "";
    if (!csn_answer_amount(v, "size", GIB, &dto.size_bytes))
        return csn_answer_wrong(err, "\"size\" of a snapshot is no amount");
    int r = read_entrypoint(csn_json_get(v, "entrypoint"), &dto, err);
    if (r >= 0)
        *ret = dto;
    return r;
}

int csn_named_parse(const char *data, size_t len, csn_json **ret_doc, csn_named_dto *ret,
                    csn_error *err)
{
    int r = csn_answer_parse(data, len, ret_doc, err);

    if (r >= 0 && (r = csn_named_read(*ret_doc, ret, err)) < 0)
        *ret_doc = csn_json_free(*ret_doc);
    return r;
}

int csn_page_answer_parse(const char *data, size_t len, csn_json **ret_doc,
                          const csn_json **ret_items, int64_t *ret_n_pages, csn_error *err)
{
    int r = csn_answer_parse(data, len, ret_doc, err);

    if (r < 0)
        return r;
    *ret_items = csn_json_get(*ret_doc, "items");
    *ret_n_pages = csn_json_get_int(*ret_doc, "totalPages", -1);
    if (csn_json_type_of(*ret_items) == CSN_JSON_ARRAY && *ret_n_pages >= 0 &&
        *ret_n_pages <= PAGES_MAX)
        return CSN_OK;
    *ret_doc = csn_json_free(*ret_doc);
    return csn_answer_wrong(err, "a page has no \"items\" or \"totalPages\"");
}

csn_named_state csn_named_state_of(const csn_named_dto *dto)
{
    static const struct {
        const char *word;
        csn_named_state state;
    } all[] = {
        { "ready", CSN_NAMED_READY },         { "active", CSN_NAMED_READY },
        { "inactive", CSN_NAMED_READY },      { "pending_delete", CSN_NAMED_GOING },
        { "deleting", CSN_NAMED_GOING },      { "removing", CSN_NAMED_GOING },
        { "deleted", CSN_NAMED_GONE },        { "error", CSN_NAMED_FAILED },
        { "build_failed", CSN_NAMED_FAILED },
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i].word, dto->state_word) == 0)
            return all[i].state;
    return CSN_NAMED_COMING;
}
