/* caisson-unpack as a whole, walls and all: what becomes of honest archives, and of the program itself. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/time.h"
#include "owner.h"
#include "unpack/confine.h"
#include "unpack/test_program.h"

static void check_tree(const outcome *o)
{
    struct stat a, b;

    CHECK_STR(o->message, "");
    CHECK_INT(o->result, CSN_OK);
    CHECK_INT(o->n_layers, 1);
    CHECK_STR(text_of(in_layer(o, 0, "usr/bin/su")), "program");
    CHECK_STR(text_of(in_layer(o, 0, "etc/deep/file")), "text");
    CHECK_INT(mode_of(in_layer(o, 0, "usr/bin/su")), S_IFREG | 0755);
    CHECK_INT(mode_of(in_layer(o, 0, "usr/bin")), S_IFDIR | 02775);
    CHECK_STR(link_of(in_layer(o, 0, "bin")), "usr/bin");
    CHECK_STR(link_of(in_layer(o, 0, "out")), "/etc/passwd");
    CHECK(stat(in_layer(o, 0, "usr/bin/su"), &a) == 0);
    CHECK(stat(in_layer(o, 0, "usr/bin/also"), &b) == 0);
    CHECK(a.st_ino == b.st_ino);
    CHECK_INT(a.st_mtim.tv_sec, 1000000000);
    CHECK(stat(in_layer(o, 0, "etc/deep/file"), &a) == 0);
    CHECK_INT(a.st_uid, owner_for(1000));
    CHECK_INT(a.st_gid, group_for(65534));
}

TEST(a_tar_becomes_a_layer_plain_and_packed)
{
    outcome o;

    make_tree_tar(at("t.tar"));
    o = unpack(at("t.tar"));
    check_tree(&o);
    CHECK_STR(o.source, "tar");
    CHECK_INT(mode_of(in_layer(&o, 0, "")), S_IFDIR | 0711);
    RUN("gzip", "-kf", at("t.tar"));
    o = unpack(at("t.tar.gz"));
    check_tree(&o);
    RUN("xz", "-kf", at("t.tar"));
    o = unpack(at("t.tar.xz"));
    check_tree(&o);
    RUN("zstd", "-qf", at("t.tar"), "-o", at("t.tar.zst"));
    o = unpack(at("t.tar.zst"));
    check_tree(&o);
}

TEST(a_directory_becomes_a_layer_by_the_same_rules)
{
    outcome o;

    make_tree_tar(at("t.tar"));
    CHECK(mkdir(at("dir"), 0755) == 0);
    RUN("tar", "xf", at("t.tar"), "-C", at("dir"), "--no-same-owner");
    CHECK(mkfifo(at("dir/pipe"), 0644) == 0);
    o = unpack(at("dir"));
    CHECK_INT(o.result, CSN_OK);
    CHECK_STR(o.source, "directory");
    CHECK_STR(text_of(in_layer(&o, 0, "usr/bin/also")), "program");
    CHECK_INT(mode_of(in_layer(&o, 0, "usr/bin/su")) & 06000, 0);
    CHECK_STR(link_of(in_layer(&o, 0, "out")), "/etc/passwd");
    CHECK_INT(mode_of(in_layer(&o, 0, "pipe")), 0);
    CHECK_INT(o.n_skipped, 1);
}

TEST(a_directory_that_holds_the_layers_themselves_ends)
{
    outcome o;

    write_text(at("file"), "text");
    o = unpack(csn_test_dir());
    CHECK_STR(o.message, "");
    CHECK_INT(o.result, CSN_OK);
    CHECK_STR(text_of(in_layer(&o, 0, "file")), "text");
    CHECK_INT(mode_of(in_layer(&o, 0, "out")) & S_IFMT, S_IFDIR);
    CHECK(access(in_layer(&o, 0, "out/root"), F_OK) < 0);
    CHECK_INT(o.n_files, 3); /* file, out, layers */
}

