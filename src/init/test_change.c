/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "csn_test.h"
#include "init/test_file.h"

TEST(directories_are_made_with_their_parents)
{
    box b = a_box();

    CHECK_INT(DO(&b, .verb = CSN_FILE_MKDIR, .path = at(&b, "x//y/./z/"), .mode = 0700).sys_errno,
              0);
    CHECK_INT(mode_of("x/y/z"), 0700);
    CHECK_INT(mode_of("x/y"), 0755);
    CHECK_INT(DO(&b, .verb = CSN_FILE_MKDIR, .path = at(&b, "x/y/z")).sys_errno, 0);
    put_text("file", "");
    CHECK_INT(DO(&b, .verb = CSN_FILE_MKDIR, .path = at(&b, "file")).sys_errno, EEXIST);
    CHECK_INT(DO(&b, .verb = CSN_FILE_MKDIR, .path = "/usr/x/y").sys_errno, EACCES);
    CHECK(symlink("x", "link") == 0);
    CHECK_INT(DO(&b, .verb = CSN_FILE_MKDIR, .path = at(&b, "link/w")).sys_errno, 0);
    CHECK_INT(mode_of("x/w"), 0755);
}

TEST(a_move_puts_it_exactly_there)
{
    box b = a_box();

    put_text("a", "A");
    put_text("b", "B");
    put_dir("d");
    CHECK_INT(DO(&b, .verb = CSN_FILE_MOVE, .path = at(&b, "a"), .arg = at(&b, "b")).sys_errno, 0);
    CHECK_STR(get_text("b"), "A");
    CHECK(access("a", F_OK) < 0);
    CHECK_INT(DO(&b, .verb = CSN_FILE_MOVE, .path = at(&b, "b"), .arg = at(&b, "d")).sys_errno,
              EISDIR);
    CHECK_INT(DO(&b, .verb = CSN_FILE_MOVE, .path = at(&b, "d"), .arg = at(&b, "e/")).sys_errno, 0);
    CHECK_INT(DO(&b, .verb = CSN_FILE_MOVE, .path = at(&b, "e"), .arg = at(&b, "e/f")).sys_errno,
              EINVAL);
    CHECK_INT(DO(&b, .verb = CSN_FILE_MOVE, .path = at(&b, "no"), .arg = at(&b, "x")).sys_errno,
              ENOENT);
    CHECK_INT(DO(&b, .verb = CSN_FILE_MOVE, .path = at(&b, "b"), .arg = at(&b, "no/x")).sys_errno,
              ENOENT);
    CHECK_INT(DO(&b, .verb = CSN_FILE_MOVE, .path = "/", .arg = at(&b, "x")).sys_errno, EINVAL);
}

TEST(a_move_can_spare_what_is_there_and_follow_a_link)
{
    box b = a_box();

    put_text("a", "A");
    put_text("b", "B");
    CHECK(symlink("b", "link") == 0);
    CHECK_INT(DO(&b, .verb = CSN_FILE_MOVE, .path = at(&b, "a"), .arg = at(&b, "b"),
                 .flags = CSN_MOVE_NO_REPLACE)
                  .sys_errno,
              EEXIST);
    CHECK_STR(get_text("b"), "B");
    CHECK_INT(DO(&b, .verb = CSN_FILE_MOVE, .path = at(&b, "a"), .arg = at(&b, "link"),
                 .flags = CSN_MOVE_FOLLOW)
                  .sys_errno,
              0);
    CHECK_STR(get_text("b"), "A");
    CHECK_STR(get_text("link"), "A");
    CHECK_INT(DO(&b, .verb = CSN_FILE_MOVE, .path = at(&b, "b"), .arg = at(&b, "c"),
                 .flags = CSN_MOVE_NO_REPLACE)
                  .sys_errno,
              0);
    CHECK_STR(get_text("c"), "A");
    /* Onto another mount: nothing is copied for nothing. */
    CHECK_INT(DO(&b, .verb = CSN_FILE_MOVE, .path = at(&b, "c"), .arg = "/home/daytona",
                 .flags = CSN_MOVE_NO_REPLACE)
                  .sys_errno,
              EEXIST);
    CHECK_STR(get_text("c"), "A");
}

