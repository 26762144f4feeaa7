/* SPDX-License-Identifier: Apache-2.0 */
#include "server/artifacts.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"

static bool take_chart(csn_str line, csn_buf *charts)
{
    const csn_str marker = CSN_STR(CSN_ARTIFACT_MARKER);
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *value;

    if (!csn_str_starts_with(line, marker) ||
        csn_json_parse(line.data + marker.len, line.len - marker.len, &doc, NULL) < 0)
        return false;
    value = csn_json_get(doc, "value");
    if (!csn_streq(csn_json_get_str(doc, "type", ""), "chart") ||
        csn_json_type_of(value) != CSN_JSON_OBJECT)
        return false;
    if (charts->len > 0)
        (void) csn_buf_putc(charts, ','); /* sticky */
    (void) csn_json_dump(value, false, charts);
    return true;
}

void csn_artifacts_split(const char *output, size_t len, csn_buf *rest, csn_buf *charts)
{
    while (len > 0) {
        const char *end = memchr(output, '\n', len);
        size_t n = end ? (size_t) (end - output) : len, whole = n + (end ? 1 : 0);

        if (!take_chart(csn_str_n(output, n), charts))
            (void) csn_buf_append(rest, output, whole); /* sticky */
        output += whole;
        len -= whole;
    }
}
