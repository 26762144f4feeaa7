#include "boxopt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "out.h"

#define AT(field) offsetof(cli_box_values, field)

const cli_opt cli_box_options[] = {
    { 'n', "name", CLI_TEXT, AT(name), "NAME", "a name, unique among all sandboxes", NULL, NULL },
    { 0, "image", CLI_TEXT, AT(image), "IMAGE", "root file system (default: host)", "@image",
      NULL },
    { 0, "snapshot", CLI_TEXT, AT(image), "IMAGE", NULL, "@image", NULL },
    { 'e', "env", CLI_LIST, AT(env), "KEY[=VALUE]",
      "environment variable; without a value it is taken from here", NULL, NULL },
    { 0, "env-file", CLI_LIST, AT(env_files), "FILE",
      "KEY=VALUE lines; empty lines and # comments are passed over", "@file", NULL },
    { 'l', "label", CLI_LIST, AT(labels), "KEY[=VALUE]", "label", NULL, NULL },
    { 'v', "volume", CLI_LIST, AT(volumes), "NAME[/SUBPATH]:PATH[:ro]",
      "mount a volume, or a directory in it", "@volume", NULL },
    { 0, "net", CLI_CHOICE, AT(net), "MODE", "none (default: loopback only) or outbound",
      "none outbound", NULL },
    { 0, "network", CLI_CHOICE, AT(net), "MODE", NULL, "none outbound", NULL },
    { 'w', "cwd", CLI_TEXT, AT(cwd), "DIR", "working directory inside", NULL, NULL },
    { 0, "workdir", CLI_TEXT, AT(cwd), "DIR", NULL, NULL, NULL },
    { 'u', "user", CLI_TEXT, AT(user), "USER",
      "daytona (default) or root: the profile \"root inside\"", "daytona root", NULL },
    { 0, "ptrace", CLI_FLAG, AT(ptrace), NULL, "debugging profile: ptrace among its own processes",
      NULL, NULL },
    { 0, "ttl", CLI_DURATION, AT(ttl), "TIME", "delete it that long after its creation", NULL,
      NULL },
    { 0, "idle-stop", CLI_DURATION, AT(idle_stop), "TIME", "stop it when idle for that long", NULL,
      NULL },
    { 0, "optional", CLI_LIST, AT(optional), "WALL,…",
      "start even if these walls can't be put up here", NULL, NULL },
    CLI_END
};

const cli_opt cli_limit_options[] = {
    { 'm', "memory", CLI_SIZE, AT(memory), "SIZE", "memory with tmpfs and page cache (1g)", NULL,
      NULL },
    { 0, "cpu", CLI_CPU, AT(cpu), "CORES", "processor time (1)", NULL, NULL },
    { 0, "cpus", CLI_CPU, AT(cpu), "CORES", NULL, NULL, NULL },
    { 0, "pids", CLI_COUNT, AT(pids), "N", "processes and threads (512)", NULL, NULL },
    { 0, "pids-limit", CLI_COUNT, AT(pids), "N", NULL, NULL, NULL },
    { 0, "disk", CLI_SIZE, AT(disk), "SIZE",
      "bytes written to its file system (3g; in memory: half of it)", NULL, NULL },
    { 0, "inodes", CLI_COUNT, AT(inodes), "N", "files in its file system (200000)", NULL, NULL },
    { 0, "open-files", CLI_COUNT, AT(open_files), "N",
      "open files of a process (16384, or what a quarter of the machine's allows)", NULL, NULL },
    { 0, "tmp-size", CLI_SIZE, AT(tmp), "SIZE", "/tmp (256m)", NULL, NULL },
    { 0, "shm-size", CLI_SIZE, AT(shm), "SIZE", "/dev/shm (64m)", NULL, NULL },
    { 0, "timeout", CLI_DURATION, AT(timeout), "TIME",
      "wall time of a command, then its whole tree is killed (10m)", NULL, NULL },
    { 0, "output-limit", CLI_SIZE, AT(output), "SIZE",
      "bytes kept of each output stream, the rest is cut (10m)", NULL, NULL },
    { 0, "strict", CLI_LIST, AT(strict), "LIMIT,…",
      "refuse to start unless the kernel enforces them: memory cpu pids disk, or all",
      "memory cpu pids disk all", NULL },
    CLI_END
};

