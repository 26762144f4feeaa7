/* One self-contained page: style inside, pictures inside, no script, and a policy that forbids both network and script
 * should anything ever slip through the escaping. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "report.h"

enum { MAX_COMPARED = 12, SHOWN_AT_FIRST = 3 };

static const char style[] =
    ":root{--bg:#f6f5f1;--card:#fff;--ink:#1c2128;--soft:#5d6673;--line:#e3e1da;--grid:#ecebe5;"
    "--ok:#16855b;--bad:#c2412d;--okbg:#e3f4ec;--badbg:#fbe8e4;--s:#9aa8bb;--q:#1f7a8c;--p:#e0a030;"
    "--ph1:#c9ced6;--ph2:#8fa3bf;--code:#f3f2ed;--win:#fff8e6;--winline:#e6c66a}"
    "@media(prefers-color-scheme:dark){:root{--bg:#12151a;--card:#1a1e25;--ink:#e4e7eb;--soft:#9aa4b2;"
    "--line:#2c323c;--grid:#252a33;--ok:#4cc38a;--bad:#f0806a;--okbg:#17352a;--badbg:#3d211c;"
    "--s:#66758a;--q:#3ba3b8;--p:#e3b04b;--ph1:#434b58;--ph2:#5f7494;--code:#14181e;--win:#2a2415;"
    "--winline:#7a6425}}"
    "*{box-sizing:border-box}html{color-scheme:light dark}"
    "body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.55 system-ui,-apple-system,'Segoe UI',"
    "Roboto,'DejaVu Sans',sans-serif}"
    "main{max-width:960px;margin:0 auto;padding:40px 24px 64px}"
    "h1{font-size:26px;line-height:1.25;margin:0 0 6px;letter-spacing:-.01em}"
    "h2{font-size:17px;margin:36px 0 12px}h3{font-size:15px;margin:18px 0 6px}"
    ".sub{color:var(--soft);margin:0}.card{background:var(--card);border:1px solid var(--line);"
    "border-radius:12px;padding:18px 20px;margin:14px 0;overflow:hidden}"
    ".obj{white-space:pre-wrap;overflow-wrap:anywhere;max-height:14em;overflow:auto;font-size:16px}"
    ".chips{display:flex;flex-wrap:wrap;gap:6px 8px;margin:14px 0 0;padding:0;list-style:none}"
    ".chips li{background:var(--code);border:1px solid var(--line);border-radius:99px;padding:2px 11px;"
    "font-size:13px;color:var(--soft)}.chips b{color:var(--ink);font-weight:600}"
    ".win{background:var(--win);border-color:var(--winline);display:flex;gap:20px;align-items:center;"
    "justify-content:space-between}.win .big{font-size:34px;font-weight:700;"
    "font-variant-numeric:tabular-nums;line-height:1}.win strong{font-size:20px}"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:14px}"
    "th{font-weight:600;color:var(--soft);text-align:left;font-size:12.5px}"
    "th,td{padding:9px 10px;border-bottom:1px solid var(--line);vertical-align:top}"
    "tr:last-child td{border-bottom:0}td.n,th.n{text-align:right;white-space:nowrap}td.t{font-weight:700}"
    "td.o{color:var(--soft)}"
    ".checks td:first-child{width:1%;white-space:nowrap}.scroll{overflow-x:auto}.id{color:var(--soft);font-size:13px;overflow-wrap:anywhere}"
    ".tag{display:inline-block;border-radius:6px;padding:0 8px;font-size:12px;font-weight:700;"
    "letter-spacing:.03em}.tag.ok{color:var(--ok);background:var(--okbg)}"
    ".tag.bad{color:var(--bad);background:var(--badbg)}"
    "svg{display:block;overflow:visible;font:13px system-ui,'DejaVu Sans',sans-serif}"
    "svg .lab{fill:var(--ink)}svg .val{fill:var(--ink);font-weight:600;font-size:12.5px}"
    "svg .tick{fill:var(--soft);font-size:11px}svg .grid{stroke:var(--grid)}"
    "svg .s{fill:var(--s)}svg .q{fill:var(--q)}svg .p{fill:var(--p)}svg .out rect{opacity:.4}"
    "svg rect{stroke:var(--card);stroke-width:.6}"
    "svg .ph1{fill:var(--ph1)}svg .ph2{fill:var(--ph2)}svg .ok{fill:var(--ok)}svg .bad{fill:var(--bad)}"
    "svg .box{fill:var(--q);opacity:.22}svg .med{stroke:var(--q);stroke-width:2.5}"
    "svg .dot{fill:var(--q)}svg .fail{fill:var(--bad)}"
    ".key{display:flex;flex-wrap:wrap;gap:4px 18px;margin:0 0 10px;color:var(--soft);font-size:13px}"
    ".key i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px;"
    "vertical-align:-1px}"
    "details{background:var(--card);border:1px solid var(--line);border-radius:12px;margin:10px 0;"
    "overflow:hidden}summary{cursor:pointer;padding:12px 18px;display:flex;gap:12px;align-items:center;"
    "flex-wrap:wrap}summary::before{content:'▸';color:var(--soft)}details[open]>summary::before{content:'▾'}"
    "summary::-webkit-details-marker{display:none}summary .id{margin-left:auto}"
    ".in{padding:12px 18px 16px;border-top:1px solid var(--line)}"
    "pre{background:var(--code);border:1px solid var(--line);border-radius:8px;padding:10px 12px;margin:6px 0;"
    "font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
    "white-space:pre-wrap;overflow-wrap:anywhere;max-height:26em;overflow:auto}"
    "pre i{font-style:normal;background:var(--badbg);color:var(--bad);border-radius:3px;padding:0 2px}"
    "pre .cut{display:block;color:var(--soft);font-style:italic;padding:4px 0}"
    ".err{color:var(--bad);font-weight:600;overflow-wrap:anywhere}.hint{color:var(--soft);margin:2px 0 0}"
    "footer{color:var(--soft);font-size:13px;margin-top:40px;overflow-wrap:anywhere}"
    ".cmp>input{margin:0 6px 0 0;vertical-align:-1px}.cmp>label{margin-right:16px;font-size:14px;"
    "overflow-wrap:anywhere}"
    ".cols{display:flex;gap:12px;margin-top:14px;max-height:80vh;overflow:auto;align-items:flex-start}"
    ".col{flex:1 0 280px;min-width:0}.col h3{position:sticky;top:0;margin:0;padding:2px 0 6px;"
    "background:var(--card);overflow-wrap:anywhere}.col pre{max-height:none;margin:0}"
    "@media(max-width:600px){main{padding:24px 12px 40px}.card{padding:14px}h1{font-size:22px}"
    ".win .big{font-size:28px}table{font-size:13px}th,td{padding:8px 4px}.w{display:none}}"
    "@media print{details{break-inside:avoid}pre,.cols{max-height:none}}";

/* A name, a reason, a path: nobody needs more than this of one. */
static void put_text(csn_sink *k, const char *text)
{
    csn_preview p = csn_preview_of(text, strlen(text), 2000);

    csn_html_text(&k->buf, p.head, p.n_head);
    csn_buf_puts(&k->buf, p.n_left_out > 0 ? " … " : "");
    csn_html_text(&k->buf, p.tail, p.n_tail);
}

