#include <string.h>
#include <unistd.h>

#include <caisson/process.h>

#include "base/str.h"
#include "commands.h"
#include "out.h"
#include "session.h"
#include "stream.h"

struct values {
    int follow, raw;
    int64_t offset;
    const char *stream;
};

#define AT(field) offsetof(struct values, field)

static const cli_opt own_options[] = {
    { 'f', "follow", CLI_FLAG, AT(follow), NULL,
      "stay and print what comes, until the command has ended", NULL, NULL },
    { 0, "offset", CLI_COUNT, AT(offset), "BYTES", "start at this byte of the log", NULL, NULL },
    { 0, "stream", CLI_CHOICE, AT(stream), "NAME", "stdout or stderr only", "stdout stderr", NULL },
    { 0, "raw", CLI_FLAG, AT(raw), NULL, "let control characters through to a terminal", NULL,
      NULL },
    CLI_END
};

static const cli_group groups[] = { { "Options", own_options, 0 }, { NULL, NULL, 0 } };

static void note_last(const csn_process_info *info, void *user)
{
    uint32_t *last = user;

    if ((info->is_background || info->is_pty) && info->id > *last)
        *last = info->id;
}

/* The command whose log is wanted: the one named, else the last that has one. */
static int choose(const cli_command *cmd, csn_sandbox *box, const cli_args *args, uint32_t *ret)
{
    csn_error err = { 0 };
    uint64_t number;

    if (args->argc > 1) {
        if (csn_parse_u64(csn_str_of(args->argv[1]), &number) < 0 || !number || number > UINT32_MAX)
            return cli_usage(cmd, "'%s' is not the number of a command", args->argv[1]);
        *ret = (uint32_t) number;
        return -1;
    }
    *ret = 0;
    if (csn_process_list(box, note_last, ret, &err) < 0)
        return cli_fail(&err, NULL);
    if (!*ret)
        return cli_fail_with(CSN_E_NOT_FOUND, "caisson exec --detach BOX COMMAND",
                             "logs of sandbox '%s': no background command", args->argv[0]);
    return -1;
}

static int copy_log(csn_process *process, const struct values *v)
{
    cli_stream out, errs;
    int64_t offset = v->offset > 0 ? v->offset : 0;

    cli_stream_init(&out, STDOUT_FILENO, v->raw);
    cli_stream_init(&errs, STDERR_FILENO, v->raw);
    for (;;) {
        csn_log_chunk chunk = { 0 };
        csn_error err = { 0 };
        cli_stream *to;

        if (csn_process_read_log(process, offset, v->follow ? -1 : 0, &chunk, &err) < 0)
            return err.code == CSN_E_CANCELLED ? cli_cancelled_status() : cli_fail(&err, NULL);
        to = chunk.stream == CSN_STDERR ? &errs : &out;
        if (!v->stream || csn_streq(v->stream, chunk.stream == CSN_STDERR ? "stderr" : "stdout"))
            cli_stream_put(to, chunk.data, chunk.len);
        if (chunk.is_end || (!chunk.len && !v->follow) || out.is_broken || errs.is_broken)
            break;
        offset = chunk.next_offset;
    }
    cli_stream_finish(&out);
    cli_stream_finish(&errs);
    return 0;
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(sandbox) csn_sandbox *box = NULL;
    csn_process *process;
    struct values v = { 0 };
    csn_error err = { 0 };
    uint32_t number = 0;
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status < 0)
        status = cli_want(cmd, &args, 1, 2);
    if (status < 0)
        status = cli_open_box(args.argv[0], &engine, &box);
    if (status < 0)
        status = choose(cmd, box, &args, &number);
    if (status >= 0)
        return status;
    if (csn_process_open(box, number, &process, &err) < 0)
        return cli_fail(&err, NULL);
    status = copy_log(process, &v);
    csn_process_free(process);
    return status;
}

const cli_command cli_cmd_logs = {
    .name = "logs",
    .summary = "Print the output of a background command",
    .usage = "logs [-f] [options] BOX [NUMBER]",
    .text =
        "NUMBER is the command's, as 'caisson inspect' shows it; without it the last one's log is printed.\n"
        "What it wrote to stderr goes to stderr, in the order in which it came.",
    .groups = groups,
    .operands = "@box",
    .reach = CLI_ANYWHERE,
    .run = run,
};
