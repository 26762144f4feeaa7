/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a sandbox elsewhere: stopped, started, changed, forked, asked how it goes. */
#include <stdlib.h>
#include <string.h>

#include "remote_world.h"
#include "story/story.h"

static csn_state state_of(csn_sandbox *box)
{
    csn_sandbox_info info;

    OK(csn_sandbox_inspect(box, &info, err));
    return info.state;
}

static void check_content(csn_sandbox *box, const char *path, const char *wanted)
{
    char *data;
    size_t len;

    OK(csn_file_get(box, path, 0, &data, &len, err));
    CHECK_STR(data, wanted);
    free(data);
}

static csn_sandbox *a_detached(csn_engine *engine, const char *name)
{
    csn_sandbox_options o = { .size = sizeof(o), .is_detached = 1, .name = name };
    csn_sandbox *box = NULL;

    OK(csn_sandbox_create(engine, &o, &box, err));
    return box;
}

TEST(a_stopped_one_starts_again_on_its_files)
{
    csn_engine *engine = remote_engine();
    csn_sandbox *boxes[] = { a_box(engine), a_detached(engine, "sleeper") };

    csn_test_defer(free_engine, engine);
    for (int i = 0; i < 2; i++) {
        OK(csn_file_put(boxes[i], "kept", "still here", 10, 0, err));
        OK(csn_sandbox_stop(boxes[i], -1, err));
        CHECK_INT(state_of(boxes[i]), CSN_STATE_STOPPED);
        OK(csn_sandbox_stop(boxes[i], 0, err)); /* once more is fine */
        OK(csn_sandbox_start(boxes[i], err));
        OK(csn_sandbox_start(boxes[i], err));
        CHECK_INT(state_of(boxes[i]), CSN_STATE_STARTED);
        check_content(boxes[i], "kept", "still here");
        OK(csn_sandbox_delete(boxes[i], err));
        FAILS(csn_sandbox_start(boxes[i], err), CSN_E_NOT_FOUND);
        csn_sandbox_free(boxes[i]);
    }
    CHECK_INT(count_boxes(engine), 0);
}

TEST(a_stopped_one_ends_with_its_engine)
{
    csn_engine *first = remote_engine(), *second = remote_engine();
    csn_sandbox *box = a_box(first);

    csn_test_defer(free_engine, second);
    OK(csn_sandbox_stop(box, -1, err));
    CHECK_INT(count_boxes(second), 1);
    csn_sandbox_free(box);
    csn_engine_free(first);
    CHECK_INT(count_boxes(second), 0);
}

TEST(the_stop_of_an_ephemeral_one_is_its_end)
{
    csn_engine *engine = remote_engine();
    csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1 };
    csn_sandbox *box = NULL;

    csn_test_defer(free_engine, engine);
    OK(csn_sandbox_create(engine, &o, &box, err));
    OK(csn_sandbox_stop(box, 0, err));
    CHECK_INT(state_of(box), CSN_STATE_DELETED);
    CHECK_INT(count_boxes(engine), 0);
    OK(csn_sandbox_stop(box, 0, err));
    csn_sandbox_free(box);
}

TEST(labels_are_the_callers_and_whose_it_is_stays_known)
{
    csn_engine *engine = remote_engine();
    csn_sandbox *box = a_box(engine), *same = NULL;
    const char *const labels[] = { "colour=red", "caisson.program=1-1", NULL };
    csn_sandbox_info info;
    uint32_t n = 99;

    csn_test_defer(free_engine, engine);
    OK(csn_sandbox_set_labels(box, labels, err));
    OK(csn_sandbox_open(engine, csn_sandbox_id(box), &same, err));
    OK(csn_sandbox_inspect(same, &info, err));
    CHECK_STR(info.labels[0], "colour=red");
    CHECK(!info.labels[1]);
    CHECK_INT(info.is_detached, 0);
    OK(csn_engine_gc(engine, &n, err));
    CHECK_INT(n, 0); /* its program lives, whatever a label of the caller says */
    OK(csn_sandbox_set_labels(box, NULL, err));
    OK(csn_sandbox_inspect(box, &info, err));
    CHECK(!info.labels[0]);
    csn_sandbox_free(same);
    csn_sandbox_free(box);
}