static void put_preview(csn_sink *k, const char *data, size_t len, size_t max)
{
    csn_preview p = csn_preview_of(data, len, max);

    csn_buf_puts(&k->buf, "<pre>");
    csn_html_text(&k->buf, p.head, p.n_head);
    if (p.n_left_out > 0) {
        csn_buf_printf(&k->buf, "<span class=\"cut\">… %zu bytes left out here …</span>",
                       p.n_left_out);
        csn_html_text(&k->buf, p.tail, p.n_tail);
    }
    csn_buf_puts(&k->buf, "</pre>\n");
    csn_sink_flush(k, false);
}

static void put_head(csn_sink *k, const csn_arena_result *r)
{
    char took[32];

    csn_buf_puts(
        &k->buf,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "style-src 'unsafe-inline'\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
        "<title>Arena report</title>\n<style>");
    csn_buf_puts(&k->buf, style);
    for (int i = 0; i < MAX_COMPARED;
         i++) /* no script: a box that is not checked hides its column */
        csn_buf_printf(&k->buf, "#c%d:not(:checked)~.cols .c%d{display:none}", i, i);
    csn_buf_puts(&k->buf,
                 "</style></head>\n<body><main>\n<h1>Arena report</h1>\n<p class=\"sub\">");
    csn_buf_printf(&k->buf, "%zu candidate%s", r->n_candidates, r->n_candidates == 1 ? "" : "s");
    if (r->n_trials > 1)
        csn_buf_printf(&k->buf, " × %u trials", r->n_trials);
    csn_buf_printf(&k->buf, ", each run in a sandbox of its own. %s.</p>\n", r->timestamp);
    csn_buf_puts(&k->buf,
                 "<div class=\"card\"><div class=\"sub\">Objective</div><div class=\"obj\">");
    csn_html_text(&k->buf, r->objective, r->objective_len < 8192 ? r->objective_len : 8192);
    if (r->objective_len > 8192)
        csn_buf_printf(&k->buf, " … (%zu bytes in all)", r->objective_len);
    csn_buf_printf(
        &k->buf,
        "</div>\n<ul class=\"chips\"><li>execution <b>%s</b></li><li>at once <b>%u</b></li>"
        "<li>limit <b>%.10g s</b></li><li>whole run <b>%s</b></li>",
        r->execution_mode, r->n_jobs, r->timeout_seconds, csn_text_seconds(r->wall_seconds, took));
    csn_buf_printf(&k->buf, "<li>weights <b>%.2g success, %.2g quality, %.2g speed</b></li>",
                   r->weights[0], r->weights[1], r->weights[2]);
    if (r->n_trials > 1)
        csn_buf_printf(&k->buf, "<li>seed <b>%" PRIu64 "</b></li>", r->seed);
    if (r->cancelled)
        csn_buf_puts(&k->buf, "<li><b>cancelled</b></li>");
    if (r->fell_back)
        csn_buf_puts(&k->buf, "<li>Daytona not configured, <b>fell back to local</b></li>");
    csn_buf_puts(&k->buf, "</ul></div>\n");
}

