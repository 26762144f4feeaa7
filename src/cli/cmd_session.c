/* caisson session: interpreters that outlived the program that made them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <caisson/sandbox.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/json.h"
#include "base/str.h"
#include "commands.h"
#include "interpopt.h"
#include "named.h"
#include "out.h"
#include "session.h"

enum { STATE_MAX = 1 << 20 };

#define AT(field) offsetof(cli_named, field)

static const cli_opt ls_options[] = {
    { 'q', "quiet", CLI_FLAG, AT(quiet), NULL, "names only", NULL, NULL },
    { 0, "json", CLI_FLAG, AT(json), NULL, "one JSON document", NULL, NULL },
    CLI_END
};
static const cli_opt rm_options[] = {
    { 'f', "force", CLI_FLAG, AT(force), NULL, "one that isn't there is no error", NULL, NULL },
    { 'q', "quiet", CLI_FLAG, AT(quiet), NULL, "say nothing", NULL, NULL },
    CLI_END
};
static const cli_group ls_groups[] = { { "Options", ls_options, 0 }, { NULL, NULL, 0 } };
static const cli_group rm_groups[] = { { "Options", rm_options, 0 }, { NULL, NULL, 0 } };

/* The session's document, NULL if there is none or it can't be read. */
static csn_json *load(csn_engine *engine, const char *name)
{
    csn_auto(mem) char *path = cli_session_path(engine, name);
    csn_auto(buf) csn_buf text = CSN_BUF_INIT_MAX(STATE_MAX);
    csn_json *doc = NULL;

    if (!path || csn_read_file(AT_FDCWD, path, &text, STATE_MAX) < 0 ||
        csn_json_parse(text.data, text.len, &doc, NULL) < 0)
        return NULL;
    return doc;
}

/* Where the sandbox of a session stands: "started", "stopped", "gone". */
static const char *state_of(csn_engine *engine, const char *id)
{
    csn_sandbox *box = NULL;
    csn_sandbox_info info;
    const char *state = "gone";

    if (!id || csn_sandbox_open(engine, id, &box, NULL) < 0)
        return state;
    if (csn_sandbox_inspect(box, &info, NULL) == CSN_OK)
        state = csn_state_name(info.state);
    csn_sandbox_free(box);
    return state;
}

