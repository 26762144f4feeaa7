/* SPDX-License-Identifier: Apache-2.0 */
#include "marks.h"

#include <stdbool.h>

enum { MARK_LEN = 3 };

static bool may_mark(char c)
{
    return c == CSN_STDOUT || c == CSN_STDERR; /* the bytes are the streams' numbers */
}

size_t csn_marks_next(csn_marks *m, const char *data, size_t len, csn_stream *ret_stream,
                      const char **ret_text, size_t *ret_len)
{
    size_t n = 0;

    if (!m->stream)
        m->stream = CSN_STDOUT;
    *ret_stream = m->stream;
    *ret_text = m->held;
    *ret_len = 0;
    if (len == 0)
        return 0;
    if (m->n_held > 0 && data[0] != m->held[0]) {
        *ret_len = m->n_held;
        m->n_held = 0;
        return 0;
    }
    if (m->n_held + 1 == MARK_LEN) {
        m->stream = data[0] == CSN_STDERR ? CSN_STDERR : CSN_STDOUT;
        m->n_held = 0;
        return 1;
    }
    if (may_mark(data[0])) {
        m->held[m->n_held++] = data[0];
        return 1;
    }
    while (n < len && !may_mark(data[n]))
        n++;
    *ret_text = data;
    *ret_len = n;
    return n;
}
