#include "arena_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena_print.h"
#include "base/fault.h"
#include "base/str.h"
#include "base/time.h"
#include "base/utf8.h"
#include "out.h"
#include "term.h"

#define NAME_WIDTH 16
#define NAME_LEAST 4

static const char *paint(const cli_view *v, const char *code)
{
    return v->has_color ? code : "";
}

void cli_view_begin(cli_view *view, int fd, bool is_live, bool is_quiet,
                    const csn_candidate *candidates, size_t n, unsigned n_trials, const char *mode)
{
    *view = (cli_view){
        .fd = fd,
        .is_live = is_live && !is_quiet && cli_can_draw(fd),
        .is_quiet = is_quiet,
        .has_color = cli_has_color(fd),
        .is_ascii = !cli_has_utf8(),
        .n = n,
        .lanes = csn_xalloc(n + 1, sizeof(*view->lanes)),
        .mode = mode,
        .start_ns = csn_now_ns(),
    };
    for (size_t i = 0; i < n; i++) {
        view->lanes[i].id = candidates[i].id;
        view->lanes[i].name = candidates[i].name ? candidates[i].name : candidates[i].id;
        view->lanes[i].last = (csn_buf) CSN_BUF_INIT_MAX(4096);
        view->lanes[i].lines = (csn_buf) CSN_BUF_INIT;
        view->lanes[i].n_trials = n_trials > 0 ? n_trials : 1;
    }
    if (view->is_live) {
        cli_term_screen(fd);
        cli_view_tick(view);
    }
}

static cli_lane *lane_of(cli_view *v, const char *id)
{
    for (size_t i = 0; i < v->n; i++)
        if (strcmp(v->lanes[i].id, id) == 0)
            return &v->lanes[i];
    return NULL;
}

/* ---- plain lines ---- */

static void write_lines(cli_view *v, cli_lane *lane)
{
    (void) cli_write(v->fd, lane->lines.data,
                     lane->lines.len); /* a closed reader stops the talk, not the work */
    csn_buf_clear(&lane->lines);
}

static void begin_block(cli_view *v, cli_lane *lane)
{
    csn_auto(buf) csn_buf head = CSN_BUF_INIT;

    csn_buf_puts(&head, "[");
    cli_put_safe(&head, lane->name);
    csn_buf_puts(&head, "]\n");
    (void) cli_write(v->fd, head.data, head.len); /* as above */
    v->block = lane;
    write_lines(v, lane);
}

/* One has ended: the blocks of those that have ended meanwhile, then one that is under way. */
static void next_block(cli_view *v)
{
    cli_lane *next = NULL;

    v->block = NULL;
    for (size_t i = 0; i < v->n; i++) {
        cli_lane *lane = &v->lanes[i];

        if (lane->lines.len == 0)
            continue;
        if (lane->n_done == lane->n_trials)
            begin_block(v, lane);
        else if (!next)
            next = lane;
    }
    v->block = NULL;
    if (next)
        begin_block(v, next);
}

static void put_line(cli_view *v, cli_lane *lane)
{
    csn_buf_printf(&lane->lines, "  %s\n", lane->last.data);
    if (!v->block)
        begin_block(v, lane);
    else if (v->block == lane)
        write_lines(v, lane);
}

void cli_view_log(const char *candidate_id, const char *message, void *user)
{
    cli_view *v = user;
    cli_lane *lane = lane_of(v, candidate_id);

    if (!lane || v->is_quiet)
        return;
    csn_buf_clear(&lane->last);
    cli_put_safe(&lane->last, message);
    if (!v->is_live)
        put_line(v, lane);
}

/* The last whole line of a piece that isn't blank. Cheap: only the end of the piece is looked at. */
void cli_view_output(const char *candidate_id, csn_stream stream, const void *data, size_t len,
                     void *user)
{
    cli_view *v = user;
    cli_lane *lane = v->is_live ? lane_of(v, candidate_id) : NULL;
    csn_str text = csn_str_n(data, len);
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;
    const char *start;

    (void) stream;
    if (!lane)
        return;
    if (text.len > 512)
        text = csn_str_n(text.data + text.len - 512, 512);
    text = csn_str_trim(text);
    start = memrchr(text.data, '\n', text.len);
    if (start)
        text = csn_str_n(start + 1, text.len - (size_t) (start + 1 - text.data));
    if (text.len == 0)
        return;
    csn_buf_append(&line, text.data, text.len);
    csn_buf_clear(&lane->last);
    cli_put_safe(&lane->last, line.data);
}