static void list_one(cli_listing *l, csn_engine *engine, const char *name)
{
    csn_auto(json) csn_json *doc = load(engine, name);
    const csn_json *d = csn_json_get(doc, "daytona");
    const char *id = csn_json_get_str(d, "sandbox_id", NULL);
    const char *state = state_of(engine, id);

    if (l->values->json) {
        csn_jw_begin_object(&l->w);
        csn_jw_kstr(&l->w, "name", name);
        csn_jw_kstr(&l->w, "sandbox_id", id);
        csn_jw_kstr(&l->w, "state", state);
        csn_jw_kstr(&l->w, "volume", csn_json_get_str(d, "volume_name", NULL));
        csn_jw_kstr(&l->w, "workspace", csn_json_get_str(d, "workspace_path", NULL));
        csn_jw_end_object(&l->w);
        return;
    }
    cli_listing_name(l, name);
    cli_table_cell(&l->table, state);
    cli_table_cell(&l->table, csn_json_get_str(d, "volume_name", "-"));
    cli_table_cell(&l->table, id);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void list_all(cli_listing *l, csn_engine *engine)
{
    csn_auto(buf) csn_buf dir = CSN_BUF_INIT;
    struct dirent **entries = NULL;
    int n;

    n = cli_session_dir(engine, &dir) < 0 ? -1 : scandir(dir.data, &entries, NULL, by_name);
    for (int k = 0; k < n; k++) {
        csn_str name = csn_str_of(entries[k]->d_name);
        char text[80];

        if (csn_str_ends_with(name, CSN_STR(".json")) &&
            csn_str_copy(text, sizeof(text), csn_str_n(name.data, name.len - 5)) == 0 &&
            csn_is_name(text))
            list_one(l, engine, text);
        free(entries[k]);
    }
    free(entries);
}

static int run_ls(const cli_command *cmd, int argc, char **argv)
{
    static const char *const heads[] = { "SESSION", "STATE", "VOLUME", "SANDBOX", NULL };
    csn_auto(engine) csn_engine *engine = NULL;
    cli_listing l = { .table = CLI_TABLE_INIT(4, 0) };
    cli_named v = { 0 };
    cli_args args;
    int status = cli_named_begin(cmd, argc, argv, &v, &args, 0, 0, &engine);

    if (status >= 0)
        return status;
    cli_listing_begin(&l, &v, heads);
    list_all(&l, engine);
    return cli_listing_end(&l, CSN_OK, NULL);
}

static bool is_id(const char *text)
{
    return text && (csn_is_hex(text, 32) || csn_is_uuid(text));
}

static int remove_one(csn_engine *engine, const cli_named *v, const char *name)
{
    csn_auto(mem) char *path = cli_session_path(engine, name);
    csn_auto(json) csn_json *doc = path ? load(engine, name) : NULL;
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;
    const char *id = csn_json_get_str(csn_json_get(doc, "daytona"), "sandbox_id", NULL);
    csn_sandbox *box = NULL;
    csn_error err = { 0 };
    bool was_there = path && access(path, F_OK) == 0;
    int r;

    if (!path)
        return 2;
    if (!was_there && !v->force)
        return cli_fail_with(CSN_E_NOT_FOUND, "caisson session ls", "no session '%s'", name);
    r = is_id(id) ? csn_sandbox_open(engine, id, &box, &err) : CSN_E_NOT_FOUND;
    if (r >= 0)
        r = csn_sandbox_delete(box, &err);
    csn_sandbox_free(box);
    if (r < 0 && r != CSN_E_NOT_FOUND)
        return cli_fail(&err, NULL);
    if (is_id(id) && cli_session_dir(engine, &line) >= 0) {
        csn_buf_printf(&line, "/%s.lock", id);
        (void) unlink(line.data); /* may never have been made */
        csn_buf_clear(&line);
    }
    if (was_there && unlink(path) < 0)
        return cli_fail_with(CSN_E_SYSTEM, NULL, "remove '%s': %s", path, strerror(errno));
    csn_buf_printf(&line, "%s\n", name);
    return v->quiet || !was_there || cli_print(&line) == 0 ? 0 : CLI_ENGINE;
}

static int run_rm(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    cli_named v = { 0 };
    cli_args args;
    int status = cli_named_begin(cmd, argc, argv, &v, &args, 1, -1, &engine);

    if (status >= 0)
        return status;
    status = 0;
    for (int k = 0; k < args.argc; k++) {
        int one = remove_one(engine, &v, args.argv[k]);

        status = one ? one : status;
    }
    return status;
}

static int run_export(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(mem) char *path = NULL;
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    cli_named v = { 0 };
    cli_args args;
    int status = cli_named_begin(cmd, argc, argv, &v, &args, 1, 1, &engine);

    if (status >= 0)
        return status;
    path = cli_session_path(engine, args.argv[0]);
    if (!path)
        return 2;
    doc = load(engine, args.argv[0]);
    if (!doc)
        return cli_fail_with(CSN_E_NOT_FOUND, "caisson session ls", "no session '%s'",
                             args.argv[0]);
    csn_json_dump(doc, true, &out);
    return cli_print_json(&out);
}

static int run_import(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(mem) char *path = NULL;
    csn_auto(buf) csn_buf text = CSN_BUF_INIT_MAX(STATE_MAX);
    csn_auto(json) csn_json *doc = NULL;
    cli_named v = { 0 };
    cli_args args;
    const char *from;
    char where[160];
    int e, status = cli_named_begin(cmd, argc, argv, &v, &args, 1, 2, &engine);

    if (status >= 0)
        return status;
    path = cli_session_path(engine, args.argv[0]);
    if (!path)
        return 2;
    from = args.argc > 1 ? args.argv[1] : "-";
    e = csn_streq(from, "-") ? csn_read_to_buf(STDIN_FILENO, &text, STATE_MAX)
                             : csn_read_file(AT_FDCWD, from, &text, STATE_MAX);
    if (e < 0)
        return cli_fail_with(CSN_E_SYSTEM, NULL, "read '%s': %s", from, strerror(-e));
    if (csn_json_parse(text.data, text.len, &doc, where) < 0)
        return cli_fail_with(CSN_E_INVALID, NULL, "'%s' is no session state: %s", from, where);
    if (csn_json_type_of(csn_json_get(doc, "daytona")) != CSN_JSON_OBJECT)
        return cli_fail_with(CSN_E_INVALID, NULL,
                             "'%s' is no session state: the member \"daytona\" is missing", from);
    e = csn_write_file_atomic(AT_FDCWD, path, text.data, text.len, 0600, true);
    return e < 0 ? cli_fail_with(CSN_E_SYSTEM, NULL, "write '%s': %s", path, strerror(-e)) : 0;
}

static const cli_command ls = { .name = "ls",
                                .summary = "List sessions",
                                .usage = "session ls [options]",
                                .groups = ls_groups,
                                .reach = CLI_ANYWHERE,
                                .run = run_ls };
static const cli_command rm = { .name = "rm",
                                .summary = "End sessions and delete their sandboxes; volumes stay",
                                .usage = "session rm [-f] NAME…",
                                .groups = rm_groups,
                                .reach = CLI_ANYWHERE,
                                .run = run_rm };
static const cli_command export_cmd = { .name = "export",
                                        .summary = "Print a session's state as JSON",
                                        .usage = "session export NAME",
                                        .reach = CLI_ANYWHERE,
                                        .run = run_export };
static const cli_command import_cmd = { .name = "import",
                                        .summary = "Take a session's state from a file or stdin",
                                        .usage = "session import NAME [FILE|-]",
                                        .operands = "@file",
                                        .reach = CLI_ANYWHERE,
                                        .run = run_import };
static const cli_command *const subs[] = { &ls, &rm, &export_cmd, &import_cmd, NULL };

const cli_command cli_cmd_session = {
    .name = "session",
    .summary = "Interpreters kept by interp --session: ls, rm, export, import",
    .usage = "session SUBCOMMAND …",
    .subs = subs,
    .run = cli_run_sub,
};
