/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: parts are separated by CRLF "--" boundary. CR stands nowhere else in that delimiter, so a match
 * that fails can begin anew only at the byte that broke it, and the bytes matched so far are the delimiter's own: they
 * are counted, not kept. The body is read as if a CRLF stood before it. */
#include "server/multipart.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fault.h"
#include "server/http1.h"
#include "server/part_head.h"

enum { SCAN_SIZE = 64 };

typedef enum state {
    PREAMBLE, /* dropped */
    TAIL,     /* behind a delimiter: CRLF or "--" */
    TAIL_SPACE,
    TAIL_LF,
    TAIL_DASH,
    HEAD,
    DATA,
    EPILOGUE /* dropped */
} state;

struct csn_multipart {
    csn_multipart_events events;
    void *user;
    csn_buf head;
    csn_part_head part;
    state state;
    int error;
    size_t n_parts;
    size_t matched; /* bytes of the delimiter that came last */
    size_t n_delim;
    char delim[CSN_BOUNDARY_MAX + 8];
};

int csn_multipart_new(const char *content_type, const csn_multipart_events *events, void *user,
                      csn_multipart **ret)
{
    char boundary[CSN_BOUNDARY_MAX + 1];
    int r = csn_part_boundary(content_type, boundary);

    if (r < 0)
        return r;
    csn_multipart *m = csn_calloc(1, sizeof(*m));
    if (!m)
        return -ENOMEM;
    m->events = *events;
    m->user = user;
    m->head = (csn_buf) CSN_BUF_INIT_MAX(CSN_PART_HEAD_MAX);
    m->part = (csn_part_head) CSN_PART_HEAD_INIT;
    memcpy(m->delim, "\r\n--", 4);
    memcpy(m->delim + 4, boundary, strlen(boundary) + 1);
    m->n_delim = 4 + strlen(boundary);
    m->matched = 2;
    *ret = m;
    return 0;
}

csn_multipart *csn_multipart_free(csn_multipart *m)
{
    if (!m)
        return NULL;
    csn_part_head_done(&m->part);
    csn_buf_free(&m->head);
    free(m);
    return NULL;
}

static int emit(csn_multipart *m, const char *data, size_t len)
{
    if (m->state == PREAMBLE || len == 0)
        return 0;
    return m->events.on_data(&m->part.part, data, len, m->user);
}

static int end_part(csn_multipart *m)
{
    bool was_part = m->state == DATA;

    m->state = TAIL;
    m->matched = 0;
    return was_part ? m->events.on_end(&m->part.part, m->user) : 0;
}

/* Goes on with a delimiter that a piece broke off. Returns bytes used or a negative error. */
static ssize_t match_on(csn_multipart *m, const char *data, size_t len)
{
    size_t n = 0;

    while (n < len && m->matched < m->n_delim && data[n] == m->delim[m->matched]) {
        n++;
        m->matched++;
    }
    int r = 0;
    if (m->matched == m->n_delim) {
        r = end_part(m);
    } else if (n < len) {
        size_t was = m->matched;
        m->matched = 0;
        r = emit(m, m->delim, was);
    }
    return r < 0 ? r : (ssize_t) n;
}

/* How many bytes at the end may be the start of a delimiter. */
static size_t open_end(const csn_multipart *m, const char *data, size_t len)
{
    size_t look = len < m->n_delim - 1 ? len : m->n_delim - 1;
    const char *cr = memrchr(data + len - look, '\r', look);
    size_t n = cr ? (size_t) (data + len - cr) : 0;

    return n > 0 && memcmp(cr, m->delim, n) == 0 ? n : 0;
}

/* Looks at 64 places at once whether the delimiter's first and last byte stand where they would. memmem() alone takes
 * six times as long on text. */
static bool may_begin_here(const char *data, const char *ends, char first, char last)
{
    typedef char lane __attribute__((vector_size(16)));
    lane any = { 0 };

    for (int i = 0; i < SCAN_SIZE; i += (int) sizeof(lane)) {
        lane a, b;
        memcpy(&a, data + i, sizeof(a));
        memcpy(&b, ends + i, sizeof(b));
        any |= (lane) (a == first) & (lane) (b == last);
    }
    uint64_t halves[2];
    memcpy(halves, &any, sizeof(halves));
    return (halves[0] | halves[1]) != 0;
}

