/* caisson-unpack against archives that mean harm. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "unpack/test_program.h"

static outcome unpack_entries(const tar_entry *entries, size_t n, const char *option)
{
    tar_maker tar;

    tar_begin(&tar, at("evil.tar"));
    for (size_t i = 0; i < n; i++)
        tar_add(&tar, &entries[i]);
    tar_end(&tar);
    return unpack_with(at("evil.tar"), option);
}

#define UNPACK_ENTRIES(option, ...) \
    unpack_entries((const tar_entry[]){ __VA_ARGS__ }, \
                   sizeof((const tar_entry[]){ __VA_ARGS__ }) / sizeof(tar_entry), option)

static void check_nothing_outside(void)
{
    CHECK(access(at("evil"), F_OK) < 0);
    CHECK(access(at("out/evil"), F_OK) < 0);
    CHECK_STR(text_of(at("precious")), "precious");
}

TEST(an_entry_with_a_way_up_is_refused)
{
    static const char *const names[] = { "../evil", "a/../../evil", "..", "a/..", "./../evil" };

    write_text(at("precious"), "precious");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        outcome o = UNPACK_ENTRIES(NULL, { .name = "ok", .data = "1" },
                                   { .name = names[i], .data = "evil" });
        CHECK_INT(o.result, CSN_E_INVALID);
        check_nothing_outside();
    }
}

TEST(an_absolute_name_is_refused)
{
    outcome o = UNPACK_ENTRIES(NULL, { .name = "/evil", .data = "evil" });

    CHECK_INT(o.result, CSN_E_INVALID);
    CHECK(access("/evil", F_OK) < 0);
}

TEST(nothing_is_written_through_a_link)
{
    outcome o;

    write_text(at("precious"), "precious");
    o = UNPACK_ENTRIES(NULL, { .name = "l", .type = '2', .link = "../.." },
                       { .name = "l/evil", .data = "evil" });
    CHECK_INT(o.result, CSN_E_INVALID);
    check_nothing_outside();
    o = UNPACK_ENTRIES(NULL, { .name = "d", .type = '5' },
                       { .name = "d/l", .type = '2', .link = "." },
                       { .name = "d/l/x/evil", .data = "evil" });
    CHECK_INT(o.result, CSN_E_INVALID);
    o = UNPACK_ENTRIES(NULL, { .name = "l", .type = '2', .link = "/" },
                       { .name = "l/evil", .type = '5' });
    CHECK_INT(o.result, CSN_E_INVALID);
    o = UNPACK_ENTRIES(NULL, { .name = "l", .type = '2', .link = "/tmp" },
                       { .name = "l/evil", .type = '2', .link = "x" });
    CHECK_INT(o.result, CSN_E_INVALID);
    check_nothing_outside();
}

TEST(a_file_that_replaces_a_link_does_not_follow_it)
{
    char target[512];
    outcome o;

    write_text(at("precious"), "precious");
    (void) snprintf(target, sizeof(target), "%s", at("precious"));
    if (strlen(target) > 99)
        SKIP("the path of the test directory is too long for ustar");
    o = UNPACK_ENTRIES(NULL, { .name = "l", .type = '2', .link = target },
                       { .name = "l", .data = "evil", .mode = 0777 });
    CHECK_INT(o.result, CSN_OK);
    check_nothing_outside();
    CHECK_INT(mode_of(at("precious")) & 0111, 0);
}

TEST(a_hard_link_stays_within_the_tree)
{
    static const char *const targets[] = { "../../precious", "/etc/passwd", "l/passwd", "missing" };

    write_text(at("precious"), "precious");
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        outcome o = UNPACK_ENTRIES(NULL, { .name = "l", .type = '2', .link = "/etc" },
                                   { .name = "h", .type = '1', .link = targets[i] });
        CHECK(o.result < 0);
    }
}

TEST(a_hard_link_to_a_link_does_not_open_it)
{
    outcome o = UNPACK_ENTRIES(NULL, { .name = "l", .type = '2', .link = "/etc/passwd" },
                               { .name = "h", .type = '1', .link = "l" });

    CHECK_INT(o.result, CSN_OK);
    CHECK_STR(link_of(in_layer(&o, 0, "h")), "/etc/passwd");
}

TEST(devices_and_pipes_are_left_out)
{
    outcome o = UNPACK_ENTRIES(NULL, { .name = "dev/null", .type = '3' },
                               { .name = "p", .type = '6' }, { .name = "file", .data = "1" });

    CHECK_INT(o.result, CSN_OK);
    CHECK_INT(o.n_skipped, 2);
    CHECK_INT(mode_of(in_layer(&o, 0, "dev/null")), 0);
    CHECK_INT(mode_of(in_layer(&o, 0, "p")), 0);
    CHECK_STR(text_of(in_layer(&o, 0, "file")), "1");
}

TEST(too_much_is_refused)
{
    char deep[256];
    outcome o;

    o = UNPACK_ENTRIES("--max-bytes=1000", { .name = "a", .size = 600 },
                       { .name = "b", .size = 600 });
    CHECK_INT(o.result, CSN_E_LIMIT);
    CHECK_STR(o.message, "more than 1000 bytes unpacked");
    o = UNPACK_ENTRIES("--max-files=3", { .name = "a/b/c/d", .data = "1" });
    CHECK_INT(o.result, CSN_E_LIMIT);
    CHECK_STR(o.message, "more than 3 files");
    for (size_t i = 0; i < 240; i += 2)
        memcpy(deep + i, "d/", 2);
    deep[240] = 'f';
    deep[241] = '\0';
    o = UNPACK_ENTRIES(NULL, { .name = deep, .data = "1" });
    CHECK_INT(o.result, CSN_E_LIMIT);
}

TEST(a_file_that_says_it_is_huge_is_refused_before_it_is_written)
{
    outcome o = UNPACK_ENTRIES(NULL, { .name = "a", .data = "1", .claims = INT64_C(1) << 50 });

    CHECK_INT(o.result, CSN_E_LIMIT);
}

TEST(a_sparse_terabyte_counts_as_one)
{
    csn_auto(fd) int fd = open(at("sparse"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    outcome o;

    CHECK(fd >= 0);
    CHECK(ftruncate(fd, INT64_C(1) << 40) == 0);
    RUN("tar", "cSf", at("t.tar"), "-C", csn_test_dir(), "sparse");
    o = unpack(at("t.tar"));
    CHECK_INT(o.result, CSN_E_LIMIT);
}

TEST(a_bomb_is_put_out_by_its_ratio)
{
    tar_maker tar;
    outcome o;

    tar_begin(&tar, at("bomb.tar"));
    TAR_ADD(&tar, .name = "zeros", .size = 100 << 20);
    tar_end(&tar);
    RUN("gzip", "-9f", at("bomb.tar"));
    o = unpack(at("bomb.tar.gz"));
    CHECK_INT(o.result, CSN_E_LIMIT);
    CHECK_STR(o.message, "unpacks to more than 250 times its size");
}

TEST(a_bomb_in_an_entry_we_leave_out_is_put_out_too)
{
    tar_maker tar;
    outcome o;

    tar_begin(&tar, at("bomb.tar"));
    TAR_ADD(&tar, .name = "f", .data = "1");
    tar_pax(&tar, "comment", "in pax archives a hard link may have a body");
    TAR_ADD(&tar, .name = "h", .type = '1', .link = "f", .size = 100 << 20);
    tar_end(&tar);
    RUN("gzip", "-9f", at("bomb.tar"));
    o = unpack(at("bomb.tar.gz"));
    CHECK_INT(o.result, CSN_E_LIMIT);
}

TEST(a_broken_archive_is_no_image)
{
    outcome o;

    make_tree_tar(at("t.tar"));
    RUN("gzip", "-kf", at("t.tar"));
    CHECK(truncate(at("t.tar.gz"), 200) == 0);
    CHECK_INT(unpack(at("t.tar.gz")).result, CSN_E_INVALID);
    CHECK(truncate(at("t.tar"), 2000) == 0);
    CHECK_INT(unpack(at("t.tar")).result, CSN_E_INVALID);
    write_text(at("text"), "this is no archive at all, just a text of some length\n");
    CHECK_INT(unpack(at("text")).result, CSN_E_INVALID);
    write_text(at("empty"), "");
    CHECK(unpack(at("empty")).result < 0);
    o = UNPACK_ENTRIES(NULL, { .name = "" });
    CHECK(o.result < 0);
}

TEST(attributes_that_mean_something_to_the_kernel_are_left_out)
{
    char value[16];
    tar_maker tar;
    outcome o;

    tar_begin(&tar, at("t.tar"));
    tar_pax(&tar, "SCHILY.xattr.user.overlay.opaque", "y");
    TAR_ADD(&tar, .name = "d", .type = '5');
    tar_pax(&tar, "SCHILY.xattr.user.overlay.redirect", "/etc");
    TAR_ADD(&tar, .name = "e", .type = '5');
    tar_pax(&tar, "SCHILY.xattr.security.capability", "\x01");
    TAR_ADD(&tar, .name = "f", .data = "1");
    tar_pax(&tar, "SCHILY.xattr.trusted.overlay.metacopy", "y");
    TAR_ADD(&tar, .name = "g", .data = "1");
    tar_pax(&tar, "SCHILY.xattr.user.color", "red");
    TAR_ADD(&tar, .name = "h", .data = "1");
    tar_end(&tar);
    o = unpack(at("t.tar"));
    CHECK_INT(o.result, CSN_OK);
    for (const char *name = "defg"; *name; name++) {
        const char entry[2] = { *name, '\0' };

        CHECK_INT(llistxattr(in_layer(&o, 0, entry), NULL, 0), 0);
    }
    if (setxattr(at("t.tar"), "user.test", "1", 1, 0) == 0)
        CHECK_INT(lgetxattr(in_layer(&o, 0, "h"), "user.color", value, sizeof(value)), 3);
}
