/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "csn_test.h"
#include "init/test_file.h"

TEST(stat_tells_all_and_follows_only_when_asked)
{
    box b = a_box();
    const results *r;

    put_text("file", "12345");
    CHECK(chmod("file", 0640) == 0);
    CHECK(symlink("file", "link") == 0 && symlink("gone", "dangling") == 0);
    r = COLLECT(&b, .verb = CSN_FILE_STAT, .path = at(&b, "link"));
    CHECK_INT(r->n, 1);
    CHECK_INT(r->entry[0].kind, CSN_FILE_SYMLINK);
    CHECK_STR(r->target[0], "file");
    r = COLLECT(&b, .verb = CSN_FILE_STAT, .path = at(&b, "link"), .flags = 1);
    CHECK_INT(r->entry[0].kind, CSN_FILE_REGULAR);
    CHECK_INT(r->entry[0].size_bytes, 5);
    CHECK_INT(r->entry[0].mode, 0640);
    CHECK_INT(r->entry[0].uid, 1000);
    CHECK(r->entry[0].mtime_ns > 1600000000000000000);
    CHECK_STR(r->target[0], "");
    CHECK_INT(DO(&b, .verb = CSN_FILE_STAT, .path = at(&b, "dangling"), .flags = 1).sys_errno,
              ENOENT);
    r = COLLECT(&b, .verb = CSN_FILE_STAT, .path = "/etc/passwd");
    CHECK_STR(r->owner[0], "root");
    CHECK_STR(r->group[0], "root");
    r = COLLECT(&b, .verb = CSN_FILE_STAT, .path = "/dev/null");
    CHECK_INT(r->entry[0].kind, CSN_FILE_DEVICE);
}

TEST(a_listing_has_every_entry_once)
{
    box b = a_box();
    const results *r;

    put_dir("d");
    put_text("d/a", "1");
    put_text("d/.hidden", "");
    put_text("d/new\nline", "");
    put_text("d/\xff\xfe", "");
    CHECK(symlink("/etc", "d/link") == 0);
    CHECK(mkfifo("d/fifo", 0644) == 0);
    put_dir("d/sub");
    r = COLLECT(&b, .verb = CSN_FILE_LIST, .path = at(&b, "d"));
    CHECK_INT(r->n, 7);
    CHECK_INT(r->is_cut, 0);
    CHECK_INT(r->entry[index_of(r, "fifo")].kind, CSN_FILE_FIFO);
    CHECK_INT(r->entry[index_of(r, "sub")].kind, CSN_FILE_DIRECTORY);
    CHECK_STR(r->target[index_of(r, "link")], "/etc");
    index_of(r, "new\nline");
    index_of(r, "\xff\xfe");
    r = COLLECT(&b, .verb = CSN_FILE_LIST, .path = at(&b, "d"), .max_results = 3);
    CHECK_INT(r->n, 3);
    CHECK_INT(r->is_cut, 1);
    CHECK_INT(r->error, 0);
    CHECK_INT(COLLECT(&b, .verb = CSN_FILE_LIST, .path = at(&b, "d"), .max_results = 7)->is_cut, 0);
    CHECK_INT(DO(&b, .verb = CSN_FILE_LIST, .path = at(&b, "d/a")).sys_errno, ENOTDIR);
}

TEST(a_listing_goes_as_deep_as_asked_and_tells_links_as_their_targets)
{
    box b = a_box();
    const results *r;

    put_dir("d");
    put_dir("d/sub");
    put_dir("d/sub/deep");
    put_text("d/sub/deep/file", "12345");
    CHECK(symlink("sub", "d/link") == 0 && symlink("nowhere", "d/dangling") == 0);
    CHECK(symlink("sub/deep/file", "d/tofile") == 0 && symlink("loop", "d/loop") == 0);
    r = COLLECT(&b, .verb = CSN_FILE_LIST, .path = at(&b, "d"), .flags = CSN_LIST_FOLLOW);
    CHECK_INT(r->n, 3);
    CHECK_INT(r->entry[index_of(r, "link")].kind, CSN_FILE_DIRECTORY);
    CHECK_INT(r->entry[index_of(r, "tofile")].size_bytes, 5);
    r = COLLECT(&b, .verb = CSN_FILE_LIST, .path = at(&b, "d/"), .flags = CSN_LIST_FOLLOW,
                .mode = 2);
    CHECK_INT(r->n, 4);
    index_of(r, "sub/deep");
    r = COLLECT(&b, .verb = CSN_FILE_LIST, .path = at(&b, "d"), .mode = 4095);
    CHECK_INT(r->n, 7);
    CHECK_INT(r->entry[index_of(r, "sub/deep/file")].kind, CSN_FILE_REGULAR);
    r = COLLECT(&b, .verb = CSN_FILE_LIST, .path = at(&b, "d"), .mode = 3, .max_results = 2);
    CHECK_INT(r->n, 2);
    CHECK_INT(r->is_cut, 1);
}

TEST(a_large_listing_is_streamed)
{
    box b = a_box();
    char name[32];

    put_dir("d");
    for (int i = 0; i < 5000; i++) {
        (void) snprintf(name, sizeof(name), "d/file-number-%d", i);
        put_text(name, "");
    }
    CHECK_INT(COLLECT(&b, .verb = CSN_FILE_LIST, .path = at(&b, "d"))->n, 5000);
}