void cli_view_state(size_t index, unsigned trial, csn_run_state state,
                    const csn_candidate_result *result, void *user)
{
    cli_view *v = user;
    cli_lane *lane = &v->lanes[index];

    (void) trial;
    if (state == CSN_RUN_CREATING) {
        lane->n_running++;
        lane->since_ns = csn_now_ns();
    }
    lane->state = state;
    if (state != CSN_RUN_DONE)
        return;
    lane->n_running -= lane->n_running > 0;
    lane->n_done++;
    lane->n_failed += !result->success;
    lane->took_ns = (int64_t) (result->runtime_seconds * 1e9);
    if (v->block == lane && lane->n_done == lane->n_trials)
        next_block(v);
    csn_buf_clear(&lane->last);
    if (result->error_message)
        cli_put_safe(&lane->last, result->error_message);
    else
        csn_buf_printf(&lane->last, "artifact of %s", cli_size(result->artifact_bytes));
}

/* ---- one frame ---- */

/* Cut to `room` columns, filled up with blanks when `fill`. */
static void put_column(const cli_view *v, csn_buf *out, const char *text, size_t room, bool fill)
{
    size_t len = strlen(text), at = 0, n = 0, width = cli_width(text, len);

    while (at < len && n < (width > room ? room - 1 : room)) {
        unsigned code;
        int step = csn_utf8_next(text + at, len - at, &code);

        at += step > 0 ? (size_t) step : 1;
        n++;
    }
    csn_buf_append(out, text, at);
    if (width > room) {
        csn_buf_puts(out, v->is_ascii ? "~" : "…");
        n++;
    }
    while (fill && n++ < room)
        csn_buf_putc(out, ' ');
}

static void put_mark(const cli_view *v, const cli_lane *lane, csn_buf *out)
{
    static const char *const dots[] = { "⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏" };
    static const char *const lines[] = { "|", "/", "-", "\\" };
    const char *spin =
        v->is_ascii ? lines[v->frame % CSN_COUNT(lines)] : dots[v->frame % CSN_COUNT(dots)];
    bool is_over = lane->n_done == lane->n_trials;

    if (is_over && lane->n_failed == 0)
        csn_buf_printf(out, "%s%s%s", paint(v, "\033[32m"), v->is_ascii ? "+" : "✓",
                       paint(v, "\033[0m"));
    else if (is_over)
        csn_buf_printf(out, "%s%s%s", paint(v, "\033[31m"), v->is_ascii ? "x" : "✗",
                       paint(v, "\033[0m"));
    else if (lane->n_running > 0)
        csn_buf_printf(out, "%s%s%s", paint(v, "\033[36m"), spin, paint(v, "\033[0m"));
    else
        csn_buf_puts(out, v->is_ascii ? "." : "·");
}

static void put_state(const cli_lane *lane, char out[32])
{
    if (lane->n_trials > 1 && lane->n_done < lane->n_trials)
        (void) snprintf(out, 32, "%s %u/%u",
                        lane->n_running > 0 ? csn_run_state_name(lane->state) : "waiting",
                        lane->n_done, lane->n_trials);
    else if (lane->n_trials > 1)
        (void) snprintf(out, 32, "%u/%u succeeded", lane->n_trials - lane->n_failed, lane->n_trials);
    else
        (void) snprintf(out, 32, "%s",
                        lane->state != CSN_RUN_DONE ? csn_run_state_name(lane->state)
                        : lane->n_failed > 0        ? "failed"
                                                    : "succeeded");
}

static void put_lane(const cli_view *v, const cli_lane *lane, size_t columns, csn_buf *out)
{
    int64_t ns = lane->n_running > 0 ? csn_now_ns() - lane->since_ns : lane->took_ns;
    size_t state_width = lane->n_trials > 1 ? 16 : 10;
    size_t fixed = 3 + 2 + state_width + 8, name_width = NAME_WIDTH, used;
    char state[32];

    if (columns < fixed + name_width + 1) /* narrow: the name gives way */
        name_width = columns > fixed + NAME_LEAST ? columns - fixed : NAME_LEAST;
    used = fixed + name_width + 2;

    csn_buf_puts(out, " ");
    put_mark(v, lane, out);
    csn_buf_printf(out, " %s", paint(v, "\033[1m"));
    put_column(v, out, lane->name, name_width, true);
    csn_buf_printf(out, "%s  ", paint(v, "\033[0m"));
    put_state(lane, state);
    put_column(v, out, state, state_width, true);
    csn_buf_printf(out, "%7.1fs", (double) ns / 1e9);
    csn_buf_puts(out, paint(v, "\033[2m"));
    if (columns > used + 4) {
        csn_buf_puts(out, "  ");
        put_column(v, out, lane->last.data, columns - used - 1, false);
    }
    csn_buf_printf(out, "%s%s", paint(v, "\033[0m"), v->is_live ? "\033[K\r\n" : "\n");
}

