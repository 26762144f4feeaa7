/* The pictures of the report: plain SVG with classes, coloured by the page's style for light and dark. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report.h"

#define WIDTH     860.0
#define LEFT      170.0
#define RIGHT     70.0
#define ROW       30.0
#define MAX_LANES 120

static const double span = WIDTH - LEFT - RIGHT;

static void begin_svg(csn_buf *out, double height, const char *title)
{
    csn_buf_printf(out,
                   "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s\" "
                   "xmlns=\"http://www.w3.org/2000/svg\">",
                   WIDTH, height, title);
}

/* A name at the left edge, cut to what fits there. */
static void put_label(csn_buf *out, double y, const char *name)
{
    size_t len = strlen(name), at = 0;

    for (int n = 0; n < 20 && at < len; n++)
        for (at++; at < len && ((unsigned char) name[at] & 0xc0) == 0x80;)
            at++;
    csn_buf_printf(out, "<text class=\"lab\" x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">", LEFT - 12,
                   y + 4.5);
    csn_html_text(out, name, at);
    csn_buf_puts(out, at < len ? "…</text>" : "</text>");
}

/* A step of 1, 2 or 5 times a power of ten that gives about five ticks. */
static double tick_step(double top)
{
    double raw = top / 5, power = pow(10, floor(log10(raw)));

    return raw / power < 1.5   ? power
           : raw / power < 3.5 ? 2 * power
           : raw / power < 7.5 ? 5 * power
                               : 10 * power;
}

static void put_axis(csn_buf *out, double top, double height, const char *unit)
{
    double step = tick_step(top);

    for (int i = 0; i * step <= top * 1.0001; i++) {
        double x = LEFT + span * i * step / top;

        csn_buf_printf(out, "<line class=\"grid\" x1=\"%.1f\" y1=\"6\" x2=\"%.1f\" y2=\"%.1f\"/>",
                       x, x, height - 24);
        csn_buf_printf(
            out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.4g%s</text>",
            x, height - 8, i * step, unit);
    }
}

static void put_rect(csn_buf *out, const char *class, double x, double y, double w, double h,
                     const char *tip)
{
    csn_buf_printf(
        out,
        "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\">"
        "<title>%s</title></rect>",
        class, x, y, fmax(w, 0.8), h, tip);
}

/* What each part of the formula adds to the total. */
void csn_svg_bars(csn_buf *out, const csn_arena_result *r, const size_t *order)
{
    size_t n = r->n_candidates < MAX_LANES ? r->n_candidates : MAX_LANES;
    double height = (double) n * ROW + 36;

    begin_svg(out, height, "Total score by part");
    put_axis(out, 100, height, "");
    for (size_t i = 0; i < n; i++) {
        const csn_score *s = &r->scores[order[i]];
        double y = 8 + (double) i * ROW, x = LEFT;
        const double parts[3] = { r->weights[0] * (s->success ? 100 : 0),
                                  r->weights[1] * s->quality_score,
                                  r->weights[2] * s->speed_score };
        static const char *const classes[3] = { "s", "q", "p" };
        static const char *const words[3] = { "success", "quality", "speed" };

        csn_buf_puts(out, s->disqualified ? "<g class=\"out\">" : "<g>");
        put_label(out, y + ROW / 2 - 4, r->names[order[i]]);
        for (int k = 0; k < 3; k++) {
            char tip[64];

            if (parts[k] <= 0.05)
                continue;
            (void) snprintf(tip, sizeof(tip), "%s %+.1f", words[k], parts[k]);
            put_rect(out, classes[k], x, y, span * parts[k] / 100 - 1, ROW - 9, tip);
            x += span * parts[k] / 100;
        }
        csn_buf_printf(out, "<text class=\"val\" x=\"%.1f\" y=\"%.1f\">%.1f</text></g>",
                       fmin(x + 8, WIDTH - 62), y + 15.5, s->total_score);
    }
    csn_buf_puts(out, "</svg>\n");
}