static const char *find_delim(const csn_multipart *m, const char *data, size_t len)
{
    const char *found = NULL;
    size_t n = m->n_delim, at = 0;

    for (; !found && at + SCAN_SIZE + n - 1 <= len; at += SCAN_SIZE)
        if (may_begin_here(data + at, data + at + n - 1, m->delim[0], m->delim[n - 1]))
            found = memmem(data + at, SCAN_SIZE + n - 1, m->delim, n);
    return found ? found : memmem(data + at, len - at, m->delim, n);
}

static ssize_t take_data(csn_multipart *m, const char *data, size_t len)
{
    if (m->matched > 0)
        return match_on(m, data, len);
    const char *at = find_delim(m, data, len);
    size_t n = at ? (size_t) (at - data) : len - open_end(m, data, len);
    int r = emit(m, data, n);
    if (r < 0)
        return r;
    if (at) {
        r = end_part(m);
        return r < 0 ? r : (ssize_t) (n + m->n_delim);
    }
    m->matched = len - n;
    return (ssize_t) len;
}

static int take_tail(csn_multipart *m, char c)
{
    if (m->state == TAIL && c == '-')
        m->state = TAIL_DASH;
    else if (m->state == TAIL_DASH && c == '-')
        m->state = EPILOGUE;
    else if ((m->state == TAIL || m->state == TAIL_SPACE) && (c == ' ' || c == '\t'))
        m->state = TAIL_SPACE;
    else if ((m->state == TAIL || m->state == TAIL_SPACE) && c == '\r')
        m->state = TAIL_LF;
    else if (m->state == TAIL_LF && c == '\n')
        m->state = HEAD;
    else
        return -EBADMSG;
    return 0;
}

static int begin_part(csn_multipart *m)
{
    int r = csn_part_head_parse(&m->part, csn_str_n(m->head.data, m->head.len));

    csn_buf_free(&m->head);
    if (r < 0)
        return r;
    if (++m->n_parts > CSN_PARTS_MAX)
        return -E2BIG;
    m->state = DATA;
    return m->events.on_part(&m->part.part, m->user);
}

/* Up to the end of a line. */
static ssize_t take_head(csn_multipart *m, const char *data, size_t len)
{
    const char *lf = memchr(data, '\n', len);
    size_t n = lf ? (size_t) (lf - data) + 1 : len;

    if (csn_buf_append(&m->head, data, n) < 0)
        return m->head.error;
    if (!lf)
        return (ssize_t) n;
    csn_str all = csn_str_n(m->head.data, m->head.len);
    if (!csn_str_ends_with(all, CSN_STR("\r\n")))
        return -EBADMSG;
    if (all.len == 2 || csn_str_ends_with(all, CSN_STR("\r\n\r\n"))) {
        int r = begin_part(m);
        return r < 0 ? r : (ssize_t) n;
    }
    return (ssize_t) n;
}

static ssize_t take(csn_multipart *m, const char *data, size_t len)
{
    switch (m->state) {
    case PREAMBLE:
    case DATA:
        return take_data(m, data, len);
    case HEAD:
        return take_head(m, data, len);
    case EPILOGUE:
        return (ssize_t) len;
    case TAIL:
    case TAIL_SPACE:
    case TAIL_LF:
    case TAIL_DASH:
        break;
    }
    int r = take_tail(m, data[0]);
    return r < 0 ? r : 1;
}

int csn_multipart_feed(csn_multipart *m, const char *data, size_t len)
{
    while (len > 0 && m->error == 0) {
        ssize_t n = take(m, data, len);

        if (n < 0) {
            m->error = (int) n;
            break;
        }
        data += n;
        len -= (size_t) n;
    }
    return m->error;
}

int csn_multipart_finish(csn_multipart *m)
{
    if (m->error == 0 && m->state != EPILOGUE)
        m->error = -EBADMSG;
    return m->error;
}
