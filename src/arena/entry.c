#include "entry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/script.h"
#include "base/str.h"

#define HOME       "/home/daytona"
#define WHEELS     HOME "/.wheels"
#define SCRIPT_MAX ((size_t) 64 << 20)
#define PATHS      HOME "/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/caisson/bin"

static const char *const base_env[] = {
    "HOME=" HOME, "PATH=" PATHS, "LANG=C.UTF-8", "TMPDIR=/tmp", "PYTHONUNBUFFERED=1", NULL,
};
static const char *const pip_env[] = {
    "PIP_BREAK_SYSTEM_PACKAGES=1",
    "PIP_NO_CACHE_DIR=1",
    "PIP_DISABLE_PIP_VERSION_CHECK=1",
    "PIP_ROOT_USER_ACTION=ignore",
    NULL,
};

static void *keep(csn_entry *e, void *p)
{
    void **grown;

    if (!p)
        return NULL;
    grown = csn_realloc_array(e->kept, e->n_kept + 1, sizeof(*grown));
    if (!grown) {
        free(p);
        return NULL;
    }
    e->kept = grown;
    e->kept[e->n_kept++] = p;
    return p;
}

void csn_entry_done(csn_entry *entry)
{
    for (size_t i = 0; i < entry->n_kept; i++)
        free(entry->kept[i]);
    free(entry->kept);
    free(entry->uploads);
    csn_buf_free(&entry->refusal);
    csn_buf_free(&entry->script);
    *entry = (csn_entry){ .refusal = CSN_BUF_INIT, .script = CSN_BUF_INIT };
}

static char *CSN_PRINTF(2, 3) text(csn_entry *e, const char *fmt, ...)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    va_list args;

    va_start(args, fmt);
    csn_buf_vprintf(&out, fmt, args);
    va_end(args);
    return keep(e, csn_buf_take(&out, NULL));
}

/* ---- lists ---- */

static size_t count(const char *const *list)
{
    size_t n = 0;

    while (list && list[n])
        n++;
    return n;
}

static bool same_name(const char *a, const char *b)
{
    size_t n = strcspn(a, "=");

    return strncmp(a, b, n + 1) == 0 && a[n] == '=';
}

/* Several environments as one; a later value of a name takes the earlier one's place. */
static const char *const *join_env(csn_entry *e, const char *const *const *parts, size_t n_parts)
{
    size_t n = 0, room = 1;
    const char **all;

    for (size_t i = 0; i < n_parts; i++)
        room += count(parts[i]);
    all = keep(e, csn_calloc(room, sizeof(*all)));
    if (!all)
        return NULL;
    for (size_t i = 0; i < n_parts; i++) {
        for (size_t k = 0; k < count(parts[i]); k++) {
            size_t at = 0;

            while (at < n && !same_name(all[at], parts[i][k]))
                at++;
            all[at] = parts[i][k];
            n += at == n;
        }
    }
    return all;
}

static int add_upload(csn_entry *e, csn_upload up)
{
    csn_upload *grown = csn_realloc_array(e->uploads, e->n_uploads + 1, sizeof(*grown));

    if (!grown || !up.path)
        return -ENOMEM;
    e->uploads = grown;
    grown[e->n_uploads++] = up;
    e->plan.uploads = grown;
    e->plan.n_uploads = e->n_uploads;
    return 0;
}

/* ---- the command ---- */

/* The command for the script at `path`, with up to two more arguments. */
static int set_command(csn_entry *e, const char *host_path, const char *path, const char *arg1,
                       const char *arg2)
{
    const csn_language *lang = csn_language_of(host_path);
    const char **argv = keep(e, csn_calloc(10, sizeof(*argv)));
    size_t n = 0;

    if (!argv)
        return -ENOMEM;
    if (lang && lang->program) {
        argv[n++] = lang->program;
    } else if (lang) {
        argv[n++] = "/bin/sh";
        argv[n++] = "-c";
        argv[n++] = lang->build;
        argv[n++] = "sh";
    }
    argv[n++] = path;
    if (lang && !lang->program)
        argv[n++] = text(e, "%.*s", (int) (strlen(path) - strlen(lang->suffix)), path);
    argv[n++] = arg1;
    argv[n++] = arg2;
    e->plan.exec.argv = argv;
    return 0;
}

