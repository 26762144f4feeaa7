/* What a chat message says, as one text. */
#include <errno.h>
#include <string.h>

#include <caisson/blocks.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

/* One part; 0, or -EINVAL for what no message may hold. */
static int put_part(const csn_json *part, csn_buf *out)
{
    const char *type = csn_json_get_str(part, "type", "");

    if (csn_json_type_of(part) != CSN_JSON_OBJECT)
        return -EINVAL;
    if (csn_streq(type, "text") || csn_streq(type, "input_text")) {
        const csn_json *text = csn_json_get(part, "text");

        csn_buf_append(out, csn_json_str(text, ""), csn_json_str_len(text));
        return 0;
    }
    if (csn_streq(type, "image_url") || csn_streq(type, "input_image") ||
        csn_streq(type, "image")) {
        csn_buf_puts(out, "<image>");
        return 0;
    }
    if (csn_streq(type, "function") || csn_streq(type, "tool_call") ||
        csn_streq(type, "tool_calls") || csn_streq(type, "function_call")) {
        const csn_json *function = csn_json_get(part, "function");

        csn_buf_printf(out, "<function: %s>",
                       csn_json_get_str(function ? function : part, "name", ""));
        return 0;
    }
    return -EINVAL;
}

int csn_message_text(const char *json, size_t len, char **ret_text, size_t *ret_len, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    char where[160], *text;

    if (csn_json_parse(json, len, &doc, where) < 0)
        return csn_fail(err, CSN_E_INVALID, "the message is no JSON: %s", where);
    if (csn_json_type_of(doc) == CSN_JSON_STRING) {
        csn_buf_append(&out, csn_json_str(doc, ""), csn_json_str_len(doc));
    } else if (csn_json_type_of(doc) == CSN_JSON_ARRAY) {
        for (size_t i = 0; i < csn_json_count(doc); i++) {
            if (i)
                csn_buf_putc(&out, '\n');
            if (put_part(csn_json_at(doc, i), &out) < 0)
                return csn_fail(err, CSN_E_INVALID, "part %zu of the message has no known type", i);
        }
    } else if (csn_json_type_of(doc) != CSN_JSON_NULL) {
        return csn_fail(err, CSN_E_INVALID, "a message is null, a string or a list of parts");
    }
    text = csn_buf_take(&out, ret_len);
    if (!text)
        return csn_fail_sys(err, -ENOMEM, "read the message");
    *ret_text = text;
    return CSN_OK;
}
