/* The pictures of the report: plain SVG with classes, coloured by the page's style for light and dark. Places across are
 * in percent of the page's width and letters in pixels, so that a phone shows the same letters on a narrower picture. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "report.h"

enum { MAX_ROWS = 120, MAX_LANES = 32, LABEL_CHARS = 28 };

#define LABEL 22.0 /* height of a row's line of text */
#define BAR   16.0
#define GAP   12.0 /* between rows */
#define AXIS  26.0
#define DOT   7.0 /* a dot and the space around it */
#define DOT_PERCENT \
    2.4 /* the same across, on the narrowest page; wider ones have more space between */

static void begin_svg(csn_buf *out, double height, const char *title)
{
    csn_buf_printf(out,
                   "<svg width=\"100%%\" height=\"%.0f\" role=\"img\" aria-label=\"%s\" "
                   "xmlns=\"http://www.w3.org/2000/svg\">",
                   height, title);
}

/* A row's line of text: its name, cut to what fits, and at the other edge what it came to. */
static void put_label(csn_buf *out, double y, const char *name, const char *class,
                      const char *value)
{
    size_t len = strlen(name), at = 0;

    for (int n = 0; n < LABEL_CHARS && at < len; n++)
        for (at++; at < len && ((unsigned char) name[at] & 0xc0) == 0x80;)
            at++;
    csn_buf_printf(out, "<text class=\"lab\" x=\"0\" y=\"%.1f\">", y + 15);
    csn_html_text(out, name, at);
    csn_buf_printf(out,
                   "%s</text><text class=\"%s\" x=\"100%%\" y=\"%.1f\" text-anchor=\"end\">%s"
                   "</text>",
                   at < len ? "…" : "", class, y + 15, value);
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
        double x = 100 * i * step / top;

        csn_buf_printf(out,
                       "<line class=\"grid\" x1=\"%.2f%%\" y1=\"0\" x2=\"%.2f%%\" y2=\"%.1f\"/>", x,
                       x, height - AXIS + 4);
        csn_buf_printf(
            out, "<text class=\"tick\" x=\"%.2f%%\" y=\"%.1f\" text-anchor=\"%s\">%.4g%s</text>", x,
            height - 6,
            i == 0   ? "start"
            : x > 94 ? "end"
                     : "middle",
            i * step, unit);
    }
}

static void put_rect(csn_buf *out, const char *class, double x, double y, double w, double h,
                     const char *tip)
{
    csn_buf_printf(
        out,
        "<rect class=\"%s\" x=\"%.2f%%\" y=\"%.1f\" width=\"%.2f%%\" height=\"%.1f\" rx=\"2\">"
        "<title>%s</title></rect>",
        class, x, y, fmax(w, 0.25), h, tip);
}

/* What each part of the formula adds to the total. */
void csn_svg_bars(csn_buf *out, const csn_arena_result *r, const size_t *order)
{
    size_t n = r->n_candidates < MAX_ROWS ? r->n_candidates : MAX_ROWS;
    double row = LABEL + BAR + GAP, height = (double) n * row + AXIS;

    begin_svg(out, height, "Total score by part");
    put_axis(out, 100, height, "");
    for (size_t i = 0; i < n; i++) {
        const csn_score *s = &r->scores[order[i]];
        double y = (double) i * row, x = 0;
        const double parts[3] = { r->weights[0] * (s->success ? 100 : 0),
                                  r->weights[1] * s->quality_score,
                                  r->weights[2] * s->speed_score };
        static const char *const classes[3] = { "s", "q", "p" };
        static const char *const words[3] = { "success", "quality", "speed" };
        char text[64];

        (void) snprintf(text, sizeof(text), "%.1f", s->total_score);
        csn_buf_puts(out, s->disqualified ? "<g class=\"out\">" : "<g>");
        put_label(out, y, r->names[order[i]], s->disqualified ? "tick" : "val",
                  s->disqualified ? "disqualified" : text);
        for (int k = 0; k < 3; k++) {
            if (parts[k] <= 0.05)
                continue;
            (void) snprintf(text, sizeof(text), "%s %+.1f", words[k], parts[k]);
            put_rect(out, classes[k], x, y + LABEL, parts[k], BAR, text);
            x += parts[k];
        }
        csn_buf_puts(out, "</g>");
    }
    csn_buf_puts(out, "</svg>\n");
}