/* Reads the script; a failure is a refusal. */
static int read_script(csn_entry *e, const char *path, bool must_be_known)
{
    struct stat st;
    int r;

    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        r = S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
    else
        r = csn_read_file(AT_FDCWD, path, &e->script, SCRIPT_MAX);
    if (r == -ENOMEM)
        return r;
    if (r < 0)
        return csn_buf_printf(&e->refusal, "Could not write script: %s: %s", path, csn_strerror(r));
    if (must_be_known && !csn_language_of(path) &&
        !csn_is_executable_text(e->script.data, e->script.len))
        return csn_buf_printf(&e->refusal,
                              "Could not write script: %s: neither a known suffix (.py .js .sh .ts "
                              ".c) nor a #! line says what runs it",
                              path);
    return 0;
}

/* ---- setup ---- */

static int add_wheels(csn_entry *e, const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    int r = 0;

    if (!d)
        return csn_buf_printf(&e->refusal, "Could not read wheels: %s: %s", dir,
                              csn_strerror(errno));
    while (r == 0 && (entry = readdir(d))) {
        const char *suffix = csn_suffix_of(entry->d_name);

        if (strcmp(suffix, ".whl") != 0 && strcmp(suffix, ".gz") != 0 &&
            strcmp(suffix, ".zip") != 0)
            continue;
        r = add_upload(e, (csn_upload){ .path = text(e, WHEELS "/%s", entry->d_name),
                                        .host_path = text(e, "%s/%s", dir, entry->d_name),
                                        .mode = 0644 });
    }
    (void) closedir(d);
    return r;
}

static int set_pip(csn_entry *e, const char *const *first, const char *const *second,
                   const csn_run_options *o, const char *const *env)
{
    size_t n = 0, n_first = count(first), n_second = count(second);
    const char **argv = keep(e, csn_calloc(12 + n_first + n_second, sizeof(*argv)));
    const char *const *parts[] = { env, pip_env };

    if (!argv)
        return -ENOMEM;
    argv[n++] = "python3";
    argv[n++] = "-m";
    argv[n++] = "pip";
    argv[n++] = "install";
    argv[n++] = "--user";
    argv[n++] = "--no-input";
    if (o->find_links) {
        argv[n++] = "--find-links";
        argv[n++] = WHEELS;
    }
    if (o->find_links && o->network == CSN_NET_NONE)
        argv[n++] = "--no-index";
    argv[n++] = "--";
    for (size_t i = 0; i < n_first; i++)
        argv[n++] = first[i];
    for (size_t i = 0; i < n_second; i++)
        argv[n++] = second[i];
    e->setups[e->plan.n_setups++] = (csn_exec_request){
        .argv = argv,
        .env = join_env(e, parts, CSN_COUNT(parts)),
        .cwd = HOME,
        .timeout_ms = o->setup_timeout_ms,
    };
    return o->find_links ? add_wheels(e, o->find_links) : 0;
}

static int set_setups(csn_entry *e, const csn_candidate *c, const csn_run_options *o,
                      const char *const *env)
{
    const char *setup = c->setup ? c->setup : o->setup;
    int r = 0;

    e->plan.setups = e->setups;
    if (count(o->pip) + count(c->pip) > 0)
        r = set_pip(e, o->pip, c->pip, o, env);
    if (setup)
        e->setups[e->plan.n_setups++] = (csn_exec_request){
            .shell = setup, .env = env, .cwd = HOME, .timeout_ms = o->setup_timeout_ms
        };
    return r;
}

/* ---- the whole ---- */

static int check_objective(csn_entry *e, const csn_run_options *o)
{
    if (memchr(o->objective, '\0', o->objective_len))
        return csn_buf_puts(&e->refusal, "Objective contains a NUL byte");
    if (o->objective_len > CSN_OBJECTIVE_MAX)
        return csn_buf_printf(&e->refusal, "Objective too long: %zu bytes (limit %d)",
                              o->objective_len, CSN_OBJECTIVE_MAX);
    return 0;
}

static void set_limits(csn_entry *e, const csn_run_options *o)
{
    e->plan.box = (csn_box_options){
        .image = o->image,
        .network = o->network,
        .memory_bytes = o->memory_bytes,
        .cpu_milli = o->cpu_milli,
        .pids = o->pids,
        .disk_bytes = o->disk_bytes,
        .strict = o->strict,
    };
    e->plan.upload_timeout_ms = o->upload_timeout_ms;
    e->plan.artifact_timeout_ms = o->artifact_timeout_ms;
    e->plan.output_max = (size_t) o->output_bytes;
    e->plan.artifact_max = (size_t) o->artifact_bytes;
    e->plan.exec.cwd = HOME;
}

