/* Volumes with whole sandboxes. */
#include "base/auto.h"
#include "base/time.h"
#include "image/test_state.h"

typedef struct volume_seen {
    int n;
    csn_volume_info last;
} volume_seen;

static void look_volume(const csn_volume_info *info, void *user)
{
    volume_seen *s = user;

    s->n++;
    s->last = *info;
}

TEST(a_volume_outlives_its_sandboxes)
{
    csn_mount mount = { .volume = "data", .path = "/data" };
    volume_seen s = { 0 };
    csn_sandbox *one, *two;

    open_engine();
    OK(csn_volume_create(engine, "data", &err));
    CHECK_INT(csn_volume_create(engine, "data", &err), CSN_E_EXISTS);
    one = A_SANDBOX(.mounts = &mount, .n_mounts = 1, .is_ephemeral = 1);
    CHECK_STR(says(one, "echo hello > /data/note; id -u"), "1000\n");
    two = A_SANDBOX(.mounts = &mount, .n_mounts = 1, .is_ephemeral = 1);
    CHECK_STR(says(two, "cat /data/note"), "hello\n");
    OK(csn_volume_inspect(engine, "data", look_volume, &s, &err));
    CHECK_INT(s.last.n_users, 2);
    CHECK_INT(s.last.n_files, 1);
    CHECK_INT(csn_volume_remove(engine, "data", &err), CSN_E_BUSY);
    gone(one);
    gone(two);
    OK(csn_volume_list(engine, look_volume, &s, &err));
    CHECK_INT(s.n, 2);
    CHECK_INT(s.last.n_users, 0);
    OK(csn_volume_remove(engine, "data", &err));
    CHECK_INT(csn_volume_inspect(engine, "data", look_volume, &s, &err), CSN_E_NOT_FOUND);
    CHECK_INT(csn_volume_remove(engine, "data", &err), CSN_E_NOT_FOUND);
    CHECK_INT(count_in("volumes", false), 0);
}

/* The loop does not turn while it makes the sandbox: no lock may wait for that. */
TEST(a_sandbox_is_made_while_the_end_of_a_removal_is_not_told_yet)
{
    int64_t deadline = csn_deadline_in_ms(20000 * csn_test_slow());
    csn_op *op;

    open_engine();
    gone(A_SANDBOX(.is_ephemeral = 1)); /* what the first one needs is there */
    OK(csn_volume_create(engine, "data", &err));
    op = csn_volume_remove_async(engine, "data", NULL, NULL, &err);
    if (!op)
        FAIL("%s", err.message);
    while (count_in("volumes", false) + count_in("volumes", true) > 0)
        CHECK(!csn_deadline_passed(deadline));
    gone(A_SANDBOX(.is_ephemeral = 1));
    CHECK_INT(csn_volume_remove(engine, "data", &err), CSN_E_NOT_FOUND);
}

/* Without privilege such files belong to ids that aren't the caller's. */
TEST(what_root_inside_wrote_can_be_removed)
{
    csn_mount mount = { .volume = "data", .path = "/data" };
    csn_sandbox_options o = { .size = sizeof(o), .user = "root", .mounts = &mount, .n_mounts = 1 };
    csn_sandbox *box = NULL;

    open_engine();
    OK(csn_volume_create(engine, "data", &err));
    if (csn_sandbox_create(engine, &o, &box, &err) < 0) {
        csn_test_note("no root inside here: %s", err.message);
        return;
    }
    CHECK_STR(says(box, "mkdir -p /data/d /srv/d && touch /data/d/f /srv/d/f && "
                        "chown -R 33:33 /data/d /srv/d && chmod 700 /data/d /srv/d"),
              "");
    OK(csn_sandbox_snapshot(box, "shot", &err));
    gone(box);
    OK(csn_volume_remove(engine, "data", &err));
    OK(csn_image_remove(engine, "shot", &err));
    check_state(0, 0);
    CHECK_INT(count_in("volumes", false), 0);
}

TEST(a_read_only_volume_is_one_and_a_subpath_is_a_part)
{
    csn_mount mounts[] = {
        { .volume = "data", .path = "/all" },
        { .volume = "data", .path = "/part", .subpath = "a/b", .is_read_only = 1 }
    };
    csn_sandbox *box;

    open_engine();
    OK(csn_volume_create(engine, "data", &err));
    box = A_SANDBOX(.mounts = mounts, .n_mounts = 2, .is_ephemeral = 1);
    CHECK_STR(
        says(box, "echo x > /all/a/b/f; cat /part/f; echo y 2>/dev/null > /part/g || echo refused"),
        "x\nrefused\n");
    gone(box);
}

TEST(names_of_volumes_are_checked)
{
    static const char *const bad[] = { "", ".", "..", "a/b", "-x", ".hidden", "a b", "\xc3\xa4" };

    open_engine();
    for (size_t i = 0; i < CSN_COUNT(bad); i++) {
        CHECK_INT(csn_volume_create(engine, bad[i], &err), CSN_E_INVALID);
        CHECK_INT(csn_volume_remove(engine, bad[i], &err), CSN_E_INVALID);
    }
    CHECK_INT(csn_volume_create(engine, NULL, &err), CSN_E_INVALID);
}
