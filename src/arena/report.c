#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/utf8.h"

static const char *entity_of(unsigned code)
{
    switch (code) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

/* Characters that would move, hide or reorder what stands around them. */
static bool is_mischief(unsigned c)
{
    return (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
           (c >= 0xfff9 && c <= 0xfffb);
}

void csn_html_text(csn_buf *out, const char *data, size_t len)
{
    for (size_t i = 0; i < len;) {
        unsigned code = 0;
        int step = csn_utf8_next(data + i, len - i, &code);
        const char *entity;

        if (step <= 0) {
            csn_buf_puts(out, "\xef\xbf\xbd");
            i++;
            continue;
        }
        entity = entity_of(code);
        if (entity)
            csn_buf_puts(out, entity);
        else if (code == '\r' && i + 1 < len && data[i + 1] == '\n')
            ; /* the line ends anyway */
        else if (code < 0x20 && code != '\n' && code != '\t')
            csn_buf_printf(out, "&#x%x;", 0x2400 + code); /* its picture: ␛ for ESC */
        else if (is_mischief(code))
            csn_buf_printf(out, "<i>U+%04X</i>", code);
        else
            csn_buf_append(out, data + i, (size_t) step);
        i += (size_t) step;
    }
}

static bool is_continuation(char c)
{
    return ((unsigned char) c & 0xc0) == 0x80;
}

csn_preview csn_preview_of(const char *data, size_t len, size_t max)
{
    size_t head = max * 3 / 4, tail = max / 4;

    if (len <= max)
        return (csn_preview){ data, data + len, len, 0, 0 };
    for (int i = 0; i < 3 && head > 0 && is_continuation(data[head]); i++)
        head--;
    for (int i = 0; i < 3 && tail > 0 && is_continuation(data[len - tail]); i++)
        tail--;
    return (csn_preview){ data, data + len - tail, head, tail, len - head - tail };
}

size_t csn_preview_max(const csn_arena_result *r)
{
    return r->n_candidates <= 32 ? 32768 : 4096;
}

static bool ranks_before(const csn_arena_result *r, size_t a, size_t b)
{
    const csn_score *x = &r->scores[a], *y = &r->scores[b];

    if ((int64_t) a == r->winner || (int64_t) b == r->winner)
        return (int64_t) a == r->winner;
    if (x->disqualified != y->disqualified)
        return !x->disqualified;
    return x->total_score > y->total_score;
}

void csn_rank(const csn_arena_result *r, size_t *order)
{
    for (size_t i = 0; i < r->n_candidates; i++) {
        size_t at = i;

        while (at > 0 && ranks_before(r, i, order[at - 1])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
}

const char *csn_text_size(int64_t bytes, char out[32])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double v = (double) bytes;
    size_t u = 0;

    while (v >= 1024 && u + 1 < CSN_COUNT(units)) {
        v /= 1024;
        u++;
    }
    (void) snprintf(out, 32, u == 0 ? "%.0f %s" : "%.1f %s", v, units[u]);
    return out;
}

static bool is_remote(const csn_arena_result *r)
{
    return strcmp(r->execution_mode, "daytona") == 0;
}

const char *csn_no_sandbox_advice(const csn_arena_result *r)
{
    return is_remote(r) ? "check DAYTONA_API_KEY and DAYTONA_API_URL, or run without --daytona"
                        : "caisson doctor";
}

const char *csn_no_winner_why(const csn_arena_result *r)
{
    if (r->no_sandbox)
        return is_remote(r) ? "no sandbox could be made in Daytona" : "no sandbox could be made here";
    return r->cancelled ? "the run was cancelled" : "no candidate passed every gate";
}

const char *csn_text_verdict(const csn_score *score)
{
    return score->disqualified ? "disqualified" : "qualified";
}

/* Of somebody who is out the score stands in brackets: it decides nothing. */
const char *csn_text_score(const csn_score *score, char out[32])
{
    (void) snprintf(out, 32, score->disqualified ? "(%.1f)" : "%.1f", score->total_score);
    return out;
}

const char *csn_text_memory(const csn_spread *memory, char out[32])
{
    return isnan(memory->median) ? "–" : csn_text_size((int64_t) memory->median, out);
}

const char *csn_text_seconds(double s, char out[32])
{
    if (s < 0)
        (void) snprintf(out, 32, "–");
    else if (s < 0.9995)
        (void) snprintf(out, 32, "%.0f ms", s * 1000);
    else if (s < 100)
        (void) snprintf(out, 32, "%.2f s", s);
    else
        (void) snprintf(out, 32, "%.0f s", s);
    return out;
}

int csn_arena_report(const csn_arena_result *result, csn_report_format format, int fd,
                     csn_error *err)
{
    size_t *order = csn_calloc(result->n_candidates + 1, sizeof(*order));
    csn_sink sink;
    csn_jw w = CSN_JW_INIT(&sink.buf, true);

    if (!order)
        return csn_fail(err, CSN_E_NO_MEMORY, "out of memory");
    csn_sink_init(&sink, fd);
    csn_rank(result, order);
    switch (format) {
    case CSN_REPORT_JSON:
        csn_put_arena(&sink, &w, result);
        break;
    case CSN_REPORT_HTML:
        csn_report_html(&sink, result, order);
        break;
    case CSN_REPORT_MARKDOWN:
        csn_report_markdown(&sink, result, order);
        break;
    default:
        sink.error = -EINVAL;
    }
    free(order);
    return csn_sink_done(&sink, err);
}
