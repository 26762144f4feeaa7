/* SPDX-License-Identifier: Apache-2.0 */
/* Many at once and many in turn: 1,000 made, used and deleted, 50 at a time; 500 alive together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <caisson.h>

#include "csn_test.h"
#include "world.h"

struct crowd {
    csn_engine *engine;
    int n_wanted, n_begun, n_alive, n_done, n_failed;
    char why[256];
};

static void begin_more(struct crowd *c);

static void one_is_gone(int result, const csn_error *err, void *user)
{
    struct crowd *c = user;
    if (result < 0) {
        c->n_failed++;
        snprintf(c->why, sizeof(c->why), "%s", err->message);
    }
    c->n_alive--;
    c->n_done++;
    begin_more(c);
}

struct visitor {
    struct crowd *crowd;
    csn_sandbox *box;
    csn_process *process;
};

static void has_run(csn_process *process, const csn_receipt *receipt, void *user)
{
    struct visitor *v = user;
    (void) process;
    if (receipt->ended != CSN_ENDED_EXIT || receipt->exit_code != 7) {
        v->crowd->n_failed++;
        csn_receipt_text(receipt, v->crowd->why, sizeof(v->crowd->why));
    }
}

static void is_deleted(int result, const csn_error *err, void *user)
{
    struct visitor *v = user;
    struct crowd *c = v->crowd;
    csn_process_free(v->process);
    csn_sandbox_free(v->box);
    free(v);
    one_is_gone(result, err, c);
}

static int ignore_output(csn_process *process, csn_stream stream, const void *data, size_t len, void *user)
{
    (void) process, (void) stream, (void) data, (void) len, (void) user;
    return 0;
}

static void exited(csn_process *process, const csn_receipt *receipt, void *user)
{
    struct visitor *v = user;
    has_run(process, receipt, user);
    csn_error err = { 0 };
    if (!csn_sandbox_delete_async(v->box, is_deleted, v, &err))
        is_deleted(err.code, &err, v);
}

static void started(csn_process *process, int result, const csn_error *err, void *user)
{
    struct visitor *v = user;
    v->process = process;
    if (result < 0)
        is_deleted(result, err, v);
}

static void is_made(csn_sandbox *box, int result, const csn_error *err, void *user)
{
    struct visitor *v = user;
    csn_error e = { 0 };
    v->box = box;
    if (result < 0) {
        is_deleted(result, err, v);
        return;
    }
    csn_process_options p = { .size = sizeof(p), .shell = "echo hi > f && exit 7", .on_output = ignore_output,
                              .on_exit = exited, .user_data = v };
    if (!csn_process_start_async(box, &p, started, v, &e))
        is_deleted(e.code, &e, v);
}

static void begin_more(struct crowd *c)
{
    while (c->n_begun < c->n_wanted && c->n_alive < 50) {
        struct visitor *v = calloc(1, sizeof(*v));
        csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1 };
        csn_error err = { 0 };
        CHECK(v);
        v->crowd = c;
        c->n_begun++;
        c->n_alive++;
        if (!csn_sandbox_create_async(c->engine, &o, is_made, v, &err)) {
            is_deleted(err.code, &err, v);
            return;
        }
    }
}

static long resident_kib(void)
{
    char line[128] = "", *end = line;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f || !fgets(line, sizeof(line), f))
        line[0] = '\0';
    if (f)
        fclose(f);
    (void) strtol(line, &end, 10); /* the size, which nobody asked for */
    return strtol(end, NULL, 10) * (sysconf(_SC_PAGESIZE) / 1024);
}

static void pass_through(csn_engine *engine, int n)
{
    struct crowd c = { .engine = engine, .n_wanted = n };
    csn_error err = { 0 };
    begin_more(&c);
    while (c.n_done < n)
        if (csn_engine_dispatch(engine, 10000, &err) <= 0)
            FAIL("stuck with %d of %d done: %s", c.n_done, n, err.message);
    if (c.n_failed)
        FAIL("%d of %d failed: %s", c.n_failed, n, c.why);
}

/* A fresh engine, and the world as it was when an earlier one had made what stays. */
static csn_engine *engine_in(world *before)
{
    csn_engine *engine = NULL;
    csn_error err = { 0 };
    world_state_dir();
    if (csn_engine_open(NULL, &engine, &err) < 0)
        FAIL("%s", err.message);
    csn_engine_free(engine);
    world_take(before);
    CHECK_INT(csn_engine_open(NULL, &engine, &err), 0);
    return engine;
}

TEST_TIMEOUT(a_thousand_pass_through_and_nothing_stays, 400)
{
    world before;
    csn_engine *engine = engine_in(&before);
    pass_through(engine, 100);
    long resident = resident_kib();
    pass_through(engine, 1000);
    csn_test_note("resident %ld KiB before, %ld KiB after a thousand", resident, resident_kib());
    CHECK(resident_kib() - resident < 1024);
    csn_engine_free(engine);
    CHECK(world_is_again(&before, 5000));
}

TEST_TIMEOUT(five_hundred_live_at_once, 400)
{
    enum { N = 500 };
    static csn_sandbox *boxes[N];
    world before;
    csn_engine *engine = engine_in(&before);
    csn_error err = { 0 };
    for (int i = 0; i < N; i++) {
        csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1 };
        if (csn_sandbox_create(engine, &o, &boxes[i], &err) < 0)
            FAIL("number %d: %s", i, err.message);
    }
    for (int i = 0; i < N; i += 7) {
        char text[32];
        snprintf(text, sizeof(text), "echo %d", i);
        csn_process_options p = { .size = sizeof(p), .shell = text };
        csn_run_result result = { 0 };
        if (csn_run(boxes[i], &p, &result, &err) < 0)
            FAIL("number %d: %s", i, err.message);
        CHECK_INT(strtol(result.out, NULL, 10), i);
        csn_run_result_done(&result);
    }
    for (int i = 0; i < N; i++) {
        CHECK_INT(csn_sandbox_delete(boxes[i], &err), 0);
        csn_sandbox_free(boxes[i]);
    }
    csn_engine_free(engine);
    CHECK(world_is_again(&before, 10000));
}