/* ---- lanes: what overlaps is drawn apart ---- */

typedef struct mark {
    size_t row, run;
    double from, to; /* takes so much of its lane */
    unsigned lane;
} mark;

typedef struct lanes {
    mark *marks; /* by row, then from left to right */
    size_t n;
    unsigned n_lanes[MAX_ROWS];
} lanes;

static int by_place(const void *a, const void *b)
{
    const mark *x = a, *y = b;

    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* The first lane that is free there; beyond the most there may be, the one that is free soonest. */
static void assign_lanes(lanes *l)
{
    double ends[MAX_LANES];

    for (size_t i = 0; i < l->n; i++) {
        mark *m = &l->marks[i];
        unsigned *n = &l->n_lanes[m->row], soonest = 0;

        for (m->lane = 0; m->lane < *n && ends[m->lane] > m->from; m->lane++)
            if (ends[m->lane] < ends[soonest])
                soonest = m->lane;
        if (m->lane == *n && *n == MAX_LANES)
            m->lane = soonest;
        else if (m->lane == *n)
            (*n)++;
        ends[m->lane] = m->to;
    }
}

/* `order`: which candidate has which row; NULL: the input order. False: no memory. */
static bool make_lanes(lanes *l, const csn_arena_result *r, const size_t *order, csn_buf *out,
                       bool (*place)(const csn_candidate_result *run, double top, mark *ret),
                       double top)
{
    size_t *row_of = csn_calloc(r->n_candidates + 1, sizeof(*row_of));

    *l = (lanes){ .marks = csn_calloc(r->n_runs + 1, sizeof(*l->marks)) };
    if (!l->marks || !row_of) {
        free(l->marks);
        free(row_of);
        out->error = -ENOMEM;
        return false;
    }
    for (size_t i = 0; i < r->n_candidates; i++)
        row_of[order ? order[i] : i] = i;
    for (size_t i = 0; i < r->n_runs; i++) {
        mark m = { .row = row_of[r->run_candidate[i]], .run = i };

        if (m.row < MAX_ROWS && place(r->runs[i], top, &m))
            l->marks[l->n++] = m;
    }
    free(row_of);
    qsort(l->marks, l->n, sizeof(*l->marks), by_place);
    assign_lanes(l);
    return true;
}

/* ---- who ran when ---- */

static void put_phase(csn_buf *out, const char *class, double from, double to, double top, double y,
                      double h, const char *word)
{
    char tip[96], took[32];

    if (from < 0 || to < from)
        return;
    (void) snprintf(tip, sizeof(tip), "%s: %s", word, csn_text_seconds(to - from, took));
    put_rect(out, class, 100 * from / top, y, 100 * (to - from) / top, h, tip);
}

static double last_of(double a, double b)
{
    return a >= 0 ? a : b;
}

static void put_run(csn_buf *out, const csn_candidate_result *c, double top, double y, double h)
{
    put_phase(out, "ph1", c->t_start, last_of(c->t_ready, c->t_end), top, y, h, "create");
    put_phase(out, "ph2", c->t_ready, last_of(c->t_exec, c->t_end), top, y, h, "upload and setup");
    put_phase(out, c->success ? "ok" : "bad", c->t_exec, last_of(c->t_exec_end, c->t_end), top, y,
              h, "script");
    if (c->t_exec_end >= 0)
        put_phase(out, "ph1", c->t_exec_end, c->t_end, top, y, h, "read and clean up");
}

static bool place_run(const csn_candidate_result *run, double top, mark *ret)
{
    (void) top;
    ret->from = run->t_start;
    ret->to = run->t_end;
    return run->t_start >= 0 && run->t_end >= run->t_start;
}

/* The more lanes a row has, the lower they are. */
static double lane_height(unsigned n_lanes)
{
    return n_lanes <= 1 ? BAR : n_lanes <= 4 ? 10 : 6;
}

static double timeline_row(unsigned n_lanes)
{
    return LABEL + (n_lanes > 1 ? n_lanes : 1) * (lane_height(n_lanes) + 2) + GAP;
}

static void put_timeline_labels(csn_buf *out, const csn_arena_result *r, const double *ys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[32];

        if (r->n_trials > 1)
            (void) snprintf(text, sizeof(text), "%u trials", r->n_trials);
        else
            (void) csn_text_seconds(r->results[i]->runtime_seconds, text);
        put_label(out, ys[i], r->names[i], "val", text);
    }
}

