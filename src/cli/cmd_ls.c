#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/str.h"
#include "boxjson.h"
#include "commands.h"
#include "out.h"
#include "place.h"
#include "session.h"
#include "table.h"

enum { N_COLUMNS = 7 };

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

/* What one sandbox gets in the output, written while its info is valid: a JSON object, a line, or the cells of a row. */
struct piece {
    int64_t created_ms;
    char *data;
    size_t len;
};

struct listing {
    const struct values *v;
    struct piece *pieces;
    size_t n, cap;
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

static void put_cells(const struct values *v, const csn_sandbox_info *info, csn_buf *out)
{
    csn_auto(table) cli_table row = CLI_TABLE_INIT(N_COLUMNS, 0);
    csn_auto(buf) csn_buf labels = CSN_BUF_INIT;
    bool is_whole = v->no_trunc || cli_place_is_remote(); /* a service knows no beginnings of ids */
    char id[80];

    (void) csn_str_copy(id, sizeof(id), csn_str_n(info->id, is_whole ? strlen(info->id) : 12));
    cli_table_cell(&row, id);
    cli_table_cell(&row, info->name);
    cli_table_cell(&row, info->image);
    cli_table_cell(&row, csn_state_name(info->state));
    cli_table_cell(&row, cli_age(info->created_ms));
    cli_table_cell(&row, cli_limit_size(info->memory_bytes));
    for (size_t i = 0; info->labels && info->labels[i]; i++)
        if (!csn_starts_with(info->labels[i], "caisson.")) /* whose it is: for gc, not for people */
            csn_buf_printf(&labels, "%s%s", labels.len ? "," : "", info->labels[i]);
    cli_table_cell(&row, labels.data);
    csn_buf_append(out, row.cells.data, row.cells.len);
}

static void put_object(const csn_sandbox_info *info, csn_buf *out)
{
    csn_jw w = CSN_JW_INIT(out, false);

    csn_jw_begin_object(&w);
    cli_jw_box(&w, info);
    csn_jw_end_object(&w);
}

static void on_box(const csn_sandbox_info *info, void *user)
{
    struct listing *l = user;
    csn_buf text = CSN_BUF_INIT;
    struct piece *piece;

    if (!is_wanted(l->v, info))
        return;
    if (l->v->json)
        put_object(info, &text);
    else if (l->v->names || l->v->quiet)
        csn_buf_printf(&text, "%s\n", l->v->names && info->name[0] ? info->name : info->id);
    else
        put_cells(l->v, info, &text);
    if (l->n == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 64;
        l->pieces = csn_realloc_array(l->pieces, l->cap, sizeof(*l->pieces));
        if (!l->pieces)
            cli_out_of_memory();
    }
    piece = &l->pieces[l->n++];
    piece->created_ms = info->created_ms;
    piece->data = csn_buf_take(&text, &piece->len);
    if (!piece->data)
        cli_out_of_memory();
}

static int oldest_first(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;

    if (x->created_ms != y->created_ms)
        return x->created_ms < y->created_ms ? -1 : 1;
    return strcmp(x->data, y->data);
}

static int print_json(const struct listing *l)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, true);

    csn_jw_begin_array(&w);
    for (size_t i = 0; i < l->n; i++)
        csn_jw_raw(&w, l->pieces[i].data, l->pieces[i].len);
    csn_jw_end_array(&w);
    return cli_print_json(&out);
}

static int print_table(const struct listing *l)
{
    static const char *const heads[N_COLUMNS] = { "ID",  "NAME",   "IMAGE", "STATE",
                                                  "AGE", "MEMORY", "LABELS" };
    csn_auto(table) cli_table table = CLI_TABLE_INIT(N_COLUMNS, 1 << 4 | 1 << 5);

    for (size_t i = 0; i < N_COLUMNS; i++)
        cli_table_cell(&table, heads[i]);
    for (size_t i = 0; i < l->n; i++) {
        csn_buf_append(&table.cells, l->pieces[i].data, l->pieces[i].len);
        table.n_cells += N_COLUMNS;
    }
    return cli_table_print(&table);
}

static int print_lines(const struct listing *l)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    for (size_t i = 0; i < l->n; i++)
        csn_buf_append(&out, l->pieces[i].data, l->pieces[i].len);
    return cli_print(&out) < 0 ? CLI_ENGINE : 0;
}

static int print_listing(struct listing *l)
{
    if (l->n)
        qsort(l->pieces, l->n, sizeof(*l->pieces), oldest_first);
    if (l->v->json)
        return print_json(l);
    return l->v->quiet || l->v->names ? print_lines(l) : print_table(l);
}

static void listing_done(struct listing *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->pieces[i].data);
    free(l->pieces);
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    struct values v = { 0 };
    struct listing l = { .v = &v };
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
    status =
        csn_sandbox_list(engine, on_box, &l, &err) < 0 ? cli_fail(&err, NULL) : print_listing(&l);
    listing_done(&l);
    return status;
}

const cli_command cli_cmd_ls = {
    .name = "ls",
    .alias = "ps",
    .summary = "List sandboxes",
    .usage = "ls [options]",
    .groups = groups,
    .reach = CLI_ANYWHERE,
    .run = run,
};
