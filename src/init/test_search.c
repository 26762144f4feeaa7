/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "csn_test.h"
#include "init/test_file.h"

TEST(find_matches_the_last_component)
{
    box b = a_box();
    const results *r;

    put_dir("t");
    put_dir("t/src");
    put_dir("t/src/deep");
    put_text("t/one.c", "");
    put_text("t/src/two.c", "");
    put_text("t/src/deep/three.c", "");
    put_text("t/src/deep/three.h", "");
    CHECK(symlink("src", "t/loop.c") == 0);
    r = COLLECT(&b, .verb = CSN_FILE_FIND, .path = at(&b, "t"), .arg = "*.c");
    CHECK_INT(r->n, 4);
    CHECK_INT(r->entry[index_of(r, at(&b, "t/src/deep/three.c"))].kind, CSN_FILE_REGULAR);
    CHECK_INT(r->entry[index_of(r, at(&b, "t/loop.c"))].kind, CSN_FILE_SYMLINK);
    r = COLLECT(&b, .verb = CSN_FILE_FIND, .path = at(&b, "t/"), .arg = "d??[a-p]");
    CHECK_INT(r->n, 1);
    CHECK_STR(r->path[0], at(&b, "t/src/deep"));
    r = COLLECT(&b, .verb = CSN_FILE_FIND, .path = at(&b, "t"), .arg = "*", .max_results = 2);
    CHECK_INT(r->n, 2);
    CHECK_INT(r->is_cut, 1);
    CHECK_INT(DO(&b, .verb = CSN_FILE_FIND, .path = at(&b, "t/one.c"), .arg = "*").sys_errno,
              ENOTDIR);
}

TEST(a_walk_goes_deep_and_wide_and_sees_each_entry_once)
{
    box b = a_box();
    char name[64];
    int fd = open(b.dir, O_RDONLY | O_DIRECTORY);

    put_dir("w");
    for (int i = 0; i < 500; i++) {
        (void) snprintf(name, sizeof(name), "w/directory-%d", i);
        put_dir(name);
        (void) snprintf(name, sizeof(name), "w/directory-%d/f", i);
        put_text(name, "");
    }
    CHECK_INT(COLLECT(&b, .verb = CSN_FILE_FIND, .path = at(&b, "w"), .arg = "*")->n, 1000);
    for (int i = 0; i < 3000; i++)
        CHECK(mkdir("dd", 0755) == 0 && chown("dd", 1000, 1000) == 0 && chdir("dd") == 0);
    put_text("bottom", "");
    CHECK(fchdir(fd) == 0);
    CHECK_INT(COLLECT(&b, .verb = CSN_FILE_FIND, .path = at(&b, "dd"), .arg = "bottom")->n, 1);
}

TEST(search_tells_lines_and_passes_binaries_over)
{
    box b = a_box();
    const results *r;

    put_dir("t");
    put_text("t/a", "first\nneedle here\r\nlast needle needle");
    put_text("t/b", "nothing\n");
    put("t/bin", "needle\0", 7);
    put_text("t/closed", "needle\n");
    CHECK(chmod("t/closed", 0) == 0);
    CHECK(symlink("a", "t/link") == 0 && mkfifo("t/fifo", 0666) == 0);
    r = COLLECT(&b, .verb = CSN_FILE_SEARCH, .path = at(&b, "t"), .arg = "needle");
    CHECK_INT(r->n, 2);
    CHECK_INT(r->error, 0);
    CHECK_INT(r->line[0], 2);
    CHECK_STR(r->text[0], "needle here");
    CHECK_INT(r->line[1], 3);
    CHECK_STR(r->text[1], "last needle needle");
    CHECK_STR(r->path[1], at(&b, "t/a"));
    r = COLLECT(&b, .verb = CSN_FILE_SEARCH, .path = at(&b, "t/a"), .arg = "e", .max_results = 1);
    CHECK_INT(r->n, 1);
    CHECK_INT(r->is_cut, 1);
    CHECK_INT(COLLECT(&b, .verb = CSN_FILE_SEARCH, .path = at(&b, "t/fifo"), .arg = "e")->error,
              ENXIO);
}

/* The bytes of the word, without an end. */
static void place(char *where, const char *word)
{
    while (*word)
        *where++ = *word++;
}

