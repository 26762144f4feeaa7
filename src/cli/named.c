#include "named.h"

#include "out.h"
#include "session.h"

#define JSON \
    { \
        0, "json", CLI_FLAG, offsetof(cli_named, json), NULL, "one JSON document", NULL, NULL \
    }

static const cli_opt make_options[] = { CLI_NAMED_QUIET, CLI_END };
static const cli_opt ls_options[] = { CLI_NAMED_QUIET, JSON, CLI_END };
static const cli_opt inspect_options[] = { JSON, CLI_END };
static const cli_opt rm_options[] = { { 'f', "force", CLI_FLAG, offsetof(cli_named, force), NULL,
                                        "one that isn't there is no error", NULL, NULL },
                                      CLI_NAMED_QUIET,
                                      CLI_END };

const cli_group cli_named_make_groups[] = { { "Options", make_options, 0 }, { NULL, NULL, 0 } };
const cli_group cli_named_ls_groups[] = { { "Options", ls_options, 0 }, { NULL, NULL, 0 } };
const cli_group cli_named_inspect_groups[] = { { "Options", inspect_options, 0 },
                                               { NULL, NULL, 0 } };
const cli_group cli_named_rm_groups[] = { { "Options", rm_options, 0 }, { NULL, NULL, 0 } };

int cli_named_begin(const cli_command *cmd, int argc, char **argv, cli_named *values,
                    cli_args *args, int min, int max, csn_engine **ret_engine)
{
    int status = cli_parse(cmd, argc, argv, values, args);

    if (status >= 0)
        return status;
    cli_want_json(values->json);
    status = cli_want(cmd, args, min, max);
    return status >= 0 ? status : cli_open(0, ret_engine);
}

int cli_named_end(const cli_named *values, const char *name, int r, const csn_error *err)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;

    if (r < 0)
        return err->code == CSN_E_CANCELLED ? cli_cancelled_status() : cli_fail(err, NULL);
    if (values->quiet)
        return 0;
    csn_buf_printf(&line, "%s\n", name);
    return cli_print(&line) < 0 ? CLI_ENGINE : 0;
}

int cli_named_rm(const cli_command *cmd, int argc, char **argv,
                 int (*remove)(csn_engine *engine, const char *name, csn_error *err))
{
    csn_auto(engine) csn_engine *engine = NULL;
    cli_named v = { 0 };
    cli_args args;
    int status = cli_named_begin(cmd, argc, argv, &v, &args, 1, -1, &engine);

    if (status >= 0)
        return status;
    status = 0;
    for (int i = 0; i < args.argc; i++) {
        csn_error err = { 0 };
        int r = remove(engine, args.argv[i], &err);
        int one = v.force && r == CSN_E_NOT_FOUND ? 0 : cli_named_end(&v, args.argv[i], r, &err);

        status = one ? one : status;
    }
    return status;
}

int cli_named_print(const cli_named *values, csn_buf *out)
{
    if (values->json)
        return cli_print_json(out);
    return cli_print(out) < 0 ? CLI_ENGINE : 0;
}

void cli_listing_begin(cli_listing *l, const cli_named *values, const char *const *heads)
{
    l->values = values;
    l->text = (csn_buf) CSN_BUF_INIT;
    l->w = (csn_jw) CSN_JW_INIT(&l->text, true);
    if (values->json)
        csn_jw_begin_array(&l->w);
    for (; *heads; heads++)
        cli_table_cell(&l->table, *heads);
}

void cli_listing_name(cli_listing *l, const char *name)
{
    csn_buf_printf(&l->text, "%s\n", name);
    cli_table_cell(&l->table, name);
}

int cli_listing_end(cli_listing *l, int r, const csn_error *err)
{
    int status;

    if (r < 0) {
        status = cli_fail(err, NULL);
    } else if (l->values->json) {
        csn_jw_end_array(&l->w);
        status = cli_print_json(&l->text);
    } else if (l->values->quiet) {
        status = cli_print(&l->text) < 0 ? CLI_ENGINE : 0;
    } else {
        status = cli_table_print(&l->table);
    }
    csn_table_auto(&l->table);
    csn_buf_free(&l->text);
    return status;
}