static void put_winner(csn_sink *k, const csn_arena_result *r)
{
    const csn_score *s;

    if (r->winner < 0) {
        csn_buf_puts(&k->buf,
                     "<div class=\"card\"><strong>No winner:</strong> <span class=\"sub\">");
        put_text(k, csn_no_winner_why(r));
        csn_buf_puts(&k->buf, ".</span>");
        if (r->no_sandbox) {
            csn_buf_puts(&k->buf, "<p class=\"err\">");
            put_text(k, r->no_sandbox);
            csn_buf_puts(&k->buf, "</p><p class=\"hint\">Try: <code>");
            put_text(k, csn_no_sandbox_advice(r));
            csn_buf_puts(&k->buf, "</code></p>");
        }
        csn_buf_puts(&k->buf, "</div>\n");
        return;
    }
    s = &r->scores[r->winner];
    csn_buf_puts(&k->buf, "<div class=\"card win\"><div><div class=\"sub\">Winner</div><strong>");
    put_text(k, r->names[r->winner]);
    csn_buf_puts(&k->buf, "</strong><div class=\"id\">");
    if (r->descriptions[r->winner])
        put_text(k, r->descriptions[r->winner]);
    csn_buf_printf(&k->buf,
                   "</div></div><div><div class=\"sub\">Score</div><div class=\"big\">%.1f</div>"
                   "</div></div>\n",
                   s->total_score);
    if (r->comparison) {
        csn_buf_puts(&k->buf, "<div class=\"card\"><div class=\"sub\">Against the second, trial by "
                              "trial</div>");
        put_text(k, r->comparison->verdict);
        csn_buf_puts(&k->buf, "</div>\n");
    }
}

/* Whether the script ran well; what it wrote may still be refused. */
static void put_success(csn_sink *k, const csn_score *s)
{
    csn_buf_printf(&k->buf, "<span class=\"tag %s\">%s</span>", s->success ? "ok" : "bad",
                   s->success ? "PASS" : "FAIL");
}

static void put_row(csn_sink *k, const csn_arena_result *r, size_t i)
{
    const csn_score *s = &r->scores[i];
    const csn_candidate_result *c = r->results[i];
    char took[32], size[32], score[32];

    csn_buf_puts(&k->buf, "<tr><td><b>");
    put_text(k, r->names[i]);
    csn_buf_puts(&k->buf, "</b><div class=\"id\">");
    if (s->reason)
        put_text(k, s->reason);
    else if (r->descriptions[i])
        put_text(k, r->descriptions[i]);
    csn_buf_puts(&k->buf, "</div></td><td>");
    put_success(k, s);
    csn_buf_printf(&k->buf, "</td><td>%s</td>", csn_text_verdict(s));
    csn_buf_printf(&k->buf, "<td class=\"n w\">%.1f</td><td class=\"n w\">%.1f</td>",
                   s->quality_score, s->speed_score);
    csn_buf_printf(
        &k->buf,
        "<td class=\"n %s\">%s</td><td class=\"n\">%s</td><td class=\"n w\">%s</td></tr>\n",
        s->disqualified ? "o" : "t", csn_text_score(s, score),
        csn_text_seconds(c->t_exec >= 0 ? s->exec_seconds : -1, took),
        c->has_receipt && c->receipt.peak_memory_bytes >= 0
            ? csn_text_size(c->receipt.peak_memory_bytes, size)
            : "–");
}

