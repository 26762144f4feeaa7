/* The same report as Markdown: for a pull request, a chat, a terminal. */
#include <string.h>

#include "base/utf8.h"
#include "report.h"

#define PREVIEW 4096

/* One line of running text or a table's cell. */
static void put_inline(csn_buf *out, const char *text)
{
    csn_auto(buf) csn_buf safe = CSN_BUF_INIT;
    csn_preview p = csn_preview_of(text, strlen(text), 2000);

    csn_escape_terminal(p.head, p.n_head, &safe);
    csn_buf_puts(&safe, p.n_left_out > 0 ? " … " : "");
    csn_escape_terminal(p.tail, p.n_tail, &safe);
    for (size_t i = 0; i < safe.len; i++) {
        char c = safe.data[i];

        if (c == '<' || c == '>')
            csn_buf_puts(out, c == '<' ? "&lt;" : "&gt;");
        else if (c == '\n' || c == '\t')
            csn_buf_putc(out, ' ');
        else if (strchr("\\`*_[]|#~!", c))
            csn_buf_printf(out, "\\%c", c);
        else
            csn_buf_putc(out, c);
    }
}

/* A fence that the text can't close: one backtick more than its longest run. */
static size_t fence_length(const char *data, size_t len)
{
    size_t longest = 2, run = 0;

    for (size_t i = 0; i < len; i++) {
        run = data[i] == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest + 1;
}

static void put_fence(csn_buf *out, size_t n)
{
    while (n-- > 0)
        csn_buf_putc(out, '`');
}

static void put_block(csn_sink *k, const char *title, const char *data, size_t len)
{
    csn_preview p = csn_preview_of(data, len, PREVIEW);
    csn_auto(buf) csn_buf safe = CSN_BUF_INIT;
    size_t fence;

    csn_escape_terminal(p.head, p.n_head, &safe);
    if (p.n_left_out > 0) {
        csn_buf_printf(&safe, "\n… %zu bytes left out here …\n", p.n_left_out);
        csn_escape_terminal(p.tail, p.n_tail, &safe);
    }
    fence = fence_length(safe.data, safe.len);
    csn_buf_printf(&k->buf, "%s:\n\n", title);
    put_fence(&k->buf, fence);
    csn_buf_puts(&k->buf, "text\n");
    csn_buf_append(&k->buf, safe.data, safe.len);
    csn_buf_puts(&k->buf, safe.len > 0 && safe.data[safe.len - 1] == '\n' ? "" : "\n");
    put_fence(&k->buf, fence);
    csn_buf_puts(&k->buf, "\n\n");
    csn_sink_flush(k, false);
}

static void put_scores(csn_buf *out, const csn_arena_result *r, const size_t *order)
{
    csn_buf_puts(out,
                 "| Candidate | Success | Verdict | Quality | Speed | Score | Time | Remark |\n"
                 "|---|---|---|---:|---:|---:|---:|---|\n");
    for (size_t i = 0; i < r->n_candidates; i++) {
        const csn_score *s = &r->scores[order[i]];
        const char *bold = s->disqualified ? "" : "**";
        char took[32], score[32];

        csn_buf_puts(out, "| ");
        put_inline(out, r->names[order[i]]);
        csn_buf_printf(
            out, " | %s | %s | %.1f | %.1f | %s%s%s | %s | ", s->success ? "PASS" : "FAIL",
            csn_text_verdict(s), s->quality_score, s->speed_score, bold, csn_text_score(s, score),
            bold, csn_text_seconds(r->results[order[i]]->t_exec >= 0 ? s->exec_seconds : -1, took));
        put_inline(out, s->reason ? s->reason : "");
        csn_buf_puts(out, " |\n");
    }
}

static void put_trials(csn_buf *out, const csn_arena_result *r, const size_t *order)
{
    csn_buf_puts(
        out, "\n## Trials\n\n| Candidate | n | Success | 95 % interval | Median time | Middle half "
             "| Median memory |\n|---|---:|---:|---|---:|---|---:|\n");
    for (size_t i = 0; i < r->n_candidates; i++) {
        const csn_trial_stats *s = &r->stats[order[i]];
        char a[32], b[32], c[32], m[32];

        csn_buf_puts(out, "| ");
        put_inline(out, r->names[order[i]]);
        csn_buf_printf(
            out, " | %u | %.0f %% | %.0f – %.0f %% | %s | %s – %s | %s |\n", s->n,
            100 * s->success_rate, 100 * s->wilson_low, 100 * s->wilson_high,
            csn_text_seconds(s->exec_seconds.median, a), csn_text_seconds(s->exec_seconds.q1, b),
            csn_text_seconds(s->exec_seconds.q3, c), csn_text_memory(&s->peak_memory_bytes, m));
    }
    if (r->comparison) {
        csn_buf_puts(out, "\n");
        put_inline(out, r->comparison->verdict);
        csn_buf_puts(out, ".\n");
    }
}

static void put_candidate(csn_sink *k, const csn_arena_result *r, size_t i)
{
    const csn_candidate_result *c = r->results[i];
    const char *advice = csn_candidate_advice(c->error_message);
    char text[512];

    csn_buf_puts(&k->buf, "\n## ");
    put_inline(&k->buf, r->names[i]);
    csn_buf_puts(&k->buf, "\n\n");
    if (r->descriptions[i]) {
        put_inline(&k->buf, r->descriptions[i]);
        csn_buf_puts(&k->buf, "\n\n");
    }
    if (c->error_message) {
        csn_buf_puts(&k->buf, "**");
        put_inline(&k->buf, c->error_message);
        csn_buf_printf(&k->buf, "**%s%s\n\n", advice ? " — " : "", advice ? advice : "");
    }
    if (c->has_receipt) {
        (void) csn_receipt_text(&c->receipt, text, sizeof(text));
        csn_buf_printf(&k->buf, "Receipt: %s\n\n", text);
    }
    if (r->scripts[i])
        put_block(k, "Script", r->scripts[i], r->script_lens[i]);
    if (c->output_len > 0)
        put_block(k, "Output", c->output, c->output_len);
    if (c->artifact_content)
        put_block(k, "Artifact", c->artifact_content, c->artifact_len);
}

void csn_report_markdown(csn_sink *sink, const csn_arena_result *r, const size_t *order)
{
    csn_buf *out = &sink->buf;
    char took[32];

    csn_buf_puts(out, "# Arena report\n\n");
    put_block(sink, "Objective", r->objective, r->objective_len);
    csn_buf_printf(out, "%zu candidates, %u trial%s, execution %s, %s in all, %s.\n\n",
                   r->n_candidates, r->n_trials, r->n_trials == 1 ? "" : "s", r->execution_mode,
                   csn_text_seconds(r->wall_seconds, took), r->timestamp);
    if (r->winner >= 0) {
        csn_buf_puts(out, "**Winner: ");
        put_inline(out, r->names[r->winner]);
        csn_buf_printf(out, " (score %.1f)**\n\n", r->scores[r->winner].total_score);
    } else {
        csn_buf_puts(out, "**No winner: ");
        put_inline(out, csn_no_winner_why(r));
        csn_buf_puts(out, ".**\n\n");
    }
    if (r->no_sandbox) { /* nobody ran: a table would be rows of nothing */
        put_inline(out, r->no_sandbox);
        csn_buf_printf(out, "\n\nTry: `%s`\n\n---\n%s\n", csn_no_sandbox_advice(r),
                       r->environment);
        return;
    }
    put_scores(out, r, order);
    if (r->n_trials > 1)
        put_trials(out, r, order);
    for (size_t i = 0; i < r->n_candidates; i++)
        put_candidate(sink, r, order[i]);
    csn_buf_printf(out, "---\n%s\n", r->environment);
}
