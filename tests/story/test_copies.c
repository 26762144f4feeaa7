/* Snapshots, forks, volumes. */
#include <stdio.h>
#include <stdlib.h>

#include "story.h"

static csn_sandbox *fork_of(csn_sandbox *box, csn_sandbox_options o)
{
    csn_sandbox *copy = NULL;

    o.size = sizeof(o);
    OK(csn_sandbox_fork(box, &o, &copy, err));
    return copy;
}

TEST(a_fork_starts_with_the_same_files_and_goes_its_own_way)
{
    csn_sandbox *box = an_ephemeral(.env = ARGV("A=1"));

    CHECK_STR(ending(sh(box, "echo both > f; mkdir d; echo x > d/g; ln -s f l; rm .profile")), "exit 0");
    csn_sandbox *copy = fork_of(box, (csn_sandbox_options){ .is_ephemeral = 1 });
    CHECK_STR(sh(copy, "cat l d/g; ls -A; echo $A")->out, "both\nx\n.bashrc\nd\nf\nl\n1\n");
    CHECK_STR(ending(sh(copy, "echo mine > f; rm -r d")), "exit 0");
    CHECK_STR(sh(box, "cat f d/g")->out, "both\nx\n");
    CHECK_STR(sh(copy, "cat f")->out, "mine\n");
    csn_sandbox *grandchild = fork_of(copy, (csn_sandbox_options){ .is_ephemeral = 1 });
    CHECK_STR(sh(grandchild, "cat f; ls")->out, "mine\nf\nl\n");
    OK(csn_sandbox_delete(grandchild, err));
    OK(csn_sandbox_delete(copy, err));
    csn_sandbox_free(copy);
    csn_sandbox_free(grandchild);
    OK(csn_sandbox_delete(box, err));
    OK(csn_engine_gc(the_engine(), NULL, err));
    CHECK_INT(count_entries("layers"), 1); /* the host's own */
}

TEST(a_stopped_sandbox_can_be_forked)
{
    csn_sandbox *box = a_sandbox(.is_detached = 1);

    CHECK_STR(ending(sh(box, "echo was > f")), "exit 0");
    OK(csn_sandbox_stop(box, -1, err));
    csn_sandbox *copy = fork_of(box, (csn_sandbox_options){ .is_ephemeral = 1, .name = "copy" });
    CHECK_STR(sh(copy, "cat f; id -un")->out, "was\ndaytona\n");
    OK(csn_sandbox_delete(copy, err));
    csn_sandbox_free(copy);
    OK(csn_sandbox_delete(box, err));
}

TEST(a_snapshot_is_an_image)
{
    csn_sandbox *box = an_ephemeral();

    CHECK_STR(ending(sh(box, "echo frozen > f; chmod 4711 f")), "exit 0");
    OK(csn_sandbox_snapshot(box, "snap", err));
    FAILS(csn_sandbox_snapshot(box, "snap", err), CSN_E_EXISTS);
    FAILS(csn_sandbox_snapshot(box, "host", err), CSN_E_INVALID);
    CHECK_STR(ending(sh(box, "echo later > f")), "exit 0");
    csn_sandbox *from = an_ephemeral(.image = "snap");
    CHECK_STR(sh(from, "cat f; test -O f && echo own")->out, "frozen\nown\n");
    FAILS(csn_image_remove(the_engine(), "snap", err), CSN_E_BUSY);
    OK(csn_sandbox_delete(from, err));
    OK(csn_image_remove(the_engine(), "snap", err));
    csn_sandbox_options gone = { .size = sizeof(gone), .image = "snap" };
    csn_sandbox *none = NULL;
    FAILS(csn_sandbox_create(the_engine(), &gone, &none, err), CSN_E_NOT_FOUND);
}

TEST(a_volume_is_shared_and_outlives_its_sandboxes)
{
    OK(csn_volume_create(the_engine(), "data", err));
    csn_mount rw = { .volume = "data", .path = "/data" };
    csn_mount ro = { .volume = "data", .path = "/home/daytona/ro", .is_read_only = 1 };
    csn_mount sub = { .volume = "data", .path = "/sub", .subpath = "a/b" };
    csn_sandbox *a = an_ephemeral(.mounts = &rw, .n_mounts = 1);
    csn_sandbox *b = an_ephemeral(.mounts = &ro, .n_mounts = 1);

    CHECK_STR(ending(sh(a, "echo shared > /data/f")), "exit 0");
    CHECK_STR(sh(b, "cat ro/f; (echo x > ro/g) 2>/dev/null || echo refused")->out, "shared\nrefused\n");
    FAILS(csn_volume_remove(the_engine(), "data", err), CSN_E_BUSY);
    csn_sandbox_options of_part = {
        .size = sizeof(of_part), .mounts = &sub, .n_mounts = 1, .is_ephemeral = 1
    };
    csn_sandbox *c = NULL;
    csn_error why = { 0 };
    if (csn_sandbox_create(the_engine(), &of_part, &c, &why) >= 0) {
        CHECK_STR(ending(sh(c, "echo deep > /sub/h")), "exit 0");
        CHECK_STR(sh(a, "cat /data/a/b/h")->out, "deep\n");
        OK(csn_sandbox_delete(c, err));
    } else { /* of a file system in a file */
        CHECK(strstr(why.message, "no part to mount before Linux 6.15"));
    }
    OK(csn_sandbox_delete(a, err));
    OK(csn_sandbox_delete(b, err));
    csn_sandbox *d = an_ephemeral(.mounts = &rw, .n_mounts = 1);
    CHECK_STR(sh(d, "cat /data/f")->out, "shared\n");
    OK(csn_sandbox_delete(d, err));
    OK(csn_volume_remove(the_engine(), "data", err));
    csn_mount none = { .volume = "none", .path = "/x" };
    csn_sandbox_options o = { .size = sizeof(o), .mounts = &none, .n_mounts = 1, .is_ephemeral = 1 };
    csn_sandbox *e = NULL;
    FAILS(csn_sandbox_create(the_engine(), &o, &e, err), CSN_E_NOT_FOUND);
    CHECK_INT(count_entries("boxes"), 0);
}

TEST(root_inside_is_root_inside_only)
{
    if (is_rootless())
        SKIP("user: needs a range of host ids");
    csn_sandbox *box = an_ephemeral(.user = "root");

    CHECK_STR(sh(box, "id -u; pwd; touch /etc/x && chown daytona /etc/x && stat -c %U /etc/x")->out,
              "0\n/root\ndaytona\n");
    CHECK_STR(run(box, .shell = "id -un", .user = "daytona")->out, "daytona\n");
}

static void note_result(int result, const csn_error *err, void *user)
{
    (void) err;
    *(int *) user = result;
}

TEST(a_copy_under_way_is_given_up_with_the_engine)
{
    csn_sandbox *box = an_ephemeral();
    int result = 1;

    (void) BEGUN(csn_sandbox_snapshot_async(box, "never", note_result, &result, err));
    while (count_entries("layers") < 1)
        OK(csn_engine_dispatch(the_engine(), 100, err));
    close_the_engine();
    CHECK(result <= 0); /* told in any case, once */
    CHECK_INT(count_entries("boxes"), 0);
}
