/* The smoke test: a repository, two executes that share a variable, a SUBMIT. No model is involved. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <caisson/config.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/time.h"
#include "interp.h"

enum { CONFIG, SANDBOX_CREATE, REPO_CLONE, DRIVER_START, EXEC_1, EXEC_2, CLEANUP, N_PHASES };

static const char *const phases[N_PHASES] = { "config",       "sandbox_create", "repo_clone",
                                              "driver_start", "exec_step_1",    "exec_step_2",
                                              "cleanup" };
static const char *const categories[N_PHASES] = {
    "config_error",           "sandbox_create_clone_error", "sandbox_create_clone_error",
    "driver_handshake_error", "driver_execution_error",     "driver_execution_error",
    "cleanup_error"
};

struct smoke {
    const char *repo, *ref;
    csn_interp *i;
    int phase; /* the one that failed; N_PHASES: none */
    int64_t ms[N_PHASES];
    char sandbox_id[40];
    csn_buf workspace, message;
    int64_t value;
    bool is_started, is_final;
};

static void fail(struct smoke *s, int phase, const char *text)
{
    if (s->phase != N_PHASES)
        return;
    s->phase = phase;
    csn_buf_puts(&s->message, text);
}

/* Which step of the start failed: the session has noted it. */
static int phase_of(const struct smoke *s)
{
    const char *name = s->i->failure_phase;

    for (int k = SANDBOX_CREATE; name && k <= DRIVER_START; k++)
        if (csn_streq(name, phases[k]))
            return k;
    return SANDBOX_CREATE;
}

static void start(struct smoke *s)
{
    csn_error err = { 0 };
    int r = csn_interp_start(s->i, &err);

    s->ms[SANDBOX_CREATE] = s->i->ms_create;
    s->ms[REPO_CLONE] = s->i->ms_clone;
    s->ms[DRIVER_START] = s->i->ms_driver;
    if (r < 0) {
        fail(s, phase_of(s), err.message);
        return;
    }
    s->is_started = true;
    (void) snprintf(s->sandbox_id, sizeof(s->sandbox_id), "%s", csn_interp_sandbox_id(s->i));
    csn_buf_puts(&s->workspace, csn_interp_workspace(s->i));
}

static void step(struct smoke *s, int phase, const char *code, csn_exec_kind wanted)
{
    int64_t t = csn_now_ns();
    csn_exec_result *r = NULL;
    csn_error err = { 0 };

    if (s->phase != N_PHASES)
        return;
    (void) csn_interp_execute(s->i, code, strlen(code), NULL, &r, &err); /* the kind says all */
    s->ms[phase] = (csn_now_ns() - t) / CSN_NS_PER_MS;
    if (!r)
        fail(s, phase, err.message);
    else if (csn_result_kind(r) != wanted)
        fail(s, phase,
             csn_result_text(r, NULL)[0] ? csn_result_text(r, NULL)
                                         : "the step did not end as it should");
    else if (wanted == CSN_EXEC_FINAL) {
        s->is_final = true;
        if (csn_final_int(r, "output", &s->value) < 0 || s->value != 5)
            fail(s, phase, "the second step gave another value than 5");
    }
    csn_result_free(r);
}

static void clean_up(struct smoke *s)
{
    int64_t t = csn_now_ns();
    csn_error err = { 0 };

    if (csn_interp_shutdown(s->i, &err) < 0) {
        if (s->phase == N_PHASES)
            fail(s, CLEANUP, err.message);
        else
            csn_buf_printf(&s->message, " Cleanup also failed: %s", err.message);
    }
    s->ms[CLEANUP] = (csn_now_ns() - t) / CSN_NS_PER_MS;
}

static void put_report(const struct smoke *s, csn_buf *out)
{
    csn_jw w = CSN_JW_INIT(out, true);
    bool is_good = s->phase == N_PHASES;

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "repo", s->repo);
    csn_jw_kstr(&w, "ref", s->ref);
    csn_jw_kstr(&w, "sandbox_id", s->sandbox_id[0] ? s->sandbox_id : NULL);
    csn_jw_kstr(&w, "workspace_path", s->workspace.len ? s->workspace.data : NULL);
    csn_jw_key(&w, "persisted_state_value");
    if (s->is_final)
        csn_jw_int(&w, s->value);
    else
        csn_jw_null(&w);
    csn_jw_kbool(&w, "driver_started", s->is_started);
    csn_jw_kstr(&w, "finalization_mode", s->is_final ? "SUBMIT" : "unknown");
    csn_jw_kstr(&w, "termination_phase", is_good ? "completed" : phases[s->phase]);
    csn_jw_kstr(&w, "error_category", is_good ? NULL : categories[s->phase]);
    csn_jw_key(&w, "phase_timings_ms");
    csn_jw_begin_object(&w);
    for (int k = 0; k < N_PHASES; k++)
        csn_jw_kint(&w, phases[k], s->ms[k]);
    if (s->i)
        csn_jw_kint(&w, "context_stage", s->i->ms_context);
    csn_jw_end_object(&w);
    csn_jw_kstr(&w, "error_message", is_good ? NULL : s->message.data);
    csn_jw_end_object(&w);
}

static const char step_1[] = "import pathlib\n"
                             "head = pathlib.Path('README.md').read_text()[:120]\n"
                             "assert head.strip(), 'README.md is empty'\n"
                             "counter = 2\n";
static const char step_2[] = "counter += 3\nSUBMIT(output=counter)\n";

int csn_interp_smoke(csn_engine *engine, const char *repo, const char *ref, int has_network,
                     char **ret_json, csn_error *err)
{
    struct smoke s = { .repo = repo,
                       .ref = ref,
                       .phase = N_PHASES,
                       .workspace = CSN_BUF_INIT,
                       .message = CSN_BUF_INIT };
    csn_interp_options o = { .size = sizeof(o),
                             .timeout_s = 300,
                             .execute_timeout_s = 60,
                             .repo_url = repo,
                             .repo_ref = ref,
                             .has_network = has_network };
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_config *config = NULL;
    csn_error why = { 0 };
    int r;

    if (csn_config_load(NULL, &config, &why) < 0)
        fail(&s, CONFIG, why.message);
    csn_config_free(config);
    if (s.phase == N_PHASES && csn_interp_new(engine, &o, &s.i, &why) < 0)
        fail(&s, CONFIG, why.message);
    if (s.i) {
        start(&s);
        step(&s, EXEC_1, step_1, CSN_EXEC_TEXT);
        step(&s, EXEC_2, step_2, CSN_EXEC_FINAL);
        clean_up(&s);
    }
    put_report(&s, &out);
    r = s.phase == N_PHASES
            ? CSN_OK
            : csn_fail(err, CSN_E_SYSTEM, "%s: %s", phases[s.phase], s.message.data);
    csn_interp_free(s.i);
    csn_buf_free(&s.workspace);
    csn_buf_free(&s.message);
    *ret_json = csn_buf_take(&out, NULL);
    return *ret_json ? r : csn_fail_sys(err, -ENOMEM, "write the report");
}