TEST(timers_and_limits_are_changed)
{
    csn_engine *engine = remote_engine();
    csn_sandbox *box = a_box(engine), *kept = a_detached(engine, "timed");
    csn_sandbox_options same = { .size = sizeof(same), .name = "timed" };
    csn_sandbox *other = NULL;
    csn_sandbox_info info;

    csn_test_defer(free_engine, engine);
    FAILS(csn_sandbox_create(engine, &same, &other, err), CSN_E_EXISTS);
    OK(csn_sandbox_set_timers(kept, 3600 * 1000, 90 * 1000, err));
    OK(csn_sandbox_inspect(kept, &info, err));
    CHECK_INT(info.ttl_ms, 3600 * 1000);
    CHECK_INT(info.idle_stop_ms, 120 * 1000); /* whole minutes */
    OK(csn_sandbox_set_timers(kept, 0, 0, err));
    OK(csn_sandbox_inspect(kept, &info, err));
    CHECK(info.ttl_ms == 0 && info.idle_stop_ms == 0);
    OK(csn_sandbox_set_timers(box, 0, 0, err));
    OK(csn_sandbox_inspect(box, &info, err));
    CHECK_INT(info.idle_stop_ms, 15 * 60 * 1000); /* an attached one has always one */

    OK(csn_sandbox_resize(box, (int64_t) 2 << 30, 0, 0, err));
    OK(csn_sandbox_inspect(box, &info, err));
    CHECK(info.memory_bytes == (int64_t) 2 << 30 && info.cpu_milli == 1000);
    FAILS(csn_sandbox_resize(box, 0, 1500, 0, err), CSN_E_INVALID);
    FAILS(csn_sandbox_resize(box, 0, 0, CSN_UNLIMITED, err), CSN_E_UNSUPPORTED);
    FAILS(csn_sandbox_resize(box, 0, 0, (int64_t) 8 << 30, err), CSN_E_STATE);
    OK(csn_sandbox_delete(kept, err));
    csn_sandbox_free(kept);
    csn_sandbox_free(box);
}

TEST(what_it_uses_is_told_as_far_as_the_service_tells)
{
    csn_engine *engine = remote_engine();
    csn_sandbox *box = a_box(engine);
    csn_receipt receipt;
    csn_usage usage;

    csn_test_defer(free_engine, engine);
    OK(csn_sandbox_usage(box, &usage, err));
    CHECK(usage.memory_bytes >= 0 && usage.disk_bytes >= 0);
    CHECK(usage.cpu_us == -1 && usage.n_processes == -1 && usage.disk_inodes == -1);
    OK(csn_sandbox_receipt(box, &receipt, err));
    CHECK_INT(receipt.rung, CSN_RUNG_REMOTE);
    CHECK(receipt.memory_limit_bytes == (int64_t) 1 << 30 && receipt.wall_us == -1 &&
          receipt.peak_memory_bytes == -1);
    OK(csn_sandbox_stop(box, -1, err));
    FAILS(csn_sandbox_usage(box, &usage, err), CSN_E_STATE);
    csn_sandbox_free(box);
}

TEST(a_fork_has_its_parents_files_and_settings_of_its_own)
{
    csn_engine *first = remote_engine(), *second = remote_engine();
    csn_sandbox *box = a_detached(first, "parent"), *attached = NULL, *kept = NULL, *again = NULL;
    csn_sandbox_options own = { .size = sizeof(own),
                                .is_detached = 1,
                                .name = "child",
                                .labels = (const char *const[]){ "a=b", NULL } };
    csn_sandbox_options none = { .size = sizeof(none) };
    csn_sandbox_info info;

    csn_test_defer(free_engine, second);
    OK(csn_sandbox_set_labels(box, (const char *const[]){ "of=parent", NULL }, err));
    OK(csn_file_put(box, "f", "from above", 10, 0, err));
    OK(csn_sandbox_fork(box, &none, &attached, err));
    OK(csn_sandbox_fork(box, &own, &kept, err));
    FAILS(csn_sandbox_fork(box, &own, &again, err), CSN_E_STATE); /* the name is taken */
    check_content(attached, "f", "from above");
    check_content(kept, "f", "from above");
    OK(csn_sandbox_inspect(attached, &info, err));
    CHECK(!info.labels[0] && !info.is_detached);
    CHECK_INT(count_boxes(second), 3);
    csn_sandbox_free(attached);
    csn_sandbox_free(kept);
    csn_sandbox_free(box);
    csn_engine_free(first); /* the attached one goes along */
    CHECK_INT(count_boxes(second), 2);
    OK(csn_sandbox_open(second, "child", &kept, err));
    OK(csn_sandbox_inspect(kept, &info, err));
    CHECK_STR(info.labels[0], "a=b");
    CHECK(info.is_detached && !info.is_ephemeral);
    OK(csn_sandbox_delete(kept, err));
    OK(csn_sandbox_open(second, "parent", &box, err));
    OK(csn_sandbox_delete(box, err));
    csn_sandbox_free(kept);
    csn_sandbox_free(box);
}