static const char *const wall_names[] = {
    "userns",  "namespaces", "netns",   "root",     "proc",       "dev",    "caps", "no-new-privs",
    "seccomp", "landlock",   "rlimits", "id-range", "no-nesting", "keeper", NULL,
};

static const char *const limit_names[] = { "memory", "cpu", "pids", "disk", NULL };

static bool bit_of(const char *const *names, csn_str word, uint32_t *bits)
{
    if (csn_str_is(word, "all")) {
        for (unsigned i = 0; names[i]; i++)
            *bits |= 1u << i;
        return true;
    }
    for (unsigned i = 0; names[i]; i++)
        if (csn_str_is(word, names[i])) {
            *bits |= 1u << i;
            return true;
        }
    return false;
}

static int fill_bits(const cli_command *cmd, const char *option, const cli_list *list,
                     const char *const *names, uint32_t *ret_bits)
{
    for (size_t i = 0; i < list->n; i++) {
        csn_str rest = csn_str_of(list->items[i]), word;

        while (csn_str_split(&rest, ',', &word))
            if (!bit_of(names, word, ret_bits))
                return cli_usage(cmd, "--%s: no such word '%.*s'", option, (int) word.len,
                                 word.data);
    }
    return -1;
}

int cli_fill_walls(const cli_command *cmd, const cli_list *list, uint32_t *ret_walls)
{
    return fill_bits(cmd, "optional", list, wall_names, ret_walls);
}

int cli_fill_limits(const cli_command *cmd, const cli_list *list, uint32_t *ret_limits)
{
    return fill_bits(cmd, "strict", list, limit_names, ret_limits);
}

static int add_env(const cli_command *cmd, const char *item, cli_list *ret)
{
    const char *value;
    csn_buf pair = CSN_BUF_INIT;
    char *text;

    if (item[0] == '=' || item[0] == '\0')
        return cli_usage(cmd, "--env '%s': the name is missing", item);
    if (strchr(item, '=')) {
        cli_list_add(ret, item);
        return -1;
    }
    value = getenv(item);
    if (!value) /* as docker does: not set here, not set there */
        return -1;
    csn_buf_printf(&pair, "%s=%s", item, value);
    text = csn_buf_take(&pair, NULL);
    if (!text)
        cli_out_of_memory();
    cli_list_add(ret, text); /* lives as long as the program */
    return -1;
}

static int add_env_file(const cli_command *cmd, const char *path, cli_list *ret)
{
    csn_auto(buf) csn_buf file = CSN_BUF_INIT;
    int r = csn_read_file(AT_FDCWD, path, &file, (size_t) 1 << 20);
    csn_str rest = csn_str_n(file.data, file.len), line;

    if (r < 0)
        return cli_usage(cmd, "--env-file '%s': %s", path, csn_strerror(r));
    if (memchr(file.data, 0, file.len))
        return cli_usage(cmd, "--env-file '%s': it holds a NUL byte", path);
    while (csn_str_split(&rest, '\n', &line)) {
        csn_str bare = csn_str_trim(line);
        char *copy;
        int status;

        if (!bare.len || bare.data[0] == '#')
            continue;
        copy = csn_strndup(bare.data, bare.len);
        if (!copy)
            cli_out_of_memory();
        status = add_env(cmd, copy, ret);
        if (status >= 0)
            return status;
    }
    return -1;
}

int cli_env_fill(const cli_command *cmd, const cli_list *env, const cli_list *files, cli_list *ret)
{
    int status;

    for (size_t i = 0; files && i < files->n; i++) {
        status = add_env_file(cmd, files->items[i], ret);
        if (status >= 0)
            return status;
    }
    for (size_t i = 0; i < env->n; i++) {
        status = add_env(cmd, env->items[i], ret);
        if (status >= 0)
            return status;
    }
    return -1;
}

static int add_label(const cli_command *cmd, const char *item, cli_list *ret)
{
    csn_buf pair = CSN_BUF_INIT;
    char *text;

    if (item[0] == '=' || item[0] == '\0')
        return cli_usage(cmd, "--label '%s': the key is missing", item);
    csn_buf_printf(&pair, "%s%s", item, strchr(item, '=') ? "" : "=");
    text = csn_buf_take(&pair, NULL);
    if (!text)
        cli_out_of_memory();
    cli_list_add(ret, text); /* lives as long as the program */
    return -1;
}