static void put_phase(csn_buf *out, const char *class, double from, double to, double top, double y,
                      const char *word)
{
    char tip[96], took[32];

    if (from < 0 || to < from)
        return;
    (void) snprintf(tip, sizeof(tip), "%s: %s", word, csn_text_seconds(to - from, took));
    put_rect(out, class, LEFT + span * from / top, y, span * (to - from) / top, ROW - 13, tip);
}

static double last_of(double a, double b)
{
    return a >= 0 ? a : b;
}

static void put_run(csn_buf *out, const csn_candidate_result *c, double top, double y)
{
    put_phase(out, "ph1", c->t_start, last_of(c->t_ready, c->t_end), top, y, "create");
    put_phase(out, "ph2", c->t_ready, last_of(c->t_exec, c->t_end), top, y, "upload and setup");
    put_phase(out, c->success ? "ok" : "bad", c->t_exec, last_of(c->t_exec_end, c->t_end), top, y,
              "script");
    if (c->t_exec_end >= 0)
        put_phase(out, "ph1", c->t_exec_end, c->t_end, top, y, "read and clean up");
}

/* Who ran when: one lane per candidate, all its trials in it. */
void csn_svg_timeline(csn_buf *out, const csn_arena_result *r)
{
    size_t n = r->n_candidates < MAX_LANES ? r->n_candidates : MAX_LANES;
    double height = (double) n * ROW + 36, top = 0.001;

    for (size_t i = 0; i < r->n_runs; i++)
        top = fmax(top, r->runs[i]->t_end);
    begin_svg(out, height, "Timeline of all runs");
    put_axis(out, top, height, " s");
    for (size_t i = 0; i < n; i++)
        put_label(out, 10 + (double) i * ROW + ROW / 2 - 6, r->names[i]);
    for (size_t i = 0; i < r->n_runs; i++) {
        const csn_candidate_result *c = r->runs[i];
        double y = 10 + (double) r->run_candidate[i] * ROW;
        char took[32];

        if (r->run_candidate[i] >= n)
            continue;
        put_run(out, c, top, y);
        if (c->t_end >= 0 && r->n_trials == 1)
            csn_buf_printf(out, "<text class=\"val\" x=\"%.1f\" y=\"%.1f\">%s</text>",
                           LEFT + span * c->t_end / top + 6, y + 13,
                           csn_text_seconds(c->runtime_seconds, took));
    }
    csn_buf_puts(out, "</svg>\n");
}

/* Each trial a dot, the middle half a box, the median a line. */
void csn_svg_spread(csn_buf *out, const csn_arena_result *r, const size_t *order)
{
    size_t n = r->n_candidates < MAX_LANES ? r->n_candidates : MAX_LANES;
    double height = (double) n * ROW + 36, top = 0.001;

    for (size_t i = 0; i < r->n_candidates; i++)
        top = fmax(top, r->stats[i].exec_seconds.max);
    top *= 1.02;
    begin_svg(out, height, "Time of the script over the trials");
    put_axis(out, top, height, " s");
    for (size_t i = 0; i < n; i++) {
        const csn_spread *s = &r->stats[order[i]].exec_seconds;
        double y = 8 + (double) i * ROW, x1 = LEFT + span * s->q1 / top,
               x3 = LEFT + span * s->q3 / top;
        double xm = LEFT + span * s->median / top;

        put_label(out, y + ROW / 2 - 4, r->names[order[i]]);
        if (s->max <= 0)
            continue;
        put_rect(out, "box", x1, y + 2, x3 - x1, ROW - 13, "middle half");
        csn_buf_printf(out, "<line class=\"med\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
                       xm, y - 1, xm, y + ROW - 8);
        for (size_t k = 0; k < r->n_runs; k++)
            if (r->run_candidate[k] == order[i] && r->runs[k]->exit_code >= 0)
                csn_buf_printf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>",
                               r->runs[k]->success ? "dot" : "dot fail",
                               LEFT + span * r->runs[k]->exec_seconds / top, y + 10.5);
    }
    csn_buf_puts(out, "</svg>\n");
}
