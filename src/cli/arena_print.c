#include "arena_print.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/utf8.h"
#include "out.h"
#include "table.h"

enum {
    WIDE = 76,
    OTHERS = 34
}; /* columns that the whole table fits in, and that the short one takes beside names */

static void rule(csn_buf *out, char c, int n)
{
    for (int i = 0; i < n; i++)
        csn_buf_putc(out, c);
    csn_buf_putc(out, '\n');
}

static void send(int fd, csn_buf *out)
{
    (void) cli_write(fd, out->data, out->len); /* nobody reads: the files still tell */
}

void cli_arena_banner(int fd, const csn_arena_options *o, size_t n_candidates, const char *refusal)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_auto(buf) csn_buf objective = CSN_BUF_INIT;
    size_t len = o->run->objective_len < 400 ? o->run->objective_len : 400;

    csn_buf_append(&objective, o->run->objective, len);
    rule(&out, '=', 60);
    csn_buf_puts(&out, "CAISSON ARENA\n");
    rule(&out, '=', 60);
    csn_buf_puts(&out, "Objective: ");
    cli_put_safe(&out, objective.data);
    csn_buf_printf(&out, "%s\nCandidates: %zu\n",
                   len < o->run->objective_len ? (cli_has_utf8() ? " …" : " ...") : "",
                   n_candidates);
    if (o->n_trials > 1)
        csn_buf_printf(&out, "Trials: %u\n", o->n_trials);
    csn_buf_printf(&out, "Execution: %s\n",
                   o->run->backend == CSN_BACKEND_DAYTONA && !refusal ? "DAYTONA" : "LOCAL");
    if (refusal)
        csn_buf_printf(&out, "  (Daytona not configured, falling back to local)\n  (%s)\n",
                       refusal);
    csn_buf_puts(&out, "\nPHASE: Running Candidates\n");
    rule(&out, '-', 40);
    send(fd, &out);
}

const char *cli_arena_verdict(const csn_score *score)
{
    return score->disqualified ? "disqualified" : "qualified";
}

/* In brackets: of somebody who is out it decides nothing. */
static const char *number(double v, bool in_brackets)
{
    static char ring[4][32];
    static unsigned at;
    char *text = ring[at++ % 4];

    (void) snprintf(text, 32, in_brackets ? "(%.1f)" : "%.1f", v);
    return text;
}

static void put_failures(csn_buf *out, const csn_arena_result *r)
{
    for (size_t i = 0; i < r->n_candidates; i++) {
        const char *why =
            r->results[i]->error_message ? r->results[i]->error_message : r->scores[i].reason;
        const char *advice = csn_candidate_advice(r->results[i]->error_message);

        if (!r->scores[i].disqualified || !why)
            continue;
        csn_buf_puts(out, "  ");
        cli_put_safe(out, r->names[i]);
        csn_buf_puts(out, ": ");
        cli_put_safe(out, why);
        csn_buf_printf(out, "%s%s%s\n", advice ? " (" : "", advice ? advice : "",
                       advice ? ")" : "");
    }
}

static void put_trials(csn_buf *out, const csn_arena_result *r)
{
    csn_auto(table) cli_table t = CLI_TABLE_INIT(6, 0x3e);
    static const char *const heads[] = { "Candidate", "n",           "Success",
                                         "95 %",      "Median time", "Median memory" };
    char text[64];

    for (size_t i = 0; i < CSN_COUNT(heads); i++)
        cli_table_cell(&t, heads[i]);
    for (size_t i = 0; i < r->n_candidates; i++) {
        const csn_trial_stats *s = &r->stats[i];

        cli_table_cell(&t, r->names[i]);
        (void) snprintf(text, sizeof(text), "%u", s->n);
        cli_table_cell(&t, text);
        (void) snprintf(text, sizeof(text), "%.0f %%", 100 * s->success_rate);
        cli_table_cell(&t, text);
        (void) snprintf(text, sizeof(text), "%.0f-%.0f %%", 100 * s->wilson_low,
                        100 * s->wilson_high);
        cli_table_cell(&t, text);
        (void) snprintf(text, sizeof(text), "%.3f s [%.3f-%.3f]", s->exec_seconds.median,
                        s->exec_seconds.q1, s->exec_seconds.q3);
        cli_table_cell(&t, text);
        cli_table_cell(&t, isnan(s->peak_memory_bytes.median)
                               ? "-"
                               : cli_size((int64_t) s->peak_memory_bytes.median));
    }
    csn_buf_puts(out, "\n");
    cli_table_put(&t, out, 0);
    if (r->comparison)
        csn_buf_printf(out, "\n%s\n", r->comparison->verdict);
    csn_buf_printf(out, "seed %" PRIu64 "\n", r->seed);
}

