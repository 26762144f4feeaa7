/* State directories on file systems that can't map ids or can't be an upper layer, and roots that are not the machine's.
 * What holds for every sandbox there is told by the other stories, which run in these places, too (CSN_STORY_ON,
 * CSN_STORY_AS); here is what only these places have. */
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "story.h"

static bool is_on(const char *on)
{
    const char *is = getenv("CSN_STORY_ON");

    return is && (!on || strcmp(is, on) == 0);
}

static bool is_as(const char *as)
{
    const char *is = getenv("CSN_STORY_AS");

    return is && strcmp(is, as) == 0;
}

static const char *what_it_says(csn_sandbox_options o)
{
    static csn_error why;
    csn_sandbox *box = NULL;

    why = (csn_error){ 0 };
    if (csn_sandbox_create(the_engine(), &o, &box, &why) == CSN_OK) {
        (void) csn_sandbox_delete(box, NULL); /* the test fails anyway */
        csn_sandbox_free(box);
        return "created";
    }
    return why.message;
}

static void make_volume(const char *name)
{
    OK(csn_volume_create(the_engine(), name, err));
}

static void drop_volume(const char *name)
{
    OK(csn_volume_remove(the_engine(), name, err));
}

TEST(the_home_and_what_is_made_in_it_are_the_users)
{
    csn_sandbox *box = an_ephemeral();

    CHECK_STR(
        sh(box, "stat -c '%u %g' ~ ~/.profile; echo mine >> ~/.profile && tail -1 ~/.profile")->out,
        "1000 1000\n1000 1000\nmine\n");
    CHECK_STR(sh(box, "mkdir d && echo x > d/f && mv d e && cat e/f && rm -r e && ls")->out, "x\n");
    CHECK_INT(sh(box, "true")->receipt.shares_host_uid, is_rootless());
}

TEST(one_that_stays_keeps_its_files_or_is_refused_by_name)
{
    csn_sandbox_options o = { .size = sizeof(o) };
    csn_sandbox *box, *copy;

    the_state();
    if (is_on(NULL) && is_rootless()) {
        const char *says = what_it_says(o);
        if (!strstr(says, getenv("CSN_STORY_ON")) || !strstr(says, "CAISSON_STATE") ||
            !strstr(says, the_state()))
            FAIL("it says: %s", says);
        CHECK_INT(count_entries("boxes"), 0);
        return;
    }
    box = a_sandbox();
    CHECK_STR(ending(sh(box, "echo kept > f; rm .profile")), "exit 0");
    CHECK_INT(sh(box, "true")->receipt.disk_rung, is_on(NULL) ? CSN_DISK_LOOP : CSN_DISK_WATCH);
    OK(csn_sandbox_stop(box, 0, err));
    OK(csn_sandbox_snapshot(box, "shot", err));
    OK(csn_sandbox_start(box, err));
    CHECK_STR(sh(box, "cat f; ls -A | tr '\\n' ' '")->out, "kept\n.bashrc f ");
    copy = an_ephemeral(.image = "shot");
    CHECK_STR(sh(copy, "cat f; ls -A | tr '\\n' ' '; stat -c %u f")->out, "kept\n.bashrc f 1000\n");
    OK(csn_sandbox_delete(copy, err));
    OK(csn_sandbox_delete(box, err));
    CHECK_INT(count_entries("boxes"), 0);
}

TEST(a_limit_on_its_disk_holds_there)
{
    csn_sandbox *box;

    if (!is_on(NULL) || is_rootless())
        SKIP("build: only where disks are images");
    box = a_sandbox(.disk_bytes = 32 << 20);
    CHECK_STR(sh(box, "head -c 64m /dev/zero > big 2> /dev/null; test $? -ne 0 && echo full")->out,
              "full\n");
    OK(csn_sandbox_delete(box, err));
    box = a_sandbox(.disk_bytes = 8 << 20); /* less than an image can be */
    CHECK_STR(ending(sh(box, "head -c 64m /dev/zero > big")), "disk-full");
    OK(csn_sandbox_delete(box, err));
}

