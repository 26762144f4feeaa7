#include "helpers.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"

static void free_interp(void *i)
{
    csn_interp_free(i);
}

static void see_volume(const csn_volume_info *info, void *user)
{
    (void) info;
    (void) user;
}

void need_volumes(void)
{
    if (csn_volume_inspect(the_engine(), "none-such", see_volume, NULL, NULL) == CSN_E_UNSUPPORTED)
        SKIP("net: no volumes at a service");
}

/* What a service can't be asked for. */
static void skip_what_is_not_there(const csn_interp_options *o)
{
    if (is_remote() && (o->memory_bytes || o->cpu_milli || o->disk_bytes))
        SKIP("net: a service's snapshot says how much memory there is");
    if (o->volume_name)
        need_volumes();
}

csn_interp *make_interp(csn_interp_options o)
{
    csn_interp *i = NULL;

    skip_what_is_not_there(&o);
    o.size = sizeof(o);
    OK(csn_interp_new(the_engine(), &o, &i, err));
    csn_test_defer(free_interp, i);
    return i;
}

static void free_result(void *r)
{
    csn_result_free(r);
}

csn_exec_result *execute_with(csn_interp *i, const char *code, csn_execute_options o)
{
    csn_exec_result *r = NULL;
    csn_error err = { 0 };

    o.size = sizeof(o);
    (void) csn_interp_execute(i, code, strlen(code), &o, &r, &err);
    if (!r)
        FAIL("no result: %s", err.message);
    csn_test_defer(free_result, r);
    return r;
}

const char *final_of(const csn_exec_result *r)
{
    return csn_result_kind(r) == CSN_EXEC_FINAL ? csn_final_json(r) : csn_result_text(r, NULL);
}

const char *metadata(csn_interp *i, const char *key)
{
    static char shown[256];
    csn_auto(mem) char *json = NULL;
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *v;

    OK(csn_interp_metadata(i, &json, err));
    CHECK_INT(csn_json_parse(json, strlen(json), &doc, NULL), 0);
    v = csn_json_get(doc, key);
    (void) snprintf(shown, sizeof(shown), "%s",
                    csn_json_type_of(v) == CSN_JSON_BOOL
                        ? (csn_json_bool(v, false) ? "true" : "false")
                        : csn_json_str(v, "(none)"));
    return shown;
}

char *exported(csn_interp *i)
{
    char *json = NULL;

    OK(csn_interp_export_state(i, &json, err));
    csn_test_defer(free, json);
    return json;
}

static void count_one(const csn_sandbox_info *info, void *user)
{
    (void) info;
    ++*(int *) user;
}

int count_boxes(void)
{
    csn_engine *e = is_remote() ? another_engine() : NULL;
    int n = 0;

    if (!e)
        return count_entries("boxes");
    OK(csn_sandbox_list(e, count_one, &n, err));
    csn_engine_free(e);
    return n;
}

bool has_no_boxes(void *user)
{
    (void) user;
    return count_boxes() == 0;
}

bool shell(const char *command)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *) NULL);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

char *make_repo(const char *name, const char *readme)
{
    char *path = malloc(512), command[2048];

    csn_test_defer(free, path);
    (void) snprintf(path, 512, "%s/%s", csn_test_dir(), name);
    (void) snprintf(
        command, sizeof(command),
        "exec 2>/dev/null; mkdir -p '%s' && cd '%s' && git init -q -b main . && echo '%s' > README.md && git add . && "
        "git -c user.name=a -c user.email=a@b commit -q -m one && git checkout -q -b feature/x && echo two > README.md && "
        "git -c user.name=a -c user.email=a@b commit -q -am two && git tag v2 && git checkout -q main && chmod -R a+rX .",
        path, path, readme);
    if (!shell(command))
        SKIP("git is missing");
    return path;
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

int echo(const char *prompt, size_t len, int64_t timeout_ms, char **ret_text, csn_error *err,
         void *user)
{
    (void) timeout_ms;
    (void) err;
    (void) user;
    *ret_text = strndup(prompt, len);
    return CSN_OK;
}

/* A model that plays parts: children are asked for code, everything else is a question. */
int planner(const char *prompt, size_t len, int64_t timeout_ms, char **ret_text, csn_error *err,
            void *user)
{
    const char *answer;

    (void) len;
    (void) timeout_ms;
    (void) err;
    (void) user;
    if (!strstr(prompt, "Task: "))
        answer = "plain";
    else if (strstr(prompt, "Task: deeper"))
        answer =
            "```python\nSUBMIT(answer=sub_rlm('leaf') + '/' + str(get_workspace_context()['depth']))\n```";
    else if (strstr(prompt, "Task: leaf"))
        answer = "```python\nSUBMIT(answer='leaf' + str(get_workspace_context()['depth']))\n```";
    else if (strstr(prompt, "Task: meet")) /* two that must be alive at once, in one sandbox */
        answer =
            "import os, time\nme = 'ab'[bool(os.path.exists('/home/daytona/a'))]\n"
            "open('/home/daytona/' + me, 'x').close()\nend = time.monotonic() + 60\n"
            "while not os.path.exists('/home/daytona/b') and time.monotonic() < end: time.sleep(0.01)\n"
            "SUBMIT(answer=str(os.path.exists('/home/daytona/b')))";
    else if (strstr(prompt, "Task: hang"))
        answer = "print('in', flush=True)\nimport time\ntime.sleep(600)";
    else if (strstr(prompt, "Task: silent"))
        answer = "pass";
    else if (strstr(prompt, "Task: ask"))
        answer = "SUBMIT(answer=llm_query('q'))";
    else if (strstr(prompt, "Task: file"))
        answer =
            "import os\nSUBMIT(answer=open('/home/daytona/mark').read() if os.path.exists('/home/daytona/mark') else 'none')";
    else
        answer = "SUBMIT(answer=context.upper())";
    *ret_text = strdup(answer);
    return CSN_OK;
}
