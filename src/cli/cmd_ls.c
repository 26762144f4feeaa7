#include <string.h>

#include "base/str.h"
#include "boxjson.h"
#include "commands.h"
#include "out.h"
#include "session.h"
#include "table.h"

struct values {
    cli_list labels;
    const char *state;
    int all, json, quiet, names, no_trunc;
};

#define AT(field) offsetof(struct values, field)

static const cli_opt own_options[] = {
    { 'l', "label", CLI_LIST, AT(labels), "KEY[=VALUE]",
      "only those with this label; several must all fit", NULL, NULL },
    { 's', "state", CLI_CHOICE, AT(state), "STATE", "only those in this state",
      "creating started stopped deleting", NULL },
    { 'a', "all", CLI_FLAG, AT(all), NULL, "all states (the default, taken for habit's sake)", NULL,
      NULL },
    { 'q', "quiet", CLI_FLAG, AT(quiet), NULL, "ids only", NULL, NULL },
    { 0, "names", CLI_FLAG, AT(names), NULL, "names only, the id where there is none", NULL, NULL },
    { 0, "no-trunc", CLI_FLAG, AT(no_trunc), NULL, "whole ids", NULL, NULL },
    { 0, "json", CLI_FLAG, AT(json), NULL, "one JSON array", NULL, NULL },
    CLI_END
};

static const cli_group groups[] = { { "Options", own_options, 0 }, { NULL, NULL, 0 } };

struct listing {
    const struct values *v;
    cli_table table;
    csn_buf text;
    csn_jw w;
};

/* "key" fits any value, "key=value" that one. */
static bool has_label(const csn_sandbox_info *info, const char *wanted)
{
    size_t n = strlen(wanted);
    bool with_value = strchr(wanted, '=');

    for (size_t i = 0; info->labels && info->labels[i]; i++)
        if (with_value ? csn_streq(info->labels[i], wanted)
                       : csn_starts_with(info->labels[i], wanted) && info->labels[i][n] == '=')
            return true;
    return false;
}

static bool is_wanted(const struct values *v, const csn_sandbox_info *info)
{
    if (v->state && !csn_streq(v->state, csn_state_name(info->state)))
        return false;
    for (size_t i = 0; i < v->labels.n; i++)
        if (!has_label(info, v->labels.items[i]))
            return false;
    return true;
}

static void put_row(struct listing *l, const csn_sandbox_info *info)
{
    csn_auto(buf) csn_buf labels = CSN_BUF_INIT;
    char id[33];

    (void) csn_str_copy(id, sizeof(id),
                        csn_str_n(info->id, l->v->no_trunc ? strlen(info->id) : 12));
    cli_table_cell(&l->table, id);
    cli_table_cell(&l->table, info->name);
    cli_table_cell(&l->table, info->image);
    cli_table_cell(&l->table, csn_state_name(info->state));
    cli_table_cell(&l->table, cli_age(info->created_ms));
    cli_table_cell(&l->table, cli_limit_size(info->memory_bytes));
    for (size_t i = 0; info->labels && info->labels[i]; i++)
        csn_buf_printf(&labels, "%s%s", i ? "," : "", info->labels[i]);
    cli_table_cell(&l->table, labels.data);
}

static void on_box(const csn_sandbox_info *info, void *user)
{
    struct listing *l = user;

    if (!is_wanted(l->v, info))
        return;
    if (l->v->json) {
        csn_jw_begin_object(&l->w);
        cli_jw_box(&l->w, info);
        csn_jw_end_object(&l->w);
    } else if (l->v->names) {
        csn_buf_printf(&l->text, "%s\n", info->name[0] ? info->name : info->id);
    } else if (l->v->quiet) {
        csn_buf_printf(&l->text, "%s\n", info->id);
    } else {
        put_row(l, info);
    }
}

static int print_listing(struct listing *l)
{
    if (l->v->json) {
        csn_jw_end_array(&l->w);
        return cli_print_json(&l->text);
    }
    if (l->v->quiet || l->v->names)
        return cli_print(&l->text) < 0 ? CLI_ENGINE : 0;
    return cli_table_print(&l->table);
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    static const char *const heads[] = {
        "ID", "NAME", "IMAGE", "STATE", "AGE", "MEMORY", "LABELS"
    };
    csn_auto(engine) csn_engine *engine = NULL;
    struct values v = { 0 };
    struct listing l = { .v = &v,
                         .table = CLI_TABLE_INIT(7, 1 << 4 | 1 << 5),
                         .text = CSN_BUF_INIT };
    csn_error err = { 0 };
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status >= 0)
        return status;
    cli_want_json(v.json);
    status = cli_want(cmd, &args, 0, 0);
    if (status < 0)
        status = cli_open(0, &engine);
    if (status >= 0)
        return status;
    l.w = (csn_jw) CSN_JW_INIT(&l.text, true);
    if (v.json)
        csn_jw_begin_array(&l.w);
    for (size_t i = 0; i < CSN_COUNT(heads); i++)
        cli_table_cell(&l.table, heads[i]);
    status =
        csn_sandbox_list(engine, on_box, &l, &err) < 0 ? cli_fail(&err, NULL) : print_listing(&l);
    csn_table_auto(&l.table);
    csn_buf_free(&l.text);
    return status;
}

const cli_command cli_cmd_ls = {
    .name = "ls",
    .alias = "ps",
    .summary = "List sandboxes",
    .usage = "ls [options]",
    .groups = groups,
    .run = run,
};
