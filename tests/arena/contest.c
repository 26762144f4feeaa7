#include "contest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"

static csn_buf log_text = CSN_BUF_INIT;

/* Many things to free, one entry in the test's own list. */
static struct kept {
    void (*fn)(void *);
    void *what;
    struct kept *next;
} * all_kept;

static void free_kept(void *user)
{
    (void) user;
    while (all_kept) {
        struct kept *k = all_kept;

        all_kept = k->next;
        k->fn(k->what);
        free(k);
    }
    csn_buf_free(&log_text);
}

static void keep(void (*fn)(void *), void *what)
{
    struct kept *k = calloc(1, sizeof(*k));

    CHECK(k != NULL);
    if (!all_kept)
        csn_test_defer(free_kept, NULL);
    *k = (struct kept){ fn, what, all_kept };
    all_kept = k;
}

const char *a_directory(const char *name)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    char *kept;

    csn_buf_printf(&path, "%s/%s", the_state(),
                   name); /* below the state: it belongs to the story's user */
    CHECK(mkdir(path.data, 0700) == 0 || access(path.data, W_OK) == 0);
    kept = csn_buf_take(&path, NULL);
    keep(free, kept);
    return kept;
}

const char *a_script(const char *name, const char *text)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    const char *dir = a_directory("scripts");
    csn_auto(fd) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char *kept;

    CHECK_INT(csn_write_file_atomic(fd, name, text, strlen(text), 0644, false), 0);
    csn_buf_printf(&path, "%s/%s", dir, name);
    kept = csn_buf_take(&path, NULL);
    keep(free, kept);
    return kept;
}

void keep_log(const char *candidate_id, const char *message, void *user)
{
    (void) user;
    csn_buf_printf(&log_text, "%s: %s\n", candidate_id, message);
}

const char *the_log(void)
{
    return log_text.data;
}

void forget_log(void)
{
    csn_buf_free(&log_text);
}

static void free_result(void *user)
{
    csn_candidate_result_free(user);
}

const csn_candidate_result *run_options(const char *script_path, csn_run_options o)
{
    csn_candidate c = { .size = sizeof(c), .id = "x", .script = script_path };
    csn_candidate_result *r = NULL;
    csn_error err = { 0 };

    forget_log();
    if (!o.objective)
        o.objective = "do it";
    if (!o.on_log)
        o.on_log = keep_log;
    if (csn_candidate_run(the_engine(), &c, &o, &r, &err) < 0)
        FAIL("run a candidate: %s", err.message);
    keep(free_result, r);
    if (!r->success != (r->error_message != NULL))
        FAIL("success %d with error message '%s'", r->success,
             r->error_message ? r->error_message : "");
    return r;
}

static void free_arena(void *user)
{
    csn_arena_result_free(user);
}

const csn_arena_result *run_arena(const csn_candidate *candidates, size_t n, csn_arena_options o)
{
    csn_arena_result *r = NULL;
    csn_run_options run = { 0 };
    csn_error err = { 0 };

    forget_log();
    if (o.run)
        run = *o.run;
    run.size = sizeof(run);
    if (!run.objective)
        run.objective = "do it";
    if (!run.on_log)
        run.on_log = keep_log;
    o.size = sizeof(o);
    o.run = &run;
    if (csn_arena_run(the_engine(), candidates, n, &o, &r, &err) < 0)
        FAIL("run the arena: %s", err.message);
    keep(free_arena, r);
    return r;
}

const char *good_log(const csn_candidate_result *r)
{
    static char text[512];

    (void) snprintf(
        text, sizeof(text),
        "x: [Sandbox] Connecting...\nx: [Sandbox] Creating sandbox...\n"
        "x: [Sandbox] Sandbox ready: %.8s...\nx: [Sandbox] Script uploaded\nx: [Run] Executing...\n"
        "x: [Run] Exit code: 0\nx: [Done] Artifact retrieved\nx: [Sandbox] Cleaning up...\n",
        r->sandbox_id);
    return text;
}

void check_nothing_left(const csn_candidate_result *r)
{
    CHECK_INT(count_sandboxes(the_engine()), 0);
    if (r->sandbox_id)
        CHECK_INT(count_cgroups(r->sandbox_id), 0);
}
