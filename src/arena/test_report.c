/* The reports on made-up results: the pictures' numbers don't matter here, what hostile text does to the page does. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arena.h"
#include "base/fault.h"
#include "base/fd.h"
#include "csn_test.h"
#include "report.h"

#define EVIL \
    "</pre><script>alert(1)</script><img src=x onerror=alert(2)>'\"&\x1b[31m\xff\xe2\x80\xae|`\n```\n"

static void free_arena(void *user)
{
    csn_arena_result_free(user);
}

static void fill(csn_candidate_result *r, size_t i, unsigned trial)
{
    bool ok = i % 5 < 3;

    r->trial = trial;
    r->success = ok;
    r->exit_code = ok ? 0 : 1;
    r->sandbox_id = csn_strdup("0123456789abcdef0123456789abcdef");
    r->exec_seconds = 0.2 + 0.3 * (double) i + 0.05 * (double) trial;
    r->runtime_seconds = r->exec_seconds + 0.05;
    r->t_start = 0.01 * (double) i + trial;
    r->t_ready = r->t_start + 0.02;
    r->t_exec = r->t_ready + 0.01;
    r->t_exec_end = r->t_exec + r->exec_seconds;
    r->t_end = r->t_exec_end + 0.01;
    r->has_receipt = 1;
    r->receipt.ended = CSN_ENDED_EXIT;
    r->receipt.exit_code = r->exit_code;
    r->receipt.wall_us = (int64_t) (r->exec_seconds * 1e6);
    r->receipt.peak_memory_bytes = (int64_t) (8 + i) << 20;
    if (!ok)
        r->error_message = csn_strdup("Script exited with code 1");
}

/* Five candidates like those of the examples; `text` is what they print and write. */
static csn_arena_result *an_arena(unsigned n_trials, const char *text, size_t len)
{
    static const char *const ids[] = { "alpha", "beta", "gamma", "delta", "epsilon" };
    csn_arena_result *a = csn_calloc(1, sizeof(*a));
    size_t n = 5, n_runs = n * n_trials;

    a->n_candidates = n;
    a->n_trials = n_trials;
    a->n_runs = n_runs;
    a->n_jobs = 5;
    a->seed = 42;
    a->timeout_seconds = 60;
    a->wall_seconds = 1.7;
    a->execution_mode = "local";
    memcpy(a->weights, (double[]){ 0.2, 0.6, 0.2 }, sizeof(a->weights));
    a->objective = csn_strndup(text, len < 4000 ? len : 4000);
    a->objective_len = strlen(a->objective);
    a->timestamp = csn_strdup("2026-01-01T00:00:00.000Z");
    a->environment = csn_strdup("caisson test");
    a->artifact_name = csn_strdup("output.md");
    a->results = csn_calloc(n, sizeof(csn_candidate_result *));
    a->scores = csn_calloc(n, sizeof(*a->scores));
    a->names = csn_calloc(n, sizeof(*a->names));
    a->descriptions = csn_calloc(n, sizeof(*a->descriptions));
    a->scripts = csn_calloc(n, sizeof(*a->scripts));
    a->script_lens = csn_calloc(n, sizeof(*a->script_lens));
    a->stats = csn_calloc(n, sizeof(*a->stats));
    a->runs = csn_calloc(n_runs, sizeof(csn_candidate_result *));
    a->run_candidate = csn_calloc(n_runs, sizeof(*a->run_candidate));
    a->run_scores = csn_calloc(n_runs, sizeof(*a->run_scores));
    for (size_t i = 0; i < n_runs; i++) {
        csn_candidate_result *r = a->runs[i] = csn_result_new(ids[i % n]);

        fill(r, i % n, (unsigned) (i / n));
        a->run_candidate[i] = i % n;
        a->run_scores[i] =
            (csn_score){ .candidate_id = r->candidate_id,
                         .success = r->success,
                         .disqualified = !r->success,
                         .quality_score = r->success ? 90 - 10 * (double) (i % n) : 0,
                         .speed_score = 99 - (double) (i % n),
                         .total_score = r->success ? 90 - 6 * (double) (i % n) : 19.8,
                         .exec_seconds = r->exec_seconds };
        if (!r->success)
            a->run_scores[i].reason = csn_strdup(text);
        if (i >= n)
            continue;
        a->results[i] = r;
        a->names[i] = csn_strdup(i == 3 ? text : ids[i]);
        a->descriptions[i] = csn_strdup(i == 3 ? text : "what it does");
        free(r->output);
        r->output = csn_strndup(text, len);
        r->output_len = strlen(r->output);
        r->output_bytes = (int64_t) r->output_len;
        r->artifact_content = csn_strndup(text, len);
        r->artifact_len = r->output_len;
    }
    CHECK_INT(csn_arena_summarise(a), 0);
    csn_test_defer(free_arena, a);
    return a;
}