static void put_scores(csn_sink *k, const csn_arena_result *r, const size_t *order)
{
    csn_buf_puts(
        &k->buf,
        "<h2>Scores</h2>\n<div class=\"card scroll\"><table><thead><tr><th>Candidate</th>"
        "<th>Success</th><th>Verdict</th><th class=\"n w\">Quality</th><th class=\"n w\">Speed</th>"
        "<th class=\"n\">Score</th><th class=\"n\">Time</th><th class=\"n w\">Peak memory</th>"
        "</tr></thead><tbody>\n");
    for (size_t i = 0; i < r->n_candidates; i++)
        put_row(k, r, order[i]);
    csn_buf_puts(&k->buf, "</tbody></table></div>\n<div class=\"card\"><div class=\"key\">"
                          "<span><i style=\"background:var(--s)\"></i>success</span>"
                          "<span><i style=\"background:var(--q)\"></i>quality</span>"
                          "<span><i style=\"background:var(--p)\"></i>speed</span>"
                          "<span>pale: disqualified</span></div>\n");
    csn_svg_bars(&k->buf, r, order);
    csn_buf_puts(&k->buf,
                 "</div>\n<h2>Timeline</h2>\n<div class=\"card\"><div class=\"key\">"
                 "<span><i style=\"background:var(--ph1)\"></i>create, clean up</span>"
                 "<span><i style=\"background:var(--ph2)\"></i>upload, setup</span>"
                 "<span><i style=\"background:var(--ok)\"></i>script, success</span>"
                 "<span><i style=\"background:var(--bad)\"></i>script, failure</span></div>\n");
    csn_svg_timeline(&k->buf, r);
    if (r->n_candidates > 120)
        csn_buf_printf(&k->buf, "<p class=\"sub\">The first 120 of %zu candidates.</p>",
                       r->n_candidates);
    csn_buf_puts(&k->buf, "</div>\n");
    csn_sink_flush(k, false);
}

static void put_trials(csn_sink *k, const csn_arena_result *r, const size_t *order)
{
    csn_buf_puts(&k->buf,
                 "<h2>Trials</h2>\n<div class=\"card scroll\"><table><thead><tr>"
                 "<th>Candidate</th><th class=\"n\">n</th><th class=\"n\">Success (95 %)</th>"
                 "<th class=\"n\">Time: median</th>"
                 "<th class=\"n\">middle half</th><th class=\"n\">Memory</th>"
                 "<th class=\"n\">Score: median</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < r->n_candidates; i++) {
        const csn_trial_stats *s = &r->stats[order[i]];
        char a[32], b[32], c[32], m[32];

        csn_buf_puts(&k->buf, "<tr><td><b>");
        put_text(k, r->names[order[i]]);
        csn_buf_printf(&k->buf,
                       "</b></td><td class=\"n\">%u</td><td class=\"n\">%.0f %% (%.0f – "
                       "%.0f)</td><td class=\"n\">%s</td><td class=\"n\">%s – %s</td>"
                       "<td class=\"n\">%s</td><td class=\"n\">%.1f</td></tr>\n",
                       s->n, 100 * s->success_rate, 100 * s->wilson_low, 100 * s->wilson_high,
                       csn_text_seconds(s->exec_seconds.median, a),
                       csn_text_seconds(s->exec_seconds.q1, b),
                       csn_text_seconds(s->exec_seconds.q3, c),
                       csn_text_memory(&s->peak_memory_bytes, m), s->total_score.median);
    }
    csn_buf_puts(&k->buf,
                 "</tbody></table></div>\n<div class=\"card\"><div class=\"key\"><span>time of the "
                 "script: each dot a trial, the box its middle half, the line its median"
                 "</span></div>\n");
    csn_svg_spread(&k->buf, r, order);
    csn_buf_puts(&k->buf, "</div>\n");
}