/* How many bytes of a text take so many columns. */
static size_t cut_at(const char *text, size_t columns)
{
    size_t len = strlen(text), at = 0;

    for (; at < len && columns > 0; columns--) {
        unsigned code;
        int step = csn_utf8_next(text + at, len - at, &code);
        at += step > 0 ? (size_t) step : 1;
    }
    return at;
}

/* A narrow terminal gets what decides, and no line that is broken in two. */
static void put_scores(csn_buf *out, const csn_arena_result *r, bool is_narrow)
{
    csn_auto(table) cli_table t = CLI_TABLE_INIT(is_narrow ? 4 : 7, is_narrow ? 0x8 : 0x78);
    static const char *const heads[] = { "Candidate", "Success", "Verdict", "Quality",
                                         "Speed",     "TOTAL",   "Time" };
    static const bool is_wide[] = { false, false, false, true, true, false, true };

    for (size_t i = 0; i < CSN_COUNT(heads); i++)
        if (!is_narrow || !is_wide[i])
            cli_table_cell(&t, heads[i]);
    for (size_t i = 0; i < r->n_candidates; i++) {
        const csn_score *s = &r->scores[i];
        csn_auto(buf) csn_buf name = CSN_BUF_INIT;

        csn_buf_append(
            &name, r->names[i],
            is_narrow ? cut_at(r->names[i], cli_columns() > OTHERS + 4 ? cli_columns() - OTHERS : 4)
                      : strlen(r->names[i]));
        cli_table_cell(&t, name.data);
        cli_table_cell(&t, s->success ? "PASS" : "FAIL");
        cli_table_cell(&t, cli_arena_verdict(s));
        if (!is_narrow) {
            cli_table_cell(&t, number(s->quality_score, false));
            cli_table_cell(&t, number(s->speed_score, false));
        }
        cli_table_cell(&t, number(s->total_score, s->disqualified));
        if (!is_narrow)
            cli_table_cell(&t, r->results[i]->t_exec >= 0
                                   ? cli_duration_ms((int64_t) (s->exec_seconds * 1000))
                                   : "");
    }
    cli_table_put(&t, out, 0);
}

void cli_arena_scores(int fd, const csn_arena_result *r)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    csn_buf_puts(&out, "\nPHASE: Scoring\n");
    rule(&out, '-', 40);
    if (!r->no_sandbox) { /* else nobody ran, and the table would be rows of nothing */
        put_scores(&out, r, cli_is_terminal(fd) && cli_columns() < WIDE);
        put_failures(&out, r);
        if (r->n_trials > 1)
            put_trials(&out, r);
    }
    if (r->winner >= 0) {
        csn_buf_printf(&out, "\n%sWinner: ", cli_has_color(fd) ? "\033[1;32m" : "");
        cli_put_safe(&out, r->names[r->winner]);
        csn_buf_printf(&out, " (score %.1f)%s\n", r->scores[r->winner].total_score,
                       cli_has_color(fd) ? "\033[0m" : "");
    } else {
        csn_buf_printf(&out, "\nNo winner: %s\n",
                       r->no_sandbox  ? csn_streq(r->execution_mode, "daytona")
                                            ? "no sandbox could be made in Daytona"
                                            : "no sandbox could be made here"
                       : r->cancelled ? "the run was cancelled"
                                      : "no candidate passed every gate");
    }
    send(fd, &out);
}

static csn_report_format format_of(const char *path)
{
    csn_str s = csn_str_of(path);

    if (csn_str_ends_with(s, CSN_STR(".html")) || csn_str_ends_with(s, CSN_STR(".htm")))
        return CSN_REPORT_HTML;
    if (csn_str_ends_with(s, CSN_STR(".md")))
        return CSN_REPORT_MARKDOWN;
    return csn_str_ends_with(s, CSN_STR(".json")) ? CSN_REPORT_JSON : (csn_report_format) 0;
}

bool cli_arena_report_known(const char *path)
{
    return format_of(path) != 0;
}

/* Beside it and renamed: a reader never finds half a report. */
int cli_arena_report(const csn_arena_result *r, const char *path)
{
    csn_auto(buf) csn_buf temp = CSN_BUF_INIT;
    csn_auto(fd) int fd = -1;
    csn_error err = { 0 };

    csn_buf_printf(&temp, "%s.%ld.tmp", path, (long) getpid());
    fd = open(temp.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return cli_fail_with(csn_code_of_errno(errno), NULL, "write '%s': %s", path,
                             csn_strerror(errno));
    if (csn_arena_report(r, format_of(path), fd, &err) < 0) {
        (void) unlink(temp.data); /* half a file: of no use */
        return cli_fail(&err, "write '%s'", path);
    }
    if (rename(temp.data, path) < 0) {
        int e = errno;

        (void) unlink(temp.data); /* as above */
        return cli_fail_with(csn_code_of_errno(e), NULL, "write '%s': %s", path, csn_strerror(e));
    }
    return -1;
}