TEST(a_move_onto_another_mount_copies)
{
    box b = a_box();

    put_dir("tree");
    put_dir("tree/closed");
    put_text("tree/closed/file", "inside");
    CHECK(chmod("tree/closed/file", 0750) == 0 && chmod("tree/closed", 0555) == 0);
    CHECK(symlink("closed/file", "tree/link") == 0);
    put_text("single", "one");
    CHECK_INT(DO(&b, .verb = CSN_FILE_MOVE, .path = at(&b, "single"), .arg = "moved").sys_errno, 0);
    CHECK_INT(DO(&b, .verb = CSN_FILE_MOVE, .path = at(&b, "tree"), .arg = "tree").sys_errno, 0);
    CHECK(access("single", F_OK) < 0 && access("tree", F_OK) < 0);
    CHECK_STR(box_output(&b,
                         (command){ .argv = ARGV("/bin/sh", "-c",
                                                 "cat moved; cat tree/link; stat -c %a tree/closed "
                                                 "tree/closed/file; ls -A | tr '\\n' ' '"),
                                    .cwd = "/home/daytona" },
                         NULL),
              "oneinside555\n750\nmoved tree ");
}

TEST(modes_and_owners_change_by_descriptor)
{
    box b = box_start((box_options){ .as_root = true, .in_memory = true });
    struct stat st;
    csn_filereq req = { .verb = CSN_FILE_CHMOD, .mode = -1, .arg = "daemon", .arg2 = "7" };
    static char buf[CSN_FRAME_MAX];
    csn_file_done done;
    csn_msg msg;

    CHECK(chdir(b.dir) == 0);
    put_text("f", "");
    CHECK_INT(DO(&b, .verb = CSN_FILE_CHMOD, .path = at(&b, "f"), .mode = 0).sys_errno, 0);
    CHECK_INT(mode_of("f"), 0);
    CHECK_INT(DO(&b, .verb = CSN_FILE_CHMOD, .path = at(&b, "f"), .mode = 0600).sys_errno, 0);
    CHECK_INT(mode_of("f"), 0600);
    CHECK_INT(DO(&b, .verb = CSN_FILE_CHMOD, .path = "/etc/passwd", .mode = 0666).sys_errno, EPERM);
    CHECK_INT(
        DO(&b, .verb = CSN_FILE_CHMOD, .path = at(&b, "f"), .arg = "root", .mode = -1).sys_errno,
        EPERM);
    CHECK_INT(DO(&b, .verb = CSN_FILE_CHMOD, .path = at(&b, "f"), .arg = "no-such-user", .mode = -1)
                  .sys_errno,
              ESRCH);
    req.path = at(&b, "f");
    msg = hear_on(box_ask(&b, &req, 0), CSN_SAID_BY_WORKER, buf);
    csn_msg_fixed(&msg, &done, sizeof(done));
    CHECK_INT(done.sys_errno, 0);
    CHECK(stat("f", &st) == 0);
    CHECK_INT(st.st_uid, 1);
    CHECK_INT(st.st_gid, 7);
}

/* --- DELETE ---------------------------------------------------------------------------------------------------------- */

TEST(a_delete_follows_no_link_and_is_recursive_only_when_asked)
{
    box b = a_box();

    put_dir("keep");
    put_text("keep/file", "kept");
    put_dir("d");
    put_dir("d/e");
    put_text("d/e/f", "");
    CHECK(symlink("../keep", "d/link") == 0);
    CHECK_INT(DO(&b, .verb = CSN_FILE_DELETE, .path = at(&b, "d")).sys_errno, ENOTEMPTY);
    CHECK_INT(DO(&b, .verb = CSN_FILE_DELETE, .path = at(&b, "d/link")).sys_errno, 0);
    CHECK(symlink("../keep", "d/link") == 0);
    CHECK_INT(DO(&b, .verb = CSN_FILE_DELETE, .path = at(&b, "d"), .flags = 1).sys_errno, 0);
    CHECK(access("d", F_OK) < 0);
    CHECK_STR(get_text("keep/file"), "kept");
    CHECK_INT(DO(&b, .verb = CSN_FILE_DELETE, .path = at(&b, "keep/file")).sys_errno, 0);
    CHECK_INT(DO(&b, .verb = CSN_FILE_DELETE, .path = at(&b, "keep")).sys_errno, 0);
    CHECK_INT(DO(&b, .verb = CSN_FILE_DELETE, .path = at(&b, "keep")).sys_errno, ENOENT);
    CHECK_INT(DO(&b, .verb = CSN_FILE_DELETE, .path = "/", .flags = 1).sys_errno, EINVAL);
}

