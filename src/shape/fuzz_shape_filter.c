/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "shape/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Lines "key=value" are the query. */
static const char *from_lines(const char *key, size_t i, void *user)
{
    for (char **line = user; *line; line++) {
        char *equals = strchr(*line, '=');
        size_t len = strlen(key);
        if (equals && (size_t) (equals - *line) == len && strncmp(*line, key, len) == 0 && i-- == 0)
            return equals + 1;
    }
    return NULL;
}

static csn_shape_sandbox a_sandbox(const char *id, int64_t ms)
{
    return (csn_shape_sandbox){ .id = id,
                                .org_id = "o",
                                .name = "name",
                                .user = "u",
                                .target = "local",
                                .toolbox_url = "",
                                .env = "{}",
                                .labels = "{}",
                                .mounts = "[]",
                                .state = "started",
                                .desired_state = "started",
                                .created_ms = ms,
                                .updated_ms = ms,
                                .active_ms = ms };
}

/* Order is order: never equal, never both before each other; and a cursor made of an element excludes it. */
static void check(csn_filter *f)
{
    csn_shape_sandbox a = a_sandbox("00000000-0000-4000-8000-000000000001", 1),
                      b = a_sandbox("00000000-0000-4000-8000-000000000002", 2);
    csn_auto(map) csn_map labels = { 0 };
    csn_auto(buf) csn_buf cursor = CSN_BUF_INIT;
    int error = 0;

    (void) csn_filter_fits(f, &a, &labels);
    (void) csn_filter_is_after(f, &a, &error);
    if ((csn_filter_compare(f, &a, &b) < 0) == (csn_filter_compare(f, &b, &a) < 0))
        __builtin_trap();
    if (csn_filter_cursor(f, &a, &cursor) < 0)
        return;
    f->cursor = cursor.data;
    error = 0;
    if (csn_filter_is_after(f, &a, &error) || error < 0)
        __builtin_trap();
    if (csn_filter_is_after(f, &b, &error) != (csn_filter_compare(f, &a, &b) < 0))
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_auto(mem) char *text = strndup((const char *) data, size);
    char *lines[33] = { NULL };
    size_t n = 0;
    csn_error err = { 0 };

    if (!text)
        return 0;
    for (char *at = text; at && n < 32; n++) {
        lines[n] = at;
        at = strchr(at, '\n');
        if (at)
            *at++ = '\0';
    }
    for (int i = 0; i < 2; i++) {
        csn_auto(filter) csn_filter f = { 0 };
        int r = csn_filter_read(from_lines, lines, i, &f, &err);
        if (r == CSN_OK)
            check(&f);
        else if (!err.message[0])
            __builtin_trap();
    }
    return 0;
}