/* Who ran when: one row per candidate, trials that overlap below each other. */
void csn_svg_timeline(csn_buf *out, const csn_arena_result *r)
{
    size_t n = r->n_candidates < MAX_ROWS ? r->n_candidates : MAX_ROWS;
    double ys[MAX_ROWS + 1] = { 0 }, top = 0.001;
    lanes l;

    for (size_t i = 0; i < r->n_runs; i++)
        top = fmax(top, r->runs[i]->t_end);
    if (!make_lanes(&l, r, NULL, out, place_run, top))
        return;
    for (size_t i = 0; i < n; i++)
        ys[i + 1] = ys[i] + timeline_row(l.n_lanes[i]);
    begin_svg(out, ys[n] + AXIS, "Timeline of all runs");
    put_axis(out, top, ys[n] + AXIS, " s");
    put_timeline_labels(out, r, ys, n);
    for (size_t i = 0; i < l.n; i++) {
        const mark *m = &l.marks[i];
        double h = lane_height(l.n_lanes[m->row]);

        put_run(out, r->runs[m->run], top, ys[m->row] + LABEL + m->lane * (h + 2), h);
    }
    csn_buf_puts(out, "</svg>\n");
    free(l.marks);
}

/* ---- how the times spread ---- */

static bool place_dot(const csn_candidate_result *run, double top, mark *ret)
{
    ret->from = 100 * run->exec_seconds / top;
    ret->to = ret->from + DOT_PERCENT;
    return run->exit_code >= 0;
}

static void put_box(csn_buf *out, const csn_spread *s, double top, double y, double h)
{
    char text[32];

    if (s->max <= 0)
        return;
    put_rect(out, "box", 100 * s->q1 / top, y, 100 * (s->q3 - s->q1) / top, h, "middle half");
    csn_buf_printf(out,
                   "<line class=\"med\" x1=\"%.2f%%\" y1=\"%.1f\" x2=\"%.2f%%\" y2=\"%.1f\">"
                   "<title>median %s</title></line>",
                   100 * s->median / top, y - 2, 100 * s->median / top, y + h + 2,
                   csn_text_seconds(s->median, text));
}

/* Each trial a dot, those as long as each other below each other; the middle half a box, the median a line. */
void csn_svg_spread(csn_buf *out, const csn_arena_result *r, const size_t *order)
{
    size_t n = r->n_candidates < MAX_ROWS ? r->n_candidates : MAX_ROWS;
    double ys[MAX_ROWS + 1] = { 0 }, top = 0.001;
    lanes l;

    for (size_t i = 0; i < r->n_candidates; i++)
        top = fmax(top, r->stats[i].exec_seconds.max);
    top *= 1.03;
    if (!make_lanes(&l, r, order, out, place_dot, top))
        return;
    for (size_t i = 0; i < n; i++)
        ys[i + 1] = ys[i] + LABEL + l.n_lanes[i] * DOT + 6 + GAP;
    begin_svg(out, ys[n] + AXIS, "Time of the script over the trials");
    put_axis(out, top, ys[n] + AXIS, " s");
    for (size_t i = 0; i < n; i++) {
        const csn_spread *s = &r->stats[order[i]].exec_seconds;
        char text[32];

        put_label(out, ys[i], r->names[order[i]], "val",
                  csn_text_seconds(s->max > 0 ? s->median : -1, text));
        put_box(out, s, top, ys[i] + LABEL, l.n_lanes[i] * DOT + 4);
    }
    for (size_t i = 0; i < l.n; i++) {
        const mark *m = &l.marks[i];

        csn_buf_printf(out, "<circle class=\"%s\" cx=\"%.2f%%\" cy=\"%.1f\" r=\"3\"/>",
                       r->runs[m->run]->success ? "dot" : "dot fail", m->from,
                       ys[m->row] + LABEL + 5.5 + m->lane * DOT);
    }
    csn_buf_puts(out, "</svg>\n");
    free(l.marks);
}