/* The checks of a score, kept as JSON. */
static void put_checks(csn_sink *k, const csn_score *s)
{
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *checks;

    if (!s->quality || csn_json_parse(s->quality, strlen(s->quality), &doc, NULL) < 0)
        return;
    checks = csn_json_get(doc, "checks");
    if (csn_json_count(checks) > 0)
        csn_buf_puts(&k->buf, "<h3>Checks</h3>\n<table class=\"checks\">");
    for (size_t i = 0; i < csn_json_count(checks); i++) {
        const csn_json *c = csn_json_at(checks, i);
        bool passed = csn_json_get_bool(c, "passed", false);

        csn_buf_printf(&k->buf, "<tr><td><span class=\"tag %s\">%s</span></td><td>",
                       passed ? "ok" : "bad", passed ? "yes" : "no");
        put_text(k, csn_json_get_str(c, "check", ""));
        csn_buf_puts(&k->buf, "</td><td class=\"id\">");
        put_text(k, csn_json_get_str(c, "why", ""));
        csn_buf_puts(&k->buf, "</td></tr>");
    }
    csn_buf_puts(&k->buf, csn_json_count(checks) > 0 ? "</table>\n" : "");
    if (csn_json_get_str(doc, "error", NULL)) {
        csn_buf_puts(&k->buf, "<p class=\"err\">");
        put_text(k, csn_json_get_str(doc, "error", ""));
        csn_buf_puts(&k->buf, "</p>");
    }
    if (csn_json_get(doc, "details")) {
        csn_auto(buf) csn_buf text = CSN_BUF_INIT;

        csn_json_dump(csn_json_get(doc, "details"), true, &text);
        csn_buf_puts(&k->buf, "<h3>Scorer</h3>\n");
        put_preview(k, text.data, text.len, 8192);
    }
}

static void put_receipt(csn_sink *k, const csn_candidate_result *c)
{
    char text[512];

    csn_buf_puts(&k->buf, "<h3>Receipt</h3>\n<p class=\"sub\">");
    if (c->has_receipt) {
        (void) csn_receipt_text(&c->receipt, text, sizeof(text));
        put_text(k, text);
        if (c->receipt.rung == CSN_RUNG_REMOTE)
            csn_buf_puts(&k->buf, "<br>the service does not tell what it used");
        else
            csn_buf_printf(&k->buf, "<br>cpu %.1f ms user, %.1f ms system · wrote %s",
                           (double) c->receipt.user_us / 1000, (double) c->receipt.sys_us / 1000,
                           csn_text_size(c->receipt.bytes_written, text));
    } else {
        csn_buf_puts(&k->buf, "The script was not run.");
    }
    if (c->sandbox_id) {
        csn_buf_puts(&k->buf, "<br>sandbox ");
        put_text(k, c->sandbox_id);
    }
    csn_buf_puts(&k->buf, "</p>\n");
}

static void put_streams(csn_sink *k, const csn_candidate_result *c, size_t max)
{
    char size[32];

    if (c->setup_output && c->setup_output_len > 0) {
        csn_buf_puts(&k->buf, "<h3>Setup</h3>\n");
        put_preview(k, c->setup_output, c->setup_output_len, max / 4);
    }
    csn_buf_printf(&k->buf, "<h3>Output <span class=\"id\">%s%s</span></h3>\n",
                   csn_text_size(c->output_bytes, size),
                   c->output_truncated ? ", of which the beginning was kept" : "");
    if (c->output_len > 0)
        put_preview(k, c->output, c->output_len, max);
    else
        csn_buf_puts(&k->buf, "<p class=\"sub\">nothing</p>\n");
    if (!c->artifact_content)
        return;
    csn_buf_printf(&k->buf, "<h3>Artifact <span class=\"id\">%s</span></h3>\n",
                   csn_text_size((int64_t) c->artifact_len, size));
    put_preview(k, c->artifact_content, c->artifact_len, max);
    if (c->artifact_file) {
        csn_buf_puts(&k->buf, "<p class=\"hint\">");
        put_text(k, c->artifact_file);
        csn_buf_puts(&k->buf, "</p>\n");
    }
}

