/* caisson volume tree and cat: into a volume, from outside. */
#include "volume_look.h"

#include <stdlib.h>
#include <string.h>

#include <caisson/interp.h>

#include "base/json.h"
#include "base/str.h"
#include "commands.h"
#include "out.h"
#include "session.h"

struct values {
    int64_t depth, max;
    int json;
};

#define AT(field) offsetof(struct values, field)

static const cli_opt tree_options[] = {
    { 0, "depth", CLI_COUNT, AT(depth), "N", "how deep [4], at most 10", NULL, NULL },
    { 0, "json", CLI_FLAG, AT(json), NULL, "one JSON document", NULL, NULL },
    CLI_END
};
static const cli_opt cat_options[] = {
    { 0, "max", CLI_SIZE, AT(max), "SIZE", "how much of it [200,000 bytes]", NULL, NULL },
    { 0, "json", CLI_FLAG, AT(json), NULL, "one JSON document", NULL, NULL },
    CLI_END
};
static const cli_group tree_groups[] = { { "Options", tree_options, 0 }, { NULL, NULL, 0 } };
static const cli_group cat_groups[] = { { "Options", cat_options, 0 }, { NULL, NULL, 0 } };

static void put_node(csn_buf *out, const csn_json *node, unsigned depth)
{
    const csn_json *children = csn_json_get(node, "children");

    csn_buf_printf(out, "%*s", (int) (2 * depth), "");
    cli_put_safe(out, csn_json_get_str(node, "name", ""));
    if (csn_json_get(node, "size"))
        csn_buf_printf(out, "  %s\n", cli_size(csn_json_get_int(node, "size", 0)));
    else
        csn_buf_puts(out, depth ? "/\n" : "\n");
    for (size_t k = 0; k < csn_json_count(children); k++)
        put_node(out, csn_json_at(children, k), depth + 1);
}

static int begin(const cli_command *cmd, int argc, char **argv, struct values *v, cli_args *args,
                 int min, csn_engine **ret_engine)
{
    int status = cli_parse(cmd, argc, argv, v, args);

    if (status >= 0)
        return status;
    cli_want_json(v->json);
    status = cli_want(cmd, args, min, 2);
    return status >= 0 ? status : cli_open(0, ret_engine);
}

static int fail(const csn_error *err)
{
    return err->code == CSN_E_CANCELLED ? cli_cancelled_status() : cli_fail(err, NULL);
}

static int run_tree(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(mem) char *json = NULL;
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    struct values v = { 0 };
    csn_error err = { 0 };
    cli_args args;
    int status = begin(cmd, argc, argv, &v, &args, 1, &engine);

    if (status >= 0)
        return status;
    if (csn_volume_tree(engine, args.argv[0], args.argc > 1 ? args.argv[1] : "/", (int) v.depth,
                        &json, &err) < 0)
        return fail(&err);
    if (v.json) {
        csn_buf_puts(&out, json);
        return cli_print_json(&out);
    }
    (void) csn_json_parse(json, strlen(json), &doc, NULL); /* the library wrote it */
    put_node(&out, csn_json_get(doc, "root"), 0);
    if (csn_json_get_bool(doc, "truncated", false))
        csn_buf_puts(&out, "…\n");
    return cli_print(&out) < 0 ? CLI_ENGINE : 0;
}

static int run_cat(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(mem) char *json = NULL;
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    struct values v = { 0 };
    csn_error err = { 0 };
    cli_args args;
    const csn_json *content;
    int status = begin(cmd, argc, argv, &v, &args, 2, &engine);

    if (status >= 0)
        return status;
    if (csn_volume_cat(engine, args.argv[0], args.argv[1], v.max, &json, &err) < 0)
        return fail(&err);
    if (v.json) {
        csn_buf_puts(&out, json);
        return cli_print_json(&out);
    }
    (void) csn_json_parse(json, strlen(json), &doc, NULL); /* the library wrote it */
    content = csn_json_get(doc, "content");
    csn_buf_append(&out, csn_json_str(content, ""), csn_json_str_len(content));
    if (csn_json_get_bool(doc, "truncated", false))
        cli_note("cut: the file has %s (--max)", cli_size(csn_json_get_int(doc, "size", 0)));
    return cli_print(&out) < 0 ? CLI_ENGINE : 0;
}

const cli_command cli_volume_tree = {
    .name = "tree",
    .summary = "Show the files of a volume",
    .usage = "volume tree [options] NAME [PATH]",
    .groups = tree_groups,
    .operands = "@volume",
    .reach = CLI_ANYWHERE,
    .run = run_tree,
};

const cli_command cli_volume_cat = {
    .name = "cat",
    .summary = "Print a text file of a volume",
    .usage = "volume cat [options] NAME PATH",
    .groups = cat_groups,
    .operands = "@volume",
    .reach = CLI_ANYWHERE,
    .run = run_cat,
};
