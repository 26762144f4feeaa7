/* What the two written reports share: safe text, cut previews, order and pictures. */
#ifndef CSN_ARENA_REPORT_H
#define CSN_ARENA_REPORT_H

#include <stddef.h>

#include <caisson/arena.h>

#include "base/buf.h"
#include "json.h"

/* Text as HTML: markup escaped, bad UTF-8 as U+FFFD, control characters and bidirectional overrides made visible. */
void csn_html_text(csn_buf *out, const char *data, size_t len);

/* Bytes of a preview: the head and the tail, whole characters, and how many lie between. */
typedef struct csn_preview {
    const char *head, *tail;
    size_t n_head, n_tail, n_left_out;
} csn_preview;
csn_preview csn_preview_of(const char *data, size_t len, size_t max);
size_t csn_preview_max(const csn_arena_result *r);

/* Candidates from the best to the worst; the disqualified ones last. `order` has room for all. */
void csn_rank(const csn_arena_result *r, size_t *order);

const char *csn_no_winner_why(const csn_arena_result *r); /* without a full stop */
const char *csn_no_sandbox_advice(const csn_arena_result *r);
const char *csn_text_score(const csn_score *score, char out[32]);
const char *csn_text_size(int64_t bytes, char out[32]);
const char *csn_text_memory(const csn_spread *memory,
                            char out[32]); /* its median; "–": not known */
const char *csn_text_seconds(double s, char out[32]);

/* Inline pictures. */
void csn_svg_bars(csn_buf *out, const csn_arena_result *r, const size_t *order);
void csn_svg_timeline(csn_buf *out, const csn_arena_result *r);
void csn_svg_spread(csn_buf *out, const csn_arena_result *r, const size_t *order);

void csn_report_html(csn_sink *sink, const csn_arena_result *r, const size_t *order);
void csn_report_markdown(csn_sink *sink, const csn_arena_result *r, const size_t *order);

#endif