TEST(names_are_bytes)
{
    tar_maker tar;
    outcome o;

    tar_begin(&tar, at("t.tar"));
    TAR_ADD(&tar, .name = "caf\xc3\xa9", .data = "1");
    TAR_ADD(&tar, .name = "latin \xe9", .data = "2");
    TAR_ADD(&tar, .name = "line\nfeed \x1b[0m", .data = "3");
    TAR_ADD(&tar, .name = "after", .data = "4");
    tar_end(&tar);
    o = unpack(at("t.tar"));
    CHECK_INT(o.result, CSN_OK);
    CHECK_STR(text_of(in_layer(&o, 0, "caf\xc3\xa9")), "1");
    CHECK_STR(text_of(in_layer(&o, 0, "latin \xe9")), "2");
    CHECK_STR(text_of(in_layer(&o, 0, "line\nfeed \x1b[0m")), "3");
    CHECK_STR(text_of(in_layer(&o, 0, "after")), "4");
}

TEST(a_later_entry_takes_the_place_of_an_earlier_one)
{
    tar_maker tar;
    outcome o;

    tar_begin(&tar, at("t.tar"));
    TAR_ADD(&tar, .name = "a", .data = "first");
    TAR_ADD(&tar, .name = "a", .data = "second");
    TAR_ADD(&tar, .name = "b", .type = '2', .link = "/etc");
    TAR_ADD(&tar, .name = "b", .data = "a file now");
    TAR_ADD(&tar, .name = "c", .type = '2', .link = "/etc");
    TAR_ADD(&tar, .name = "c", .type = '5', .mode = 0700);
    TAR_ADD(&tar, .name = "c/x", .data = "within");
    tar_end(&tar);
    o = unpack(at("t.tar"));
    CHECK_INT(o.result, CSN_OK);
    CHECK_STR(text_of(in_layer(&o, 0, "a")), "second");
    CHECK_STR(text_of(in_layer(&o, 0, "b")), "a file now");
    CHECK_STR(text_of(in_layer(&o, 0, "c/x")), "within");
}

/* ---- the program itself ---------------------------------------------------------------------------------------- */

static bool status_says(pid_t pid, const char *line)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    char path[64];

    (void) snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
    return csn_read_file(AT_FDCWD, path, &text, 64 << 10) == 0 && strstr(text.data, line);
}

TEST(it_has_walled_itself_in_when_it_reads)
{
    const char *last_wall = CSN_HAS_SANITIZER ? "NoNewPrivs:\t1" : "Seccomp:\t2";
    const char *caps = geteuid() == 0 ? "CapEff:\t000000000000001b" : "CapEff:\t0000000000000000";
    int64_t deadline = csn_deadline_in_ms(20000);
    csn_auto(fd) int fd = -1;
    pid_t pid;

    tar_make_long(at("long.tar"));
    pid = start(at("long.tar"), NULL, &fd);
    while (!status_says(pid, last_wall) && !csn_deadline_passed(deadline))
        (void) poll(NULL, 0, 1); /* a look every ms, until the deadline */
    CHECK(status_says(pid, last_wall));
    CHECK(status_says(pid, "NoNewPrivs:\t1"));
    while (!status_says(pid, caps) && !csn_deadline_passed(deadline))
        (void) poll(NULL, 0, 1); /* the same */
    CHECK(status_says(pid, caps));
    CHECK(kill(pid, SIGKILL) == 0);
    CHECK(waitpid(pid, NULL, 0) == pid);
}

TEST(it_ends_when_nobody_waits_for_it)
{
    int64_t deadline = csn_deadline_in_ms(20000);
    int fd = -1, status = 0;
    pid_t pid, r;

    tar_make_long(at("long.tar"));
    pid = start(at("long.tar"), NULL, &fd);
    close(fd);
    while ((r = waitpid(pid, &status, WNOHANG)) == 0 && !csn_deadline_passed(deadline))
        (void) poll(NULL, 0, 5); /* a look every 5 ms, until the deadline */
    if (r == 0)
        (void) kill(pid, SIGKILL); /* the check below tells */
    CHECK(r == pid);
    CHECK(WIFEXITED(status));
}