/* NAME[/SUBPATH]:PATH[:ro|:rw] */
static int parse_volume(const cli_command *cmd, const char *text, csn_mount *ret)
{
    char *name, *path, *flag, *slash;

    if (text[0] == '/' || text[0] == '.' || text[0] == '~')
        return cli_usage(cmd,
                         "--volume '%s': host directories are never mounted; make a volume with "
                         "'caisson volume create' or copy with 'caisson cp'",
                         text);
    name = csn_xstrdup(text); /* lives as long as the program */
    path = strchr(name, ':');
    if (!path || path[1] != '/')
        return cli_usage(cmd, "--volume '%s': not NAME[/SUBPATH]:/PATH[:ro]", text);
    *path++ = '\0';
    flag = strchr(path, ':');
    if (flag)
        *flag++ = '\0';
    if (flag && !csn_streq(flag, "ro") && !csn_streq(flag, "rw"))
        return cli_usage(cmd, "--volume '%s': the flag '%s' is neither ro nor rw", text, flag);
    slash = strchr(name, '/');
    if (slash)
        *slash++ = '\0';
    *ret = (csn_mount){
        .volume = name, .path = path, .subpath = slash, .is_read_only = csn_streq(flag, "ro")
    };
    return -1;
}

static int fill_volumes(const cli_command *cmd, const cli_list *list, cli_box *box)
{
    if (!list->n)
        return -1;
    box->mounts = csn_xalloc(list->n, sizeof(*box->mounts));
    for (size_t i = 0; i < list->n; i++) {
        int status = parse_volume(cmd, list->items[i], &box->mounts[i]);

        if (status >= 0)
            return status;
    }
    box->o.mounts = box->mounts;
    box->o.n_mounts = list->n;
    return -1;
}

/* --memory 512 is what one types who thinks in megabytes. */
static int check_sizes(const cli_command *cmd, const cli_box_values *v)
{
    if (v->memory > 0 && v->memory < 4 << 20)
        return cli_usage(cmd, "--memory %lld is %s; the least is 4m, so write 512m for megabytes",
                         (long long) v->memory, cli_size(v->memory));
    if (v->disk > 0 && v->disk < 1 << 20)
        return cli_usage(cmd, "--disk %lld is %s; the least is 1m, so write 3g for gigabytes",
                         (long long) v->disk, cli_size(v->disk));
    if (v->name && !csn_is_name(v->name))
        return cli_usage(cmd,
                         "--name '%s': a name is 1 to 64 of A-Z a-z 0-9 . _ - and starts with a "
                         "letter or digit",
                         v->name);
    if (v->cwd && v->cwd[0] != '/')
        return cli_usage(cmd, "--cwd '%s': not an absolute path", v->cwd);
    return -1;
}

static void fill_numbers(const cli_box_values *v, csn_sandbox_options *o)
{
    o->size = sizeof(*o);
    o->name = v->name;
    o->image = v->image;
    o->user = v->user;
    o->cwd = v->cwd;
    o->network = csn_streq(v->net, "outbound") ? CSN_NET_OUTBOUND : CSN_NET_NONE;
    o->allow_ptrace = v->ptrace;
    o->memory_bytes = v->memory;
    o->cpu_milli = v->cpu;
    o->pids = v->pids;
    o->disk_bytes = v->disk;
    o->disk_inodes = v->inodes;
    o->open_files = v->open_files;
    o->tmp_bytes = v->tmp;
    o->shm_bytes = v->shm;
    o->timeout_ms = v->timeout;
    o->output_bytes = v->output;
    o->ttl_ms = v->ttl > 0 ? v->ttl : 0;
    o->idle_stop_ms = v->idle_stop > 0 ? v->idle_stop : 0;
}

int cli_box_fill(const cli_command *cmd, const cli_box_values *v, cli_box *box)
{
    int status = check_sizes(cmd, v);

    if (status >= 0)
        return status;
    fill_numbers(v, &box->o);
    status = cli_env_fill(cmd, &v->env, &v->env_files, &box->env);
    for (size_t i = 0; status < 0 && i < v->labels.n; i++)
        status = add_label(cmd, v->labels.items[i], &box->labels);
    if (status < 0)
        status = fill_volumes(cmd, &v->volumes, box);
    if (status < 0)
        status = cli_fill_limits(cmd, &v->strict, &box->o.strict);
    if (status < 0)
        status = cli_fill_walls(cmd, &v->optional, &box->optional_walls);
    box->o.env = box->env.items;
    box->o.labels = box->labels.items;
    return status;
}