static const char *reported(const csn_arena_result *a, csn_report_format format, size_t *ret_len)
{
    static csn_buf out = CSN_BUF_INIT_MAX((size_t) 1 << 30);
    int fd = memfd_create("report", MFD_CLOEXEC);
    csn_error err = { 0 };

    csn_buf_clear(&out);
    if (csn_arena_report(a, format, fd, &err) < 0)
        FAIL("%s", err.message);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    CHECK_INT(csn_read_to_buf(fd, &out, (size_t) 1 << 30), 0);
    (void) close(fd);
    if (ret_len)
        *ret_len = out.len;
    return out.data;
}

TEST(hostile_text_stays_text_in_html)
{
    const char *page = reported(an_arena(1, EVIL, strlen(EVIL)), CSN_REPORT_HTML, NULL);

    CHECK(!strstr(page, "<script") && !strstr(page, "<img") && !strstr(page, "\x1b"));
    CHECK(strstr(page, "&lt;script&gt;alert(1)&lt;/script&gt;"));
    CHECK(strstr(page, "U+202E") && !strstr(page, "\xe2\x80\xae"));
    CHECK(strstr(page, "\xef\xbf\xbd") && !strchr(page, '\xff'));
    CHECK(strstr(page, "default-src 'none'"));
    CHECK(!strstr(page, "http://") || strstr(page, "http://www.w3.org/2000/svg"));
    CHECK(strstr(page, "</main></body></html>"));
}

TEST(ten_megabytes_are_cut_in_the_page_and_whole_in_the_json)
{
    size_t len = (size_t) 10 << 20, page_len, json_len;
    char *big = malloc(len + 1);

    CHECK(big != NULL);
    memset(big, 'x', len);
    big[len] = '\0';
    (void) reported(an_arena(1, big, len), CSN_REPORT_HTML, &page_len);
    CHECK(page_len < (size_t) 2 << 20);
    (void) reported(an_arena(1, big, len), CSN_REPORT_MARKDOWN, &page_len);
    CHECK(page_len < (size_t) 1 << 20);
    (void) reported(an_arena(1, big, len), CSN_REPORT_JSON, &json_len);
    CHECK(json_len > len);
    free(big);
}

TEST(hostile_text_can_not_leave_its_block_in_markdown)
{
    const char *text = reported(an_arena(1, EVIL, strlen(EVIL)), CSN_REPORT_MARKDOWN, NULL);

    CHECK(strstr(text, "````text\n"));
    CHECK(!strstr(text, "\x1b"));
    CHECK(strstr(text, "&lt;script&gt;"));
}

TEST(json_is_one_document_with_the_documented_fields)
{
    csn_auto(json) csn_json *doc = NULL;
    size_t len;
    const char *text = reported(an_arena(6, EVIL, strlen(EVIL)), CSN_REPORT_JSON, &len);
    static const char *const top[] = { "objective",    "timestamp",       "execution_mode",
                                       "candidates",   "scores",          "winner_id",
                                       "winner_score", "winner_artifact", "artifacts_dir",
                                       "statistics",   "comparison",      "runs" };
    static const char *const fields[] = {
        "candidate_id",     "sandbox_id",      "success",          "output",
        "artifact_content", "runtime_seconds", "error_message",    "exit_code",
        "timed_out",        "exec_seconds",    "output_truncated", "output_bytes",
        "artifact_bytes",   "artifact_path",   "artifact_file",    "stderr",
        "receipt",          "artifact",        "output_base64",    "artifact_content_base64",
    };
    static const char *const scores[] = { "candidate_id",   "success",         "produced_output",
                                          "error_occurred", "error_message",   "quality",
                                          "quality_score",  "runtime_seconds", "speed_score",
                                          "total_score" };
    char where[160];

    if (csn_json_parse(text, len, &doc, where) < 0)
        FAIL("%s", where);
    for (size_t i = 0; i < CSN_COUNT(top); i++)
        if (!csn_json_get(doc, top[i]))
            FAIL("no '%s'", top[i]);
    for (size_t i = 0; i < CSN_COUNT(fields); i++)
        if (!csn_json_get(csn_json_at(csn_json_get(doc, "candidates"), 0), fields[i]))
            FAIL("no candidate '%s'", fields[i]);
    for (size_t i = 0; i < CSN_COUNT(scores); i++)
        if (!csn_json_get(csn_json_at(csn_json_get(doc, "scores"), 0), scores[i]))
            FAIL("no score '%s'", scores[i]);
    CHECK_STR(csn_json_get_str(doc, "winner_id", ""), "alpha");
    CHECK_INT(csn_json_count(csn_json_get(doc, "runs")), 30);
    CHECK_STR(csn_json_get_str(csn_json_get(doc, "comparison"), "verdict", ""),
              "alpha beats beta: median total +6.0 points over 6 paired trials (p = 0.031)");
}