/* Lines of all lengths around the reader's buffer, a match at every kind of border. */
TEST(search_finds_matches_across_buffer_borders_and_in_endless_lines)
{
    box b = a_box();
    enum { SIZE = 1 << 20, PIECE = 256 * 1024 };
    char *data = malloc(SIZE);
    static const int places[] = { 0,         100,   PIECE - 6,     PIECE - 3,
                                  PIECE - 1, PIECE, 2 * PIECE - 3, SIZE - 6 };

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const results *r;
        memset(data, 'x', SIZE); /* one line, no end */
        place(data + places[i], "needle");
        put("f", data, SIZE);
        r = COLLECT(&b, .verb = CSN_FILE_SEARCH, .path = at(&b, "f"), .arg = "needle");
        CHECK_INT(r->n, 1);
        CHECK_INT(r->line[0], 1);
        CHECK_INT(r->text_len[0], 4096);
        for (size_t j = 99; j < SIZE; j += 100) /* lines of 100 */
            data[j] = '\n';
        place(data + places[i], "needle");
        put("f", data, SIZE);
        r = COLLECT(&b, .verb = CSN_FILE_SEARCH, .path = at(&b, "f"), .arg = "needle");
        CHECK_INT(r->n, 1);
        /* a needle over a line end joins two lines */
        CHECK_INT(r->line[0], places[i] / 100 + 1);
    }
    memset(data, 'x', SIZE);
    data[300000] = data[600000] = '\n'; /* three long lines, the second and third match */
    place(data + 599990, "needle");
    place(data + 600001, "needle");
    put("f", data, SIZE);
    {
        const results *r =
            COLLECT(&b, .verb = CSN_FILE_SEARCH, .path = at(&b, "f"), .arg = "needle");
        CHECK_INT(r->n, 2);
        CHECK_INT(r->line[0], 2);
        CHECK_INT(r->line[1], 3);
        CHECK(memcmp(r->text[1], "needlexxx", 9) == 0);
    }
    free(data);
}

TEST(replace_changes_every_match_and_keeps_the_mode)
{
    box b = a_box();
    csn_file_done done;

    put_text("f", "aaa bbb aaa");
    CHECK(chmod("f", 0751) == 0);
    done = DO(&b, .verb = CSN_FILE_REPLACE, .path = at(&b, "f"), .arg = "aaa", .arg2 = "c");
    CHECK_INT(done.sys_errno, 0);
    CHECK_INT(done.value, 2);
    CHECK_STR(get_text("f"), "c bbb c");
    CHECK_INT(mode_of("f"), 0751);
    done = DO(&b, .verb = CSN_FILE_REPLACE, .path = at(&b, "f"), .arg = "zzz", .arg2 = "c");
    CHECK_INT(done.value, 0);
    done = DO(&b, .verb = CSN_FILE_REPLACE, .path = at(&b, "f"), .arg = "c", .arg2 = "");
    CHECK_INT(done.value, 2);
    CHECK_STR(get_text("f"), " bbb ");
    CHECK(symlink("f", "link") == 0);
    done = DO(&b, .verb = CSN_FILE_REPLACE, .path = at(&b, "link"), .arg = "bbb", .arg2 = "d");
    CHECK_INT(done.value, 1);
    CHECK_STR(get_text("f"), " d ");
    CHECK(readlink("link", (char[8]){ 0 }, 8) == 1); /* still a link */
    CHECK(chmod("f", 0444) == 0);
    CHECK_INT(
        DO(&b, .verb = CSN_FILE_REPLACE, .path = at(&b, "f"), .arg = "d", .arg2 = "e").sys_errno,
        EACCES);
    put_dir("d");
    CHECK_INT(
        DO(&b, .verb = CSN_FILE_REPLACE, .path = at(&b, "d"), .arg = "d", .arg2 = "e").sys_errno,
        EISDIR);
    CHECK_INT(COLLECT(&b, .verb = CSN_FILE_LIST, .path = b.dir)->n,
              3); /* no temporary file stays */
}

TEST(replace_finds_matches_across_buffer_borders)
{
    box b = a_box();
    enum { SIZE = 700000, PIECE = 256 * 1024 };
    char *data = malloc(SIZE), *got = malloc(SIZE);
    int fd;

    for (int shift = 0; shift < 8; shift++) {
        int n = 0;
        memset(data, '.', SIZE);
        for (size_t i = (size_t) shift; i + 7 < SIZE; i += 7) {
            place(data + i, "match");
            n++;
        }
        put("f", data, SIZE);
        CHECK_INT(
            DO(&b, .verb = CSN_FILE_REPLACE, .path = at(&b, "f"), .arg = "match", .arg2 = "MATCH")
                .value,
            n);
        fd = open("f", O_RDONLY);
        CHECK(read(fd, got, SIZE) == SIZE);
        close(fd);
        for (size_t i = 0; i < SIZE; i++)
            if (data[i] != '.')
                data[i] = (char) (data[i] - 32);
        CHECK(memcmp(data, got, SIZE) == 0);
    }
    free(data);
    free(got);
}