static void put_title(const cli_view *v, size_t columns, csn_buf *out)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;
    unsigned n_done = 0, n_failed = 0, n_running = 0, n_all = 0;
    const char *dot = v->is_ascii ? "-" : "·";

    for (size_t i = 0; i < v->n; i++) {
        n_all += v->lanes[i].n_trials;
        n_done += v->lanes[i].n_done;
        n_failed += v->lanes[i].n_failed;
        n_running += v->lanes[i].n_running;
    }
    csn_buf_printf(&line, " arena %s %s %s %u of %u done %s %u running %s %u failed %s %.1fs", dot,
                   v->mode, dot, n_done, n_all, dot, n_running, dot, n_failed, dot,
                   (double) (csn_now_ns() - v->start_ns) / 1e9);
    put_column(v, out, line.data, columns > 2 ? columns - 1 : 1, false);
    csn_buf_puts(out, "\033[K\r\n\033[K\r\n");
}

/* With more candidates than rows: those that run come first, then those that wait, then the finished ones. */
static int importance(const cli_lane *lane)
{
    return lane->n_running > 0 ? 0 : lane->n_done < lane->n_trials ? 1 : 2;
}

static void put_lanes(const cli_view *v, size_t room, size_t columns, csn_buf *out)
{
    size_t shown = 0;

    if (v->n <= room) {
        for (size_t i = 0; i < v->n; i++)
            put_lane(v, &v->lanes[i], columns, out);
        return;
    }
    for (int wanted = 0; wanted < 3; wanted++)
        for (size_t i = 0; i < v->n && shown + 1 < room; i++)
            if (importance(&v->lanes[i]) == wanted) {
                put_lane(v, &v->lanes[i], columns, out);
                shown++;
            }
    csn_buf_printf(out, "   %s and %zu more\033[K", v->is_ascii ? "..." : "…", v->n - shown);
}

/* The success of the runs stands in the row; the verdict and the score are told when everybody was judged. */
static void put_outcome(cli_lane *lane, const csn_score *s)
{
    csn_buf_clear(&lane->last);
    csn_buf_puts(&lane->last, cli_arena_verdict(s));
    if (!s->disqualified)
        csn_buf_printf(&lane->last, ", score %.1f", s->total_score);
    else if (s->reason) {
        csn_buf_puts(&lane->last, ": ");
        cli_put_safe(&lane->last, s->reason);
    }
}

/* What the live display said last stays on the screen. */
static void leave_lanes(cli_view *view)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    uint16_t rows, columns;

    cli_term_size(view->fd, &rows, &columns);
    for (size_t i = 0; i < view->n; i++)
        put_lane(view, &view->lanes[i], columns, &out);
    (void) cli_write(view->fd, out.data, out.len); /* as for every frame */
}

void cli_view_end(cli_view *view, const csn_arena_result *result)
{
    next_block(view);
    for (size_t i = 0; result && !result->no_sandbox && !result->cancelled && i < view->n; i++)
        put_outcome(&view->lanes[i], &result->scores[i]);
    if (view->is_live) {
        cli_term_restore();
        view->is_live = false;
        leave_lanes(view);
    }
    for (size_t i = 0; i < view->n; i++)
        csn_buf_free(&view->lanes[i].last);
    for (size_t i = 0; i < view->n; i++)
        csn_buf_free(&view->lanes[i].lines);
    free(view->lanes);
    view->lanes = NULL;
    view->n = 0;
}

/* One write per frame, nothing erased that is drawn again: no flicker. The size is asked anew each time. */
void cli_view_tick(void *user)
{
    cli_view *v = user;
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    uint16_t rows, columns;

    if (!v->is_live)
        return;
    cli_term_size(v->fd, &rows, &columns);
    csn_buf_puts(&out, "\033[?2026h\033[H");
    put_title(v, columns, &out);
    put_lanes(v, rows > 4 ? (size_t) rows - 3 : 1, columns, &out);
    csn_buf_puts(&out, "\033[J\033[?2026l");
    (void) cli_write(v->fd, out.data, out.len); /* the terminal went away: the work goes on */
    v->frame++;
}
