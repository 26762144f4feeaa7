#include <stdio.h>

#include <caisson/process.h>

#include "base/str.h"
#include "base/time.h"
#include "boxjson.h"
#include "command.h"
#include "commands.h"
#include "out.h"
#include "session.h"
#include "table.h"

struct values {
    int json;
};

static const cli_opt own_options[] = { { 0, "json", CLI_FLAG, offsetof(struct values, json), NULL,
                                         "one JSON object", NULL, NULL },
                                       CLI_END };

static const cli_group groups[] = { { "Options", own_options, 0 }, { NULL, NULL, 0 } };

static void put_command_json(const csn_process_info *info, void *user)
{
    csn_jw *w = user;
    char when[CSN_ISO8601_SIZE];

    csn_jw_begin_object(w);
    csn_jw_kint(w, "number", info->id);
    csn_jw_kstr(w, "command", info->command);
    csn_jw_kbool(w, "running", info->is_running);
    csn_jw_kbool(w, "background", info->is_background);
    csn_jw_kbool(w, "pty", info->is_pty);
    csn_jw_kstr(w, "started", csn_iso8601(info->started_ms, when));
    csn_jw_key(w, "receipt");
    if (info->is_running)
        csn_jw_null(w);
    else
        cli_jw_receipt(w, &info->receipt);
    csn_jw_end_object(w);
}

static int print_json(csn_sandbox *box, const csn_sandbox_info *info)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, true);
    bool is_started = info->state == CSN_STATE_STARTED;
    csn_receipt receipt;

    csn_jw_begin_object(&w);
    cli_jw_box(&w, info);
    cli_jw_pairs(&w, "env", info->env);
    csn_jw_key(&w, "receipt");
    if (is_started && csn_sandbox_receipt(box, &receipt, NULL) == CSN_OK)
        cli_jw_receipt(&w, &receipt);
    else
        csn_jw_null(&w);
    csn_jw_key(&w, "commands");
    csn_jw_begin_array(&w);
    if (is_started)
        (void) csn_process_list(box, put_command_json, &w, NULL); /* gone meanwhile: none */
    csn_jw_end_array(&w);
    csn_jw_end_object(&w);
    return cli_print_json(&out);
}

static void put_line(csn_buf *out, const char *key, const char *value)
{
    csn_buf_printf(out, "%-10s ", key);
    cli_put_safe(out, value && *value ? value : "-");
    csn_buf_putc(out, '\n');
}

static void put_limits(csn_buf *out, const csn_sandbox_info *info)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;

    csn_buf_printf(&line, "memory %s, ", cli_limit_size(info->memory_bytes));
    if (info->cpu_milli == CSN_UNLIMITED)
        csn_buf_puts(&line, "cpu none, ");
    else
        csn_buf_printf(&line, "cpu %g, ", (double) info->cpu_milli / 1000);
    if (info->pids == CSN_UNLIMITED)
        csn_buf_puts(&line, "pids none, ");
    else
        csn_buf_printf(&line, "pids %lld, ", (long long) info->pids);
    csn_buf_printf(&line, "disk %s, command %s, output %s", cli_limit_size(info->disk_bytes),
                   cli_duration_ms(info->timeout_ms), cli_limit_size(info->output_bytes));
    put_line(out, "limits", line.data);
}

static void put_volumes(csn_buf *out, const csn_sandbox_info *info)
{
    for (size_t i = 0; i < info->n_mounts; i++) {
        const csn_mount *m = &info->mounts[i];
        csn_auto(buf) csn_buf line = CSN_BUF_INIT;

        csn_buf_printf(&line, "%s%s%s at %s%s", m->volume, m->subpath ? "/" : "",
                       m->subpath ? m->subpath : "", m->path, m->is_read_only ? ", read-only" : "");
        put_line(out, "volume", line.data);
    }
}

static void put_command_row(const csn_process_info *info, void *user)
{
    cli_table *table = user;
    char number[16], how[64];

    (void) snprintf(number, sizeof(number), "%u", (unsigned) info->id);
    if (info->is_running)
        (void) snprintf(how, sizeof(how), "running");
    else if (info->receipt.ended == CSN_ENDED_EXIT)
        (void) snprintf(how, sizeof(how), "exit %d", info->receipt.exit_code);
    else
        (void) snprintf(how, sizeof(how), "%s", csn_ending_name(info->receipt.ended));
    cli_table_cell(table, number);
    cli_table_cell(table, how);
    cli_table_cell(table, cli_age(info->started_ms));
    cli_table_cell(table, info->command);
}

static int print_text(csn_sandbox *box, const csn_sandbox_info *info)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_auto(table) cli_table table = CLI_TABLE_INIT(4, 1);
    char when[CSN_ISO8601_SIZE], receipt_text[512];
    csn_receipt receipt;
    bool is_started = info->state == CSN_STATE_STARTED;

    put_line(&out, "id", info->id);
    put_line(&out, "name", info->name);
    put_line(&out, "state", csn_state_name(info->state));
    put_line(&out, "image", info->image);
    put_line(&out, "user", info->user);
    put_line(&out, "created", csn_iso8601(info->created_ms, when));
    put_line(&out, "network", info->network == CSN_NET_OUTBOUND ? "outbound" : "none");
    put_line(&out, "life", info->is_ephemeral ? "ephemeral: deleted when it stops" : "persistent");
    put_limits(&out, info);
    put_volumes(&out, info);
    for (size_t i = 0; info->labels && info->labels[i]; i++)
        put_line(&out, "label", info->labels[i]);
    for (size_t i = 0; info->env && info->env[i]; i++)
        put_line(&out, "env", info->env[i]);
    if (is_started && csn_sandbox_receipt(box, &receipt, NULL) == CSN_OK) {
        (void) csn_receipt_text(&receipt, receipt_text, sizeof(receipt_text));
        put_line(&out, "receipt", receipt_text);
    }
    cli_table_cell(&table, "NUMBER"), cli_table_cell(&table, "ENDED");
    cli_table_cell(&table, "AGE"), cli_table_cell(&table, "COMMAND");
    if (is_started)
        (void) csn_process_list(box, put_command_row, &table, NULL); /* gone meanwhile: none */
    if (table.n_cells > 4) {
        csn_buf_putc(&out, '\n');
        cli_table_put(&table, &out, cli_is_terminal(1) ? cli_columns() : 0);
    }
    return cli_print(&out) < 0 ? CLI_ENGINE : 0;
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(sandbox) csn_sandbox *box = NULL;
    struct values v = { 0 };
    csn_sandbox_info info;
    csn_error err = { 0 };
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status >= 0)
        return status;
    cli_want_json(v.json);
    status = cli_want(cmd, &args, 1, 1);
    if (status < 0)
        status = cli_open_box(args.argv[0], &engine, &box);
    if (status >= 0)
        return status;
    if (csn_sandbox_inspect(box, &info, &err) < 0)
        return cli_fail(&err, NULL);
    return v.json ? print_json(box, &info) : print_text(box, &info);
}

const cli_command cli_cmd_inspect = {
    .name = "inspect",
    .summary = "Show all that is known of a sandbox and its commands",
    .usage = "inspect [--json] BOX",
    .groups = groups,
    .operands = "@box",
    .reach = CLI_ANYWHERE,
    .run = run,
};
