#include <stdint.h>

#include "base/json.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What parses can be written, and what was written parses. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(json) csn_json *again = NULL;
    char where[160];

    if (csn_json_parse((const char *) data, size, &doc, where) < 0)
        return 0;
    csn_jw w = CSN_JW_INIT(&text, size % 2);
    csn_jw_value(&w, doc);
    if (text.error < 0 || csn_json_parse(text.data, text.len, &again, where) < 0)
        __builtin_trap();
    return 0;
}
