#include "arena_opts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "boxopt.h"
#include "out.h"
#include "place.h"

#define AT(field) offsetof(cli_arena_values, field)

const cli_opt cli_arena_run_options[] = {
    { 'o', "objective", CLI_TEXT, AT(objective), "TEXT|@FILE",
      "the script's first argument, byte for byte; @FILE reads it", NULL, NULL },
    { 0, "output-path", CLI_TEXT, AT(output_path), "PATH",
      "absolute path inside that the script writes to [/home/daytona/ID_output.md]", NULL, NULL },
    { 'e', "env", CLI_LIST, AT(env), "KEY[=VALUE]",
      "environment of the script; nothing else is passed in", NULL, NULL },
    { 0, "pip", CLI_LIST, AT(pip), "PKG", "install a package before the run; repeatable", NULL,
      NULL },
    { 0, "find-links", CLI_TEXT, AT(find_links), "DIR", "local wheels for --pip: no network needed",
      "@dir", NULL },
    { 0, "setup", CLI_TEXT, AT(setup), "CMD", "shell text to run before the script", NULL, NULL },
    { 0, "net", CLI_CHOICE, AT(net), "none|outbound", "network inside [none]", "none outbound",
      NULL },
    { 0, "image", CLI_TEXT, AT(image), "NAME", "root file system [host]", "@image", NULL },
    { 0, "optional", CLI_LIST, AT(optional), "WALL,…",
      "start even if these walls can't be put up here", NULL, NULL },
    CLI_END
};

const cli_opt cli_arena_limit_options[] = {
    { 't', "timeout", CLI_DURATION, AT(timeout), "TIME", "of the script [60s]", NULL, NULL },
    { 0, "upload-timeout", CLI_DURATION, AT(upload_timeout), "TIME",
      "of putting the script in [30s]", NULL, NULL },
    { 0, "setup-timeout", CLI_DURATION, AT(setup_timeout), "TIME",
      "of --pip and --setup, each [60s]", NULL, NULL },
    { 0, "artifact-timeout", CLI_DURATION, AT(artifact_timeout), "TIME",
      "of reading the artifact [10s]", NULL, NULL },
    { 0, "output-limit", CLI_SIZE, AT(output), "SIZE", "of what is kept of the output [10m]", NULL,
      NULL },
    { 0, "artifact-limit", CLI_SIZE, AT(artifact), "SIZE", "largest artifact [64m]", NULL, NULL },
    { 'm', "memory", CLI_SIZE, AT(memory), "SIZE", "of each sandbox [1g]", NULL, NULL },
    { 0, "cpu", CLI_CPU, AT(cpu), "N", "cores of each sandbox [1]", NULL, NULL },
    { 0, "cpus", CLI_CPU, AT(cpu), "N", NULL, NULL, NULL },
    { 0, "pids", CLI_COUNT, AT(pids), "N", "processes of each sandbox [512]", NULL, NULL },
    { 0, "disk", CLI_SIZE, AT(disk), "SIZE", "writable space of each sandbox [half the memory]",
      NULL, NULL },
    CLI_END
};

int cli_read_objective(const cli_command *cmd, const char *given, csn_buf *out)
{
    int r;

    out->max = (size_t) 1 << 30;
    if (given[0] != '@' || given[1] == '@') {
        csn_buf_puts(out, given + (given[0] == '@'));
        return -1;
    }
    r = csn_read_file(AT_FDCWD, given + 1, out, (size_t) 64 << 20);
    if (r < 0)
        return cli_usage(cmd, "--objective '%s': %s", given, csn_strerror(r));
    return -1;
}

static void set(int64_t *to, int64_t given)
{
    if (given != 0)
        *to = given;
}

static int set_limits(const cli_command *cmd, const cli_arena_values *v, csn_run_options *o)
{
    if (v->timeout < 0 || v->upload_timeout < 0 || v->setup_timeout < 0 ||
        v->artifact_timeout < 0 || v->output < 0 || v->artifact < 0)
        return cli_usage(cmd,
                         "time limits, --output-limit and --artifact-limit can't be unlimited");
    set(&o->timeout_ms, v->timeout);
    set(&o->upload_timeout_ms, v->upload_timeout);
    set(&o->setup_timeout_ms, v->setup_timeout);
    set(&o->artifact_timeout_ms, v->artifact_timeout);
    set(&o->output_bytes, v->output);
    set(&o->artifact_bytes, v->artifact);
    set(&o->memory_bytes, v->memory);
    set(&o->cpu_milli, v->cpu);
    set(&o->pids, v->pids);
    set(&o->disk_bytes, v->disk);
    return -1;
}

int cli_arena_fill(const cli_command *cmd, const cli_arena_values *v, csn_run_options *o,
                   cli_arena_run *run)
{
    cli_list no_files = { 0 };
    csn_error err = { 0 };
    int status = set_limits(cmd, v, o);

    if (status < 0 && v->objective) {
        status = cli_read_objective(cmd, v->objective, &run->objective);
        o->objective = run->objective.data;
        o->objective_len = run->objective.len;
    }
    if (status < 0 && v->env.n > 0) {
        status = cli_env_fill(cmd, &v->env, &no_files, &run->env);
        o->env = run->env.items;
    }
    if (status < 0)
        status = cli_fill_walls(cmd, &v->optional, &run->optional_walls);
    if (status < 0 && cli_place_is_remote() && cli_place_config(&o->config, &err) < 0)
        status = cli_usage(cmd, "%s", err.message);
    if (status >= 0)
        return status;
    if (cli_place_is_remote())
        o->backend = CSN_BACKEND_DAYTONA;
    if (v->output_path)
        o->output_path = v->output_path;
    if (v->pip.n > 0)
        o->pip = v->pip.items;
    if (v->find_links)
        o->find_links = v->find_links;
    if (v->setup)
        o->setup = v->setup;
    if (v->net)
        o->network = csn_streq(v->net, "outbound") ? CSN_NET_OUTBOUND : CSN_NET_NONE;
    if (v->image)
        o->image = v->image;
    return -1;
}

void cli_arena_done(cli_arena_run *run)
{
    csn_buf_free(&run->objective);
}

void cli_arena_note_cause(void)
{
    csn_auto(buf) csn_buf cause = CSN_BUF_INIT;

    if (cli_find_cause(&cause))
        cli_note_cause(cause.data);
    cli_try("caisson doctor");
}

/* ---- signals ---- */

static csn_cancel *volatile to_fire;
static volatile sig_atomic_t came;

static void on_signal(int number)
{
    came = number;
    if (to_fire)
        csn_cancel_fire(to_fire);
}

void cli_arena_catch_signals(csn_cancel *cancel)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    struct sigaction act = { .sa_handler = on_signal };
    struct sigaction old;

    to_fire = cancel;
    (void) sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < CSN_COUNT(numbers); i++) {
        /* nohup and "&" in a script ignore some of them on purpose */
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN)
            continue;
        (void) sigaction(numbers[i], &act, NULL); /* the numbers are right: it can't fail */
    }
}

int cli_arena_signal(void)
{
    return came;
}

const char *cli_id_of_script(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    char *id = csn_xstrdup(name);

    if (dot && dot != name)
        id[dot - name] = '\0';
    return id;
}
