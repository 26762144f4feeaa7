/* Ephemeral sandboxes where a tmpfs can't be an upper layer (before Linux 6.6): their files lie on the disk, and go with them. */
#include <stdlib.h>

#include "story.h"

static csn_sandbox *on_old_kernel(csn_sandbox_options o)
{
    CHECK(setenv("CSN_NO_TMPFS_XATTRS", "1", 1) == 0); /* before the engine looks */
    o.size = sizeof(o);
    o.is_ephemeral = 1;
    return make_sandbox(o);
}
#define an_old_one(...) on_old_kernel((csn_sandbox_options){ __VA_ARGS__ })

static csn_disk_rung disk_rung(csn_sandbox *box)
{
    csn_receipt receipt;

    OK(csn_sandbox_receipt(box, &receipt, err));
    return receipt.disk_rung;
}

TEST(directories_of_the_image_can_be_removed_and_nothing_stays)
{
    csn_sandbox *box = an_old_one(.name = NULL);

    CHECK_INT(disk_rung(box), CSN_DISK_WATCH);
    CHECK_STR(ending(sh(box, "mkdir d && echo x > d/f")), "exit 0");
    OK(csn_sandbox_snapshot(box, "with-d", err));
    OK(csn_sandbox_delete(box, err));
    box = an_old_one(.image = "with-d");
    CHECK_STR(sh(box, "cat d/f; rm -rf d && mkdir d && ls -A d | wc -l")->out, "x\n0\n");
    CHECK_INT(count_entries("boxes"), 1);
    OK(csn_sandbox_delete(box, err));
    CHECK_INT(count_entries("boxes"), 0);
}

TEST(a_disk_filler_meets_a_full_disk)
{
    csn_sandbox *box = an_old_one(.disk_bytes = 8 << 20);

    CHECK_STR(ending(sh(box, "head -c 100000000 /dev/zero > big")), "disk-full");
    CHECK_STR(ending(sh(box, "rm big")), "exit 0");
    CHECK_STR(ending(sh(box, "for i in $(seq 1000); do head -c 1000000 /dev/zero > $i; done")), "disk-full");
}

TEST(a_strict_limit_is_held_by_the_kernel)
{
    csn_sandbox *box = an_old_one(.disk_bytes = 64 << 20, .strict = CSN_LIMIT_DISK);

    CHECK_INT(disk_rung(box), is_rootless() ? CSN_DISK_TMPFS : CSN_DISK_LOOP);
    CHECK_STR(ending(sh(box, "head -c 100000000 /dev/zero > big")), "disk-full");
}