/* Tags taken out, blanks folded: what a reader of the page sees. */
static const char *visible(const char *page)
{
    static csn_buf out = CSN_BUF_INIT_MAX((size_t) 1 << 30);
    bool is_tag = false;

    csn_buf_clear(&out);
    for (const char *p = strstr(page, "<body"); *p; p++) {
        is_tag = is_tag ? *p != '>' : *p == '<';
        if (is_tag || *p == '>' || *p == '\n' || *p == ' ') {
            if (out.len && out.data[out.len - 1] != ' ')
                csn_buf_putc(&out, ' ');
        } else {
            csn_buf_putc(&out, *p);
        }
    }
    return out.data;
}

TEST(success_verdict_and_score_are_three_things)
{
    csn_arena_result *a = an_arena(1, "some text that is long enough", 29);
    const char *page, *text;

    a->results[1]->success = a->scores[1].success = 1; /* ran well, wrote the wrong thing */
    a->scores[1].disqualified = 1;
    a->scores[1].total_score = 39.6;
    page = reported(a, CSN_REPORT_HTML, NULL);
    text = visible(page);
    CHECK(strstr(text, "Candidate Success Verdict Quality Speed Score Time"));
    CHECK(strstr(text, " alpha what it does PASS qualified 90.0 99.0 90.0 "));
    CHECK(strstr(text, " PASS disqualified 80.0 98.0 (39.6) "));
    CHECK(strstr(text, " FAIL disqualified 0.0 95.0 (19.8) "));
    CHECK(strstr(page, "<td class=\"n t\">90.0</td>")); /* bold */
    CHECK(!strstr(page, "<td class=\"n t\">(") && !strstr(page, "<td class=\"n t\">19.8"));
    CHECK(!strstr(page, "class=\"val\" x=\"100%\" y=\"17\">(39.6"));
    text = reported(a, CSN_REPORT_MARKDOWN, NULL);
    CHECK(strstr(text,
                 "| Candidate | Success | Verdict | Quality | Speed | Score | Time | Remark |"));
    CHECK(strstr(text, "| alpha | PASS | qualified | 90.0 | 99.0 | **90.0** |"));
    CHECK(strstr(text, "| beta | PASS | disqualified | 80.0 | 98.0 | (39.6) |"));
}

/* The value of an attribute in the n-th element that begins so. */
static double attribute(const char *svg, const char *element, size_t n, const char *name)
{
    csn_auto(buf) csn_buf key = CSN_BUF_INIT;

    csn_buf_printf(&key, " %s=\"", name);
    for (n++; n > 0 && svg; n--)
        svg = strstr(svg + 1, element);
    svg = svg ? strstr(svg, key.data) : NULL;
    return svg ? strtod(svg + key.len, NULL) : -1;
}

