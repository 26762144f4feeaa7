/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "csn_test.h"
#include "init/test_file.h"

TEST(a_client_that_left_stops_the_work)
{
    box b = a_box();
    csn_filereq req = { .verb = CSN_FILE_SEARCH, .mode = -1, .path = "/usr", .arg = "e" };
    static char buf[CSN_FRAME_MAX];
    int sock = box_ask(&b, &req, 1000);

    hear_on(sock, CSN_SAID_BY_WORKER, buf);
    CHECK_INT(count_processes(&b), 2);
    close(sock);
    wait_for_processes(&b, 1);
}

TEST(a_malformed_request_is_answered)
{
    box b = a_box();

    CHECK_INT(DO(&b, .verb = 55, .path = "/").sys_errno, EBADMSG);
    CHECK_INT(DO(&b, .verb = CSN_FILE_STAT, .path = "").sys_errno, EBADMSG);
    CHECK_INT(DO(&b, .verb = CSN_FILE_SEARCH, .path = "/", .arg = "").sys_errno, EBADMSG);
}

/* CVE-2018-15664's idea: a directory that is a symlink every other moment. Inside it can only hurt the sandbox itself; the
 * worker must not crash, hang or leave temporary files. */
TEST(a_directory_that_flips_to_a_link_does_no_harm)
{
    box b = a_box();
    int status;

    put_dir("real");
    put_text("real/f", "text text");
    CHECK(symlink("/etc", "other") == 0);
    box_spawn(&b,
              (command){
                  .argv = ARGV("/bin/sh", "-c",
                               "ln -s real flip; while :; do ln -sfn /etc flip; ln -sfn real flip; "
                               "done"),
                  .env = ARGV("PATH=/usr/bin:/bin"),
                  .cwd = b.dir,
                  .process = 1 });
    box_hear_started(&b, NULL);
    for (int i = 0; i < 100; i++) {
        (void) DO(&b, .verb = CSN_FILE_REPLACE, .path = at(&b, "flip/f"), .arg = "text",
                  .arg2 = "text");
        (void) DO(&b, .verb = CSN_FILE_LIST, .path = at(&b, "flip"));
        status =
            DO(&b, .verb = CSN_FILE_DELETE, .path = at(&b, "flip/passwd"), .flags = 1).sys_errno;
        CHECK(status == ENOENT || status == EACCES);
        (void) DO(&b, .verb = CSN_FILE_MKDIR, .path = at(&b, "flip/new"));
        (void) DO(&b, .verb = CSN_FILE_DELETE, .path = at(&b, "flip/new"), .flags = 1);
    }
    box_kill(&b, 1, 9, true);
    box_hear_exited(&b);
    CHECK_STR(get_text("real/f"), "text text");
    CHECK(access("/etc/passwd", R_OK) == 0);
}