TEST(a_delete_can_spare_directories)
{
    box b = a_box();

    put_dir("d");
    put_text("f", "");
    CHECK_INT(DO(&b, .verb = CSN_FILE_DELETE, .path = at(&b, "d"), .flags = CSN_DELETE_NO_DIRECTORY)
                  .sys_errno,
              EISDIR);
    CHECK(access("d", F_OK) == 0);
    CHECK_INT(DO(&b, .verb = CSN_FILE_DELETE, .path = at(&b, "f"), .flags = CSN_DELETE_NO_DIRECTORY)
                  .sys_errno,
              0);
}

TEST(deep_unreadable_and_odd_trees_are_deleted)
{
    box b = a_box();
    int fd = open(b.dir, O_RDONLY | O_DIRECTORY);

    put_dir("odd");
    put_dir("odd/closed");
    put_text("odd/closed/-rf", "");
    put_text("odd/closed/\n", "");
    CHECK(chmod("odd/closed", 0) == 0);
    put_dir("odd/listable");
    CHECK(chmod("odd/listable", 0400) == 0);
    put_dir("odd/read-only");
    put_dir("odd/read-only/sub");
    put_text("odd/read-only/sub/x", "");
    CHECK(chmod("odd/read-only/sub", 0555) == 0 && chmod("odd/read-only", 0555) == 0);
    CHECK_INT(DO(&b, .verb = CSN_FILE_DELETE, .path = at(&b, "odd"), .flags = 1).sys_errno, 0);
    CHECK(access("odd", F_OK) < 0);

    for (int i = 0; i < 4000; i++) {
        CHECK(mkdir("level", 0755) == 0 && chown("level", 1000, 1000) == 0 && chdir("level") == 0);
        if (i % 100 == 0)
            put_text("file", "");
    }
    CHECK(fchdir(fd) == 0);
    CHECK_INT(DO(&b, .verb = CSN_FILE_DELETE, .path = at(&b, "level"), .flags = 1).sys_errno, 0);
    CHECK(access("level", F_OK) < 0);
}

TEST(a_wide_tree_is_deleted)
{
    box b = a_box();
    char name[64];

    put_dir("w");
    for (int i = 0; i < 300; i++) {
        (void) snprintf(name, sizeof(name), "w/%d", i);
        put_dir(name);
        for (int j = 0; j < 10; j++) {
            (void) snprintf(name, sizeof(name), "w/%d/%d", i, j);
            put_text(name, "");
        }
    }
    CHECK_INT(DO(&b, .verb = CSN_FILE_DELETE, .path = at(&b, "w"), .flags = 1).sys_errno, 0);
    CHECK(access("w", F_OK) < 0);
}

TEST(a_delete_enters_no_other_mount)
{
    box b = box_start((box_options){ .as_root = true, .in_memory = true });
    csn_filereq req = { .verb = CSN_FILE_DELETE, .mode = -1, .flags = 1, .path = "/home" };
    static char buf[CSN_FRAME_MAX];
    csn_file_done done;
    csn_msg msg;

    /* /home is a mount of the box; as root nothing but the rule protects it. */
    CHECK_STR(box_output(&b,
                         (command){ .argv = ARGV("/bin/sh", "-c", "echo x > /home/daytona/file"),
                                    .flags = CSN_SPAWN_ROOT },
                         NULL),
              "");
    msg = hear_on(box_ask(&b, &req, 0), CSN_SAID_BY_WORKER, buf);
    csn_msg_fixed(&msg, &done, sizeof(done));
    CHECK_INT(done.sys_errno, EBUSY);
    CHECK_STR(box_output(&b, (command){ .argv = ARGV("/bin/cat", "/home/daytona/file") }, NULL),
              "x\n");
}
