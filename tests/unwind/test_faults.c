/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation or kernel call fails, k = 1, 2, … until everything succeeds: first in the client, then in the
 * keeper. After each try the world is as before. This is the test that makes cleanup real. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <caisson.h>

#include "base/fault.h"
#include "csn_test.h"
#include "world.h"

/* One life: open, create, run, write, read, background log, stop, delete, close. 0 when all of it succeeded. */
static const char *fired_in_delete;

static int live_once(char *why, size_t why_size, int is_persistent)
{
    csn_engine *engine = NULL;
    csn_sandbox *box = NULL;
    csn_process *background = NULL;
    csn_error err = { 0 };
    csn_run_result result = { 0 };
    csn_log_chunk chunk;
    char *data = NULL;
    size_t len;

    csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = !is_persistent };
    csn_process_options p = { .size = sizeof(p), .shell = "echo out; echo err >&2" };
    csn_process_options b = { .size = sizeof(b), .shell = "echo logged", .is_background = 1 };
    int r = csn_engine_open(NULL, &engine, &err);
    if (r == 0)
        r = csn_sandbox_create(engine, &o, &box, &err);
    if (r == 0 && (r = csn_run(box, &p, &result, &err)) == 0)
        csn_run_result_done(&result);
    if (r == 0)
        r = csn_file_put(box, "f", "text", 4, 0644, &err);
    if (r == 0)
        r = csn_file_get(box, "f", 0, &data, &len, &err);
    if (r == 0)
        r = csn_process_start(box, &b, &background, &err);
    if (r == 0)
        r = csn_process_read_log(background, 0, 5000, &chunk, &err);
    free(data);
    csn_process_free(background);
    snprintf(why, why_size, "%s", err.message);
    if (box) {
        /* A delete that hit the fault must be possible again. */
        int d = csn_sandbox_delete(box, &err);
        if (d < 0) {
            r = r < 0 ? r : d;
            fired_in_delete = csn_fault_fired(); /* disarming forgets it */
            csn_fault_arm(0);
            CHECK_INT(csn_sandbox_delete(box, &err), 0);
        }
    }
    csn_sandbox_free(box);
    csn_engine_free(engine);
    return r;
}

static void is_swept(const world *before, const char *who, long k, const char *why)
{
    csn_engine *engine = NULL;
    csn_fault_arm(0);
    unsetenv("CSN_KEEPER_FAULT_AT");
    if (world_is_again(before, 1000))
        return;
    CHECK_INT(csn_engine_open(NULL, &engine, NULL), 0); /* what a killed keeper leaves, the next engine sweeps */
    csn_engine_free(engine);
    if (!world_is_again(before, 4000))
        FAIL("%s, fault %ld (%s) left something behind", who, k, why);
}

static void in_the_client(int is_persistent)
{
    world before;
    char why[300] = "";
    world_state_dir();
    CHECK_INT(live_once(why, sizeof(why), is_persistent), 0);
    world_take(&before);
    long k = 1;
    for (;; k++) {
        fired_in_delete = NULL;
        csn_fault_arm(k);
        int r = live_once(why, sizeof(why), is_persistent);
        const char *fired = fired_in_delete ? fired_in_delete : csn_fault_fired();
        if (!fired) {
            CHECK_INT(r, 0);
            break;
        }
        is_swept(&before, "client", k, fired);
    }
    csn_test_note("%ld faults in the client", k - 1);
    CHECK(k > 20);
}

static void in_the_keeper(int is_persistent)
{
    world before;
    char why[300] = "", number[32];
    int n_good = 0, n_bad = 0;
    world_state_dir();
    CHECK_INT(live_once(why, sizeof(why), is_persistent), 0);
    world_take(&before);
    for (long k = 1; n_good < 25 && k < 2000; k++) { /* beyond the last fault point every life succeeds */
        snprintf(number, sizeof(number), "%ld", k);
        setenv("CSN_KEEPER_FAULT_AT", number, 1);
        int r = live_once(why, sizeof(why), is_persistent);
        n_good = r == 0 ? n_good + 1 : 0;
        n_bad += r != 0;
        is_swept(&before, "keeper", k, why);
    }
    csn_test_note("%d lives ended by a fault in the keeper", n_bad);
    CHECK(n_bad > 20);
}

TEST_TIMEOUT(every_fault_in_the_client_unwinds, 600)
{
    in_the_client(0);
}

TEST_TIMEOUT(every_fault_in_the_client_unwinds_for_a_sandbox_on_disk, 600)
{
    in_the_client(1);
}

TEST_TIMEOUT(every_fault_in_the_keeper_unwinds, 600)
{
    in_the_keeper(0);
}

TEST_TIMEOUT(every_fault_in_the_keeper_unwinds_for_a_sandbox_on_disk, 600)
{
    in_the_keeper(1);
}