static int plan_candidate(csn_entry *e, const csn_candidate *c, const csn_run_options *o)
{
    const char *const *parts[] = { base_env, o->env, c->env };
    const char *const *env = join_env(e, parts, CSN_COUNT(parts));
    const char *output = c->output_path ? c->output_path : o->output_path;
    char *path = text(e, HOME "/%s%s", c->id, csn_suffix_of(c->script));
    int r;

    if (!env || !path)
        return -ENOMEM;
    if (output && output[0] != '/')
        return csn_buf_printf(&e->refusal, "Output path is not absolute: '%s'", output);
    e->plan.output_path = output ? text(e, "%s", output) : text(e, HOME "/%s_output.md", c->id);
    e->plan.exec.env = env;
    e->plan.exec.timeout_ms = c->timeout_ms ? c->timeout_ms : o->timeout_ms;
    r = set_setups(e, c, o, env);
    if (r == 0)
        r = set_command(e, c->script, path, keep(e, csn_strndup(o->objective, o->objective_len)),
                        e->plan.output_path);
    if (r < 0)
        return r;
    return add_upload(e, (csn_upload){ .path = path,
                                       .data = e->script.data,
                                       .len = e->script.len,
                                       .mode = csn_language_of(c->script) ? 0644 : 0755 });
}

int csn_entry_prepare(csn_entry *entry, const csn_candidate *candidate, const csn_run_options *o)
{
    int r = 0;

    *entry = (csn_entry){ .refusal = CSN_BUF_INIT, .script = CSN_BUF_INIT_MAX(SCRIPT_MAX) };
    entry->plan.id = text(entry, "%s", candidate->id);
    if (!entry->plan.id)
        return -ENOMEM;
    set_limits(entry, o);
    if (!csn_is_name(candidate->id))
        return csn_buf_printf(&entry->refusal, "Invalid candidate id: '%s'", candidate->id);
    r = read_script(entry, candidate->script, true);
    if (r == 0 && entry->refusal.len == 0)
        r = check_objective(entry, o);
    if (r == 0 && entry->refusal.len == 0)
        r = plan_candidate(entry, candidate, o);
    return r < 0 ? -ENOMEM : 0;
}

int csn_entry_prepare_scorer(csn_entry *e, const char *scorer, const char *candidate_id,
                             const char *artifact_name, const char *data, size_t len,
                             int64_t timeout_ms, const csn_run_options *o)
{
    csn_run_options own = *o;
    const char *const *parts[] = { base_env, NULL, o->env };
    const char *mine[] = { NULL, NULL };
    struct stat st;
    char *path, *artifact;
    int r = 0;

    *e = (csn_entry){ .refusal = CSN_BUF_INIT, .script = CSN_BUF_INIT_MAX(SCRIPT_MAX) };
    own.network = CSN_NET_NONE; /* a judge asks nobody */
    set_limits(e, &own);
    e->plan.id = text(e, "%s", candidate_id);
    mine[0] = text(e, "CANDIDATE_ID=%s", candidate_id);
    parts[1] = mine;
    artifact = text(e, HOME "/artifact/%s", artifact_name);
    path = text(e, HOME "/scorer%s", csn_suffix_of(scorer));
    if (!e->plan.id || !mine[0] || !artifact || !path)
        return -ENOMEM;
    e->plan.only_stdout = e->plan.exec.only_stdout = true;
    e->plan.output_max = (size_t) 1 << 20;
    e->plan.exec.timeout_ms = timeout_ms;
    e->plan.exec.env = join_env(e, parts, CSN_COUNT(parts));
    r = add_upload(e, (csn_upload){ .path = artifact, .data = data, .len = len, .mode = 0644 });
    if (r < 0)
        return r;
    if (stat(scorer, &st) < 0 || !S_ISREG(st.st_mode)) { /* a command, the artifact behind it */
        const char **argv = keep(e, csn_calloc(6, sizeof(*argv)));
        char *shell = text(e, "%s \"$1\"", scorer);

        if (!argv || !shell)
            return -ENOMEM;
        memcpy(argv, (const char *[]){ "/bin/sh", "-c", shell, "scorer", artifact },
               5 * sizeof(*argv));
        e->plan.exec.argv = argv;
        return 0;
    }
    r = read_script(e, scorer, true);
    if (r < 0 || e->refusal.len > 0)
        return r;
    r = set_command(e, scorer, path, artifact, NULL);
    if (r < 0)
        return r;
    return add_upload(e, (csn_upload){ .path = path,
                                       .data = e->script.data,
                                       .len = e->script.len,
                                       .mode = csn_language_of(scorer) ? 0644 : 0755 });
}