static void put_candidate(csn_sink *k, const csn_arena_result *r, size_t i)
{
    const csn_candidate_result *c = r->results[i];
    const csn_score *s = &r->scores[i];
    const char *advice = csn_candidate_advice(c->error_message);

    csn_buf_printf(&k->buf, "<details%s><summary><b>", (int64_t) i == r->winner ? " open" : "");
    put_text(k, r->names[i]);
    csn_buf_puts(&k->buf, "</b>");
    put_success(k, s);
    csn_buf_printf(&k->buf, "<span class=\"sub\">%s</span><span class=\"id\">",
                   csn_text_verdict(s));
    put_text(k, c->candidate_id);
    csn_buf_puts(&k->buf, "</span></summary><div class=\"in\">\n");
    if (r->descriptions[i]) {
        csn_buf_puts(&k->buf, "<p class=\"sub\">");
        put_text(k, r->descriptions[i]);
        csn_buf_puts(&k->buf, "</p>\n");
    }
    if (c->error_message || s->reason) {
        csn_buf_puts(&k->buf, "<p class=\"err\">");
        put_text(k, c->error_message ? c->error_message : s->reason);
        csn_buf_puts(&k->buf, "</p>\n");
    }
    if (advice)
        csn_buf_printf(&k->buf, "<p class=\"hint\">%s</p>\n", advice);
    put_checks(k, s);
    put_streams(k, c, csn_preview_max(r));
    if (r->scripts[i]) {
        char size[32];

        csn_buf_printf(&k->buf, "<h3>Script <span class=\"id\">%s</span></h3>\n",
                       csn_text_size((int64_t) r->script_lens[i], size));
        put_preview(k, r->scripts[i], r->script_lens[i], csn_preview_max(r));
    }
    put_receipt(k, c);
    csn_buf_puts(&k->buf, "</div></details>\n");
    csn_sink_flush(k, false);
}

/* The best ones that wrote something, each in a column; boxes choose which are shown. */
static void put_side_by_side(csn_sink *k, const csn_arena_result *r, const size_t *order)
{
    size_t chosen[MAX_COMPARED], n = 0;

    for (size_t i = 0; i < r->n_candidates && n < MAX_COMPARED; i++)
        if (r->results[order[i]]->artifact_content)
            chosen[n++] = order[i];
    if (n < 2)
        return;
    csn_buf_puts(&k->buf, "<h2>Artifacts side by side</h2>\n<div class=\"card cmp\">");
    for (size_t i = 0; i < n; i++) {
        csn_buf_printf(&k->buf, "<input type=\"checkbox\" id=\"c%zu\"%s><label for=\"c%zu\">", i,
                       i < SHOWN_AT_FIRST ? " checked" : "", i);
        put_text(k, r->names[chosen[i]]);
        csn_buf_puts(&k->buf, "</label>\n");
    }
    csn_buf_puts(&k->buf, "<div class=\"cols\">\n");
    for (size_t i = 0; i < n; i++) {
        const csn_candidate_result *c = r->results[chosen[i]];

        csn_buf_printf(&k->buf, "<section class=\"col c%zu\"><h3>", i);
        put_text(k, r->names[chosen[i]]);
        csn_buf_printf(&k->buf, " <span class=\"id\">%s</span></h3>",
                       csn_text_verdict(&r->scores[chosen[i]]));
        put_preview(k, c->artifact_content, c->artifact_len, csn_preview_max(r));
        csn_buf_puts(&k->buf, "</section>\n");
    }
    csn_buf_puts(&k->buf, "</div></div>\n");
}

static void put_contest(csn_sink *sink, const csn_arena_result *r, const size_t *order)
{
    put_scores(sink, r, order);
    if (r->n_trials > 1)
        put_trials(sink, r, order);
    put_side_by_side(sink, r, order);
    csn_buf_puts(&sink->buf, "<h2>Candidates</h2>\n");
    for (size_t i = 0; i < r->n_candidates; i++)
        put_candidate(sink, r, order[i]);
}

void csn_report_html(csn_sink *sink, const csn_arena_result *r, const size_t *order)
{
    put_head(sink, r);
    put_winner(sink, r);
    if (!r->no_sandbox)
        put_contest(sink, r, order);
    csn_buf_puts(&sink->buf, "<footer>");
    put_text(sink, r->environment);
    if (r->artifacts_dir) {
        csn_buf_puts(&sink->buf, " · artifacts in ");
        put_text(sink, r->artifacts_dir);
    }
    csn_buf_puts(&sink->buf, "</footer>\n</main></body></html>\n");
}