TEST(trials_that_overlap_are_drawn_apart)
{
    csn_arena_result *a = an_arena(3, "x", 1);
    csn_auto(buf) csn_buf svg = CSN_BUF_INIT;
    double y[3];

    for (size_t i = 0; i < a->n_runs; i++) { /* all at the same time, all as long */
        csn_candidate_result *r = a->runs[i];

        r->t_start = 0;
        r->t_ready = r->t_exec = 0.1;
        r->t_exec_end = r->t_end = 1;
        r->exec_seconds = 0.9;
        r->success = 1;
    }
    csn_svg_timeline(&svg, a);
    for (size_t k = 0; k < 3; k++)
        y[k] = attribute(svg.data, "<rect class=\"ok\"", k, "y");
    CHECK(y[0] >= 0 && y[1] >= 0 && y[2] >= 0);
    for (size_t k = 0; k < 3; k++)
        for (size_t m = 0; m < k; m++) {
            double height = attribute(svg.data, "<rect class=\"ok\"", k, "height");

            CHECK(y[k] >= y[m] + height || y[m] >= y[k] + height);
        }
    csn_buf_clear(&svg);
    csn_svg_spread(&svg, a, (size_t[]){ 0, 1, 2, 3, 4 });
    for (size_t k = 0; k < 3; k++)
        y[k] = attribute(svg.data, "<circle", k, "cy");
    CHECK(y[0] >= 0);
    for (size_t k = 0; k < 3; k++)
        for (size_t m = 0; m < k; m++)
            CHECK(y[k] - y[m] >= 6 || y[m] - y[k] >= 6);
    csn_buf_clear(&svg);
    for (size_t i = 0; i < a->n_runs; i++) { /* one after the other: one lane will do */
        csn_candidate_result *r = a->runs[i];

        r->t_start = r->t_ready = r->t_exec = 2.0 * r->trial;
        r->t_exec_end = r->t_end = 2.0 * r->trial + 1;
    }
    csn_svg_timeline(&svg, a);
    CHECK(attribute(svg.data, "<rect class=\"ok\"", 0, "y") ==
          attribute(svg.data, "<rect class=\"ok\"", 1, "y"));
}

/* What has a width of its own is drawn smaller with the page; places in percent leave the letters as they are. */
TEST(charts_do_not_shrink_with_the_page)
{
    const char *page = reported(an_arena(3, "x", 1), CSN_REPORT_HTML, NULL);

    CHECK(strstr(page, "<svg "));
    CHECK(!strstr(page, "viewBox"));
    CHECK(strstr(page, "width=\"100%\""));
}

TEST(artifacts_stand_side_by_side_and_scripts_are_there)
{
    csn_arena_result *a = an_arena(1, EVIL, strlen(EVIL));
    const char *page;

    a->scripts[0] = csn_strdup("print('the script of alpha')\n</pre><script>");
    a->script_lens[0] = strlen(a->scripts[0]);
    page = reported(a, CSN_REPORT_HTML, NULL);
    CHECK(strstr(page, "print(&#39;the script of alpha&#39;)"));
    CHECK(!strstr(page, "<script"));
    CHECK(strstr(page, "<h2>Artifacts side by side</h2>"));
    CHECK(strstr(page, "<section class=\"col c0\">") && strstr(page, "<section class=\"col c4\">"));
    CHECK(strstr(page, "#c4:not(:checked)~.cols .c4{display:none}"));
    for (size_t i = 1; i < a->n_candidates; i++) { /* one alone is compared with nothing */
        free(a->results[i]->artifact_content);
        a->results[i]->artifact_content = NULL;
    }
    CHECK(!strstr(reported(a, CSN_REPORT_HTML, NULL), "side by side</h2>"));
    CHECK(strstr(reported(a, CSN_REPORT_MARKDOWN, NULL), "Script:\n\n```text\nprint("));
}

TEST(few_trials_are_called_few)
{
    csn_arena_result *a = an_arena(5, "x", 1);

    CHECK_STR(a->comparison->verdict,
              "no significant difference at n=5 between alpha and beta (p = 0.062); "
              "so few trials can't show one: use at least 6");
}

/* Not a check: writes the pages to look at, when asked to. */
TEST(pages_to_look_at)
{
    const char *dir = getenv("CSN_REPORT_DIR");

    if (!dir)
        return;
    for (unsigned trials = 1; trials < 12; trials += 10) {
        size_t len;
        const char *page = reported(an_arena(trials, "# Events\n\n- one\n- two <b>bold</b>\n", 34),
                                    CSN_REPORT_HTML, &len);
        csn_auto(buf) csn_buf path = CSN_BUF_INIT;
        FILE *f;

        csn_buf_printf(&path, "%s/report-%u.html", dir, trials);
        f = fopen(path.data, "w");
        CHECK(f && fwrite(page, 1, len, f) == len);
        (void) fclose(f);
    }
}
