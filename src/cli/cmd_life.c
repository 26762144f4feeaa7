/* start, stop and rm: the same verb for each sandbox named. One that fails doesn't keep the others. */
#include "base/str.h"
#include "commands.h"
#include "out.h"
#include "session.h"

struct values {
    int64_t grace;
    int force, all, quiet;
};

#define AT(field) offsetof(struct values, field)

#define QUIET \
    { \
        'q', "quiet", CLI_FLAG, AT(quiet), NULL, "don't print what was done", NULL, NULL \
    }

static const cli_opt start_options[] = { QUIET, CLI_END };

static const cli_opt stop_options[] = { { 't', "time", CLI_DURATION, AT(grace), "TIME",
                                          "between SIGTERM and the end (2s); 0: none", NULL, NULL },
                                        { 'a', "all", CLI_FLAG, AT(all), NULL,
                                          "every started sandbox", NULL, NULL },
                                        QUIET,
                                        CLI_END };

static const cli_opt rm_options[] = {
    { 'f', "force", CLI_FLAG, AT(force), NULL, "one that isn't there is no error", NULL, NULL },
    { 'a', "all", CLI_FLAG, AT(all), NULL, "every sandbox", NULL, NULL },
    QUIET,
    CLI_END
};

static const cli_group start_groups[] = { { "Options", start_options, 0 }, { NULL, NULL, 0 } };
static const cli_group stop_groups[] = { { "Options", stop_options, 0 }, { NULL, NULL, 0 } };
static const cli_group rm_groups[] = { { "Options", rm_options, 0 }, { NULL, NULL, 0 } };

typedef int verb_fn(csn_sandbox *box, const struct values *v, csn_error *err);

static int start_one(csn_sandbox *box, const struct values *v, csn_error *err)
{
    (void) v;
    return csn_sandbox_start(box, err);
}

static int stop_one(csn_sandbox *box, const struct values *v, csn_error *err)
{
    /* "0" reads as CSN_UNLIMITED, which is -1, which is the library's word for "none" */
    return csn_sandbox_stop(box, v->grace > 600000 ? 600000 : (int) v->grace, err);
}

static int rm_one(csn_sandbox *box, const struct values *v, csn_error *err)
{
    (void) v;
    return csn_sandbox_delete(box, err);
}

static int do_one(csn_engine *engine, const char *name, const struct values *v, verb_fn *verb)
{
    csn_auto(sandbox) csn_sandbox *box = NULL;
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;
    csn_error err = { 0 };

    if (csn_sandbox_open(engine, name, &box, &err) < 0)
        return v->force && err.code == CSN_E_NOT_FOUND ? 0 : cli_fail(&err, NULL);
    if (verb(box, v, &err) < 0)
        return err.code == CSN_E_CANCELLED ? cli_cancelled_status() : cli_fail(&err, NULL);
    if (v->quiet)
        return 0;
    cli_put_safe(&line, name);
    csn_buf_putc(&line, '\n');
    return cli_print(&line) < 0 ? CLI_ENGINE : 0;
}

struct everything {
    cli_list ids;
    bool started_only;
};

static void note_id(const csn_sandbox_info *info, void *user)
{
    struct everything *all = user;
    csn_buf id = CSN_BUF_INIT;
    char *text;

    if (all->started_only && info->state != CSN_STATE_STARTED)
        return;
    csn_buf_puts(&id, info->id);
    text = csn_buf_take(&id, NULL);
    if (!text)
        cli_out_of_memory();
    cli_list_add(&all->ids, text); /* lives as long as the program */
}

static int do_all(const cli_command *cmd, int argc, char **argv, verb_fn *verb)
{
    csn_auto(engine) csn_engine *engine = NULL;
    struct everything all = { .started_only = verb == stop_one };
    struct values v = { 0 };
    csn_error err = { 0 };
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status < 0)
        status = cli_want(cmd, &args, v.all ? 0 : 1, v.all ? 0 : -1);
    if (status < 0)
        status = verb == start_one ? cli_open_to_make(0, &engine) : cli_open(0, &engine);
    if (status >= 0)
        return status;
    if (v.all && csn_sandbox_list(engine, note_id, &all, &err) < 0)
        return cli_fail(&err, NULL);
    status = 0;
    for (int i = 0; i < args.argc; i++)
        cli_list_add(&all.ids, args.argv[i]);
    v.force = v.force || v.all; /* one that goes meanwhile is fine */
    for (size_t i = 0; i < all.ids.n && status < 128; i++) {
        int one = do_one(engine, all.ids.items[i], &v, verb);

        status = one ? one : status;
    }
    return status;
}

static int run_start(const cli_command *cmd, int argc, char **argv)
{
    return do_all(cmd, argc, argv, start_one);
}

static int run_stop(const cli_command *cmd, int argc, char **argv)
{
    return do_all(cmd, argc, argv, stop_one);
}

static int run_rm(const cli_command *cmd, int argc, char **argv)
{
    return do_all(cmd, argc, argv, rm_one);
}

const cli_command cli_cmd_start = {
    .name = "start",
    .summary = "Start stopped sandboxes on their files",
    .usage = "start BOX…",
    .groups = start_groups,
    .operands = "@box",
    .reach = CLI_ANYWHERE,
    .run = run_start,
};

const cli_command cli_cmd_stop = {
    .name = "stop",
    .summary = "Stop sandboxes: SIGTERM, a moment, then the end; files stay",
    .usage = "stop [-t TIME] BOX…\nstop --all",
    .groups = stop_groups,
    .operands = "@box",
    .reach = CLI_ANYWHERE,
    .run = run_stop,
};

const cli_command cli_cmd_rm = {
    .name = "rm",
    .alias = "delete",
    .summary = "Delete sandboxes, running or not, with all they hold",
    .usage = "rm [-f] BOX…\nrm --all",
    .groups = rm_groups,
    .operands = "@box",
    .reach = CLI_ANYWHERE,
    .run = run_rm,
};
