#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "commands.h"
#include "out.h"
#include "session.h"

struct values {
    int json, quiet;
};

#define AT(field) offsetof(struct values, field)

static const cli_opt own_options[] = {
    { 'q', "quiet", CLI_FLAG, AT(quiet), NULL, "only what doesn't work", NULL, NULL },
    { 0, "json", CLI_FLAG, AT(json), NULL, "one JSON document", NULL, NULL },
    CLI_END
};

static const cli_group groups[] = { { "Options", own_options, 0 }, { NULL, NULL, 0 } };

struct visit {
    const struct values *v;
    csn_buf doc;
    csn_jw w;
    char kind[16]; /* of the last line: a new one gets a heading */
    unsigned n_ok, n_bad;
    char first_bad[64]; /* the first wall that is down */
};

static void put_json(struct visit *visit, const csn_check *c)
{
    csn_jw *w = &visit->w;

    csn_jw_begin_object(w);
    csn_jw_kstr(w, "name", c->name);
    csn_jw_kstr(w, "kind", c->kind);
    csn_jw_kbool(w, "ok", c->ok);
    csn_jw_kstr(w, "detail", c->detail);
    csn_jw_kstr(w, "remedy", c->remedy);
    csn_jw_kint(w, "errno", c->sys_errno);
    csn_jw_kstr(w, "follows", c->follows);
    csn_jw_end_object(w);
}

static const char *heading_of(const char *kind)
{
    if (csn_streq(kind, "wall"))
        return "Walls (each must stand, or no sandbox starts)";
    if (csn_streq(kind, "proof"))
        return "Proof";
    if (csn_streq(kind, "limit"))
        return "Limits (strongest way this machine has)";
    return "Extras";
}

static void put_heading(struct visit *visit, const char *kind, csn_buf *line)
{
    if (visit->v->quiet || csn_streq(visit->kind, kind))
        return;
    csn_buf_printf(line, "%s%s\n", visit->kind[0] ? "\n" : "", heading_of(kind));
    (void) csn_str_copy(visit->kind, sizeof(visit->kind), csn_str_of(kind));
}

static void put_mark(csn_buf *line, const csn_check *c)
{
    bool colored = cli_has_color(STDOUT_FILENO) && !c->follows;

    csn_buf_printf(line, "  %s%s%s ", colored ? (c->ok ? "\033[32m" : "\033[31m") : "",
                   c->follows ? "·"
                   : c->ok    ? "✓"
                              : "✗",
                   colored ? "\033[0m" : "");
}

static bool is_proof(const csn_check *c)
{
    return csn_starts_with(c->name, "sandbox");
}

/* Printed at once: the last check starts a sandbox, and one sees what it waits for. */
static void put_text(struct visit *visit, const csn_check *c)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;

    /* the last checks are whole sandboxes, after everything they are made of */
    put_heading(visit, is_proof(c) ? "proof" : c->kind, &line);
    put_mark(&line, c);
    csn_buf_printf(&line, "%-28s ", c->name);
    cli_put_safe(&line, c->detail ? c->detail : "");
    csn_buf_putc(&line, '\n');
    if (!c->ok && c->remedy && !c->follows) {
        csn_buf_puts(&line, "      fix: ");
        cli_put_safe(&line, c->remedy);
        csn_buf_putc(&line, '\n');
    }
    (void) cli_print(&line); /* said there */
}

static void on_check(const csn_check *check, void *user)
{
    struct visit *visit = user;

    if (check->ok)
        visit->n_ok++;
    else if (!check->follows) /* what only follows from another is no second failure */
        visit->n_bad++;
    if (!check->ok && !check->follows && csn_streq(check->kind, "wall") && !visit->first_bad[0])
        (void) csn_str_copy(visit->first_bad, sizeof(visit->first_bad), csn_str_of(check->name));
    if (visit->v->json)
        put_json(visit, check);
    else if ((!check->ok && !check->follows) || !visit->v->quiet)
        put_text(visit, check);
}

static int finish_json(struct visit *visit, int r, const csn_error *err)
{
    csn_jw_end_array(&visit->w);
    csn_jw_kstr(&visit->w, "version", csn_version());
    csn_jw_kbool(&visit->w, "ok", r == CSN_OK);
    if (r < 0)
        csn_jw_kstr(&visit->w, "error", err->message);
    csn_jw_end_object(&visit->w);
    if (cli_print_json(&visit->doc) != 0)
        return CLI_ENGINE;
    return r < 0 ? 1 : 0;
}

static int finish_text(const struct visit *visit, int r, const csn_error *err)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;

    if (r < 0) {
        if (visit->first_bad[0] && !csn_streq(visit->first_bad, "sandbox"))
            cli_note("no sandbox with all walls starts here: see '%s' above", visit->first_bad);
        else
            cli_note("no sandbox with all walls starts here: %s", err->message);
        return 1;
    }
    if (visit->v->quiet)
        return 0;
    csn_buf_printf(&line, "\nA sandbox with all walls starts here: %u of %u checks passed.\n",
                   visit->n_ok, visit->n_ok + visit->n_bad);
    return cli_print(&line) < 0 ? CLI_ENGINE : 0;
}

static void show_unopened(struct visit *visit, const csn_error *err)
{
    csn_check check = { .name = "state directory",
                        .kind = "wall",
                        .detail = err->message,
                        .remedy = "CAISSON_STATE=/another/directory caisson …",
                        .sys_errno = err->sys_errno };

    on_check(&check, visit);
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    struct values v = { 0 };
    struct visit visit = { .v = &v, .doc = CSN_BUF_INIT };
    csn_error err = { 0 };
    csn_error open_err = { 0 };
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args), r, opened;

    if (status >= 0)
        return status;
    cli_want_json(v.json);
    status = cli_want(cmd, &args, 0, 0);
    if (status >= 0)
        return status;
    opened = cli_try_open_here(&engine, &open_err);
    visit.w = (csn_jw) CSN_JW_INIT(&visit.doc, true);
    if (v.json) {
        csn_jw_begin_object(&visit.w);
        csn_jw_key(&visit.w, "checks");
        csn_jw_begin_array(&visit.w);
    }
    r = csn_engine_doctor(engine, on_check, &visit, &err);
    if (opened < 0) { /* the walls were tried all the same */
        show_unopened(&visit, &open_err);
        err = open_err;
        r = opened;
    }
    if (r == CSN_E_CANCELLED)
        status = cli_cancelled_status();
    else
        status = v.json ? finish_json(&visit, r, &err) : finish_text(&visit, r, &err);
    csn_buf_free(&visit.doc);
    return status;
}

const cli_command cli_cmd_doctor = {
    .name = "doctor",
    .summary = "Try every wall and limit on this machine, a whole sandbox last",
    .usage = "doctor [--json]",
    .text =
        "Says what works, what doesn't and the one command that fixes it. Exit status 0: a sandbox with\n"
        "all walls starts here; 1: it does not.",
    .groups = groups,
    .run = run,
};