TEST(a_volume_is_the_users_and_shared_while_both_run)
{
    const csn_mount whole = { .volume = "v", .path = "/data" };
    csn_sandbox *a, *b;

    make_volume("v");
    a = an_ephemeral(.mounts = &whole, .n_mounts = 1);
    b = an_ephemeral(.mounts = &whole, .n_mounts = 1);
    CHECK_STR(sh(a, "stat -c '%u %g' /data; ls -A /data; echo from a > /data/f")->out,
              "1000 1000\n");
    CHECK_STR(sh(b, "cat /data/f; echo from b >> /data/f")->out, "from a\n");
    CHECK_STR(sh(a, "tail -1 /data/f; stat -c %u /data/f")->out, "from b\n1000\n");
    OK(csn_sandbox_delete(a, err));
    OK(csn_sandbox_delete(b, err));
    CHECK_STR(sh(an_ephemeral(.mounts = &whole, .n_mounts = 1), "cat /data/f")->out,
              "from a\nfrom b\n");
    close_the_engine();
    drop_volume("v");
    CHECK_INT(count_entries("volumes"), 0);
}

TEST(a_directory_in_a_volume_is_made_for_the_user)
{
    const csn_mount part = { .volume = "v", .path = "/part", .subpath = "deep/er" };
    csn_sandbox_options o = {
        .size = sizeof(o), .is_ephemeral = 1, .mounts = &part, .n_mounts = 1
    };
    csn_sandbox *box = NULL;
    csn_error err = { 0 };

    make_volume("v");
    if (csn_sandbox_create(the_engine(), &o, &box, &err) < 0) {
        CHECK(is_on(NULL) && strstr(err.message, "CAISSON_STATE"));
        SKIP("kernel: before 6.15 a part of an image can't be mounted");
    }
    CHECK_STR(sh(box, "stat -c %u /part; touch /part/f && ls /part")->out, "1000\nf\n");
    csn_sandbox_free(box);
    close_the_engine();
    drop_volume("v");
}

static int count_loops(void)
{
    struct loop_info64 info;
    struct stat st;
    char path[32];
    int n = 0;

    CHECK(stat(the_state(), &st) == 0);
    for (int i = 0; i < 64; i++) {
        (void) snprintf(path, sizeof(path), "/dev/loop%d", i);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        n += fd >= 0 && ioctl(fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == st.st_dev;
        if (fd >= 0)
            close(fd);
    }
    return n;
}

static bool no_loops(void *user)
{
    (void) user;
    return count_loops() == 0;
}

TEST(its_loop_devices_go_with_it)
{
    const csn_mount whole = { .volume = "v", .path = "/data" };
    csn_sandbox *box;

    if (!is_on(NULL) || is_rootless())
        SKIP("build: only where disks are images");
    make_volume("v");
    box = a_sandbox(.mounts = &whole, .n_mounts = 1);
    CHECK_INT(count_loops(), 2);
    OK(csn_sandbox_delete(box, err));
    CHECK(until(no_loops, NULL));
    drop_volume("v");
}

TEST(a_layer_that_is_too_large_to_copy_is_named)
{
    csn_sandbox *box;
    const char *says;

    if (!is_on(NULL) || is_rootless())
        SKIP("build: only where layers are copied");
    box = a_sandbox();
    CHECK_STR(ending(sh(box, "head -c 70m /dev/urandom > big")), "exit 0");
    OK(csn_sandbox_snapshot(box, "large", err));
    OK(csn_sandbox_delete(box, err));
    says = what_it_says((csn_sandbox_options){
        .size = sizeof(csn_sandbox_options), .image = "large", .is_ephemeral = 1 });
    if (!strstr(says, getenv("CSN_STORY_ON")) || !strstr(says, "64 MiB") ||
        !strstr(says, "CAISSON_STATE"))
        FAIL("it says: %s", says);
}

static int uid_of(int pid)
{
    char path[64], line[128];
    int uid = -1;

    (void) snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *f = fopen(path, "r");
    while (f && uid < 0 && fgets(line, sizeof(line), f))
        if (strncmp(line, "Uid:", 4) == 0)
            uid = (int) strtol(line + 4, NULL, 10);
    if (f)
        fclose(f);
    return uid;
}

TEST(the_sandboxes_of_a_lesser_root_have_an_id_that_is_not_root)
{
    csn_sandbox_info info = { 0 };
    csn_sandbox *box;

    the_state();
    if (!is_as("container") && !is_as("docker"))
        SKIP("build: only for a root that is not the machine's");
    box = an_ephemeral();
    OK(csn_sandbox_inspect(box, &info, err));
    CHECK_INT(uid_of(info.init_pid), 65530);
    CHECK_STR(sh(box, "tr -s ' ' < /proc/self/uid_map; id -G")->out, " 1000 65530 1\n1000\n");
}
