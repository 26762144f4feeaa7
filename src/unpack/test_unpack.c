/* caisson-unpack as a whole, walls and all, against archives that mean harm. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <caisson/error.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/time.h"
#include "csn_test.h"
#include "tar_maker.h"
#include "unpack/confine.h"
#include "unpack/digest.h"

enum { PATH_SIZE = 512 };

static char *at(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A path below this test's directory; a handful live at once. */
static char *at(const char *fmt, ...)
{
    static char paths[16][PATH_SIZE];
    static unsigned next;
    char *path = paths[next++ % 16];
    int n = snprintf(path, PATH_SIZE, "%s/", csn_test_dir());
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(path + n, PATH_SIZE - (size_t) n, fmt, args);
    va_end(args);
    return path;
}

static void write_text(const char *path, const char *text)
{
    csn_auto(fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    CHECK(fd >= 0);
    CHECK_INT(csn_write_all(fd, text, strlen(text)), 0);
}

static const char *text_of(const char *path)
{
    static char text[4096];
    csn_auto(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (n < 0)
        return "(missing)";
    text[n] = '\0';
    return text;
}

static void make_dirs(void)
{
    (void) mkdir(at("out"), 0755); /* there from an earlier run in this test */
    (void) mkdir(at("layers"), 0755);
}

/* Starts it on a source; the reading end of its result pipe and the process. */
static pid_t start(const char *source, const char *option, int *ret_fd)
{
    const char *build = getenv("CSN_BUILD");
    char program[PATH_SIZE];
    int ends[2];
    pid_t pid;

    (void) snprintf(program, sizeof(program), "%s/caisson-unpack", build ? build : ".");
    if (access(program, X_OK) < 0)
        SKIP("'%s' isn't built", program);
    make_dirs();
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int fds[5] = { open(source, O_RDONLY), ends[1], open("/dev/null", O_RDWR),
                       open(at("out"), O_RDONLY), open(at("layers"), O_PATH) };

        for (int i = 0; i < 5; i++)
            fds[i] = fcntl(fds[i], F_DUPFD, 10);
        for (int i = 0; i < 5; i++)
            (void) dup2(fds[i], i); /* a bad one shows in the result */
        execl(program, "caisson-unpack", option, (char *) NULL);
        _exit(127);
    }
    close(ends[1]);
    *ret_fd = ends[0];
    return pid;
}

typedef struct outcome {
    int result;
    char message[256];
    char source[32];
    size_t n_layers, n_fresh;
    char layers[8][80]; /* topmost first */
    char env0[64], cwd[64];
    int64_t bytes, n_files, n_skipped;
} outcome;

static void read_outcome(const csn_json *doc, outcome *o)
{
    const csn_json *layers = csn_json_get(doc, "layers");

    o->result = (int) csn_json_get_int(doc, "result", -99);
    o->n_layers = csn_json_count(layers);
    o->n_fresh = csn_json_count(csn_json_get(doc, "fresh"));
    for (size_t i = 0; i < o->n_layers && i < 8; i++)
        (void) snprintf(o->layers[i], 80, "%s", csn_json_str(csn_json_at(layers, i), ""));
    (void) snprintf(o->message, sizeof(o->message), "%s", csn_json_get_str(doc, "message", ""));
    (void) snprintf(o->source, sizeof(o->source), "%s", csn_json_get_str(doc, "source", ""));
    (void) snprintf(o->cwd, sizeof(o->cwd), "%s", csn_json_get_str(doc, "cwd", ""));
    (void) snprintf(o->env0, sizeof(o->env0), "%s",
                    csn_json_str(csn_json_at(csn_json_get(doc, "env"), 0), ""));
    o->bytes = csn_json_get_int(doc, "bytes", -1);
    o->n_files = csn_json_get_int(doc, "files", -1);
    o->n_skipped = csn_json_get_int(doc, "skipped", -1);
}

static outcome unpack_with(const char *source, const char *option)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(fd) int fd = -1;
    outcome o = { .result = -99 };
    int status = 0;
    pid_t pid;

    pid = start(source, option, &fd);
    CHECK_INT(csn_read_to_buf(fd, &text, 1 << 20), 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status))
        FAIL("killed by signal %d", WTERMSIG(status));
    CHECK_INT(csn_json_parse(text.data, text.len, &doc, NULL), 0);
    read_outcome(doc, &o);
    CHECK_INT(WEXITSTATUS(status), o.result == 0 ? 0 : 1);
    return o;
}

static outcome unpack(const char *source)
{
    return unpack_with(source, NULL);
}

static char *in_layer(const outcome *o, size_t layer, const char *path)
{
    return at("out/%s/root/%s", o->layers[layer], path);
}

static mode_t mode_of(const char *path)
{
    struct stat st;

    return lstat(path, &st) < 0 ? 0 : st.st_mode;
}

static const char *link_of(const char *path)
{
    static char target[PATH_SIZE];
    ssize_t n = readlink(path, target, sizeof(target) - 1);

    target[n < 0 ? 0 : n] = '\0';
    return target;
}

/* ---- honest archives ------------------------------------------------------------------------------------------ */

static void make_tree_tar(const char *path)
{
    tar_maker tar;

    tar_begin(&tar, path);
    TAR_ADD(&tar, .name = "./", .type = '5', .mode = 0711);
    TAR_ADD(&tar, .name = "./usr/", .type = '5');
    TAR_ADD(&tar, .name = "./usr/bin/", .type = '5', .mode = 02775);
    TAR_ADD(&tar, .name = "./usr/bin/su", .mode = 06755, .data = "program");
    TAR_ADD(&tar, .name = "./usr/bin/also", .type = '1', .link = "./usr/bin/su");
    TAR_ADD(&tar, .name = "./bin", .type = '2', .link = "usr/bin");
    TAR_ADD(&tar, .name = "./etc/deep/file", .data = "text", .uid = 1000, .gid = 2000000);
    TAR_ADD(&tar, .name = "./out", .type = '2', .link = "/etc/passwd");
    tar_end(&tar);
}

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
    CHECK_INT(a.st_uid, geteuid() == 0 ? 1000 : geteuid());
    CHECK_INT(a.st_gid, geteuid() == 0 ? 65534 : getegid());
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

/* ---- archives that mean harm ----------------------------------------------------------------------------------- */

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
    char target[PATH_SIZE];
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

/* ---- OCI layouts and docker archives ---------------------------------------------------------------------------- */

static void digest_file(const char *path, char out[CSN_DIGEST_SIZE])
{
    csn_auto(buf) csn_buf bytes = CSN_BUF_INIT;

    CHECK_INT(csn_digest_prepare(), 0);
    CHECK_INT(csn_read_file(AT_FDCWD, path, &bytes, 64 << 20), 0);
    CHECK_INT(csn_digest_of(bytes.data, bytes.len, out), 0);
}

/* Moves a file to its place among the blobs. */
static void add_blob(const char *path, char out[CSN_DIGEST_SIZE])
{
    digest_file(path, out);
    CHECK(rename(path, at("oci/blobs/sha256/%s", out)) == 0);
}

static void add_text_blob(char out[CSN_DIGEST_SIZE], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void add_text_blob(char out[CSN_DIGEST_SIZE], const char *fmt, ...)
{
    static char text[8192];
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    write_text(at("blob"), text);
    add_blob(at("blob"), out);
}

static const char *our_arch(void)
{
#if defined(__x86_64__)
    return "amd64";
#elif defined(__aarch64__)
    return "arm64";
#else
    SKIP("the test doesn't know this machine's architecture");
#endif
}

typedef struct layout {
    char lower[CSN_DIGEST_SIZE], upper[CSN_DIGEST_SIZE], config[CSN_DIGEST_SIZE],
        manifest[CSN_DIGEST_SIZE];
} layout;

static void make_layer_files(void)
{
    tar_maker tar;

    tar_begin(&tar, at("lower.tar"));
    TAR_ADD(&tar, .name = "etc/a", .data = "lower a");
    TAR_ADD(&tar, .name = "etc/b", .data = "lower b");
    TAR_ADD(&tar, .name = "opt/x/y", .data = "lower y");
    tar_end(&tar);
    tar_begin(&tar, at("upper.tar"));
    TAR_ADD(&tar, .name = "etc/.wh.a");
    TAR_ADD(&tar, .name = "etc/c", .data = "upper c");
    TAR_ADD(&tar, .name = "opt/x/.wh..wh..opq");
    TAR_ADD(&tar, .name = "opt/x/z", .data = "upper z");
    tar_end(&tar);
}

static layout make_layout(void)
{
    layout l;

    CHECK(mkdir(at("oci"), 0755) == 0 && mkdir(at("oci/blobs"), 0755) == 0 &&
          mkdir(at("oci/blobs/sha256"), 0755) == 0);
    make_layer_files();
    RUN("gzip", "-nf", at("upper.tar"));
    add_blob(at("lower.tar"), l.lower);
    add_blob(at("upper.tar.gz"), l.upper);
    add_text_blob(l.config,
                  "{\"architecture\":\"%s\",\"os\":\"linux\",\"config\":{\"Env\":[\"LANG=C\"],"
                  "\"WorkingDir\":\"/srv\"},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[]}}",
                  our_arch());
    add_text_blob(
        l.manifest,
        "{\"schemaVersion\":2,\"config\":{\"digest\":\"sha256:%s\"},\"layers\":["
        "{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"sha256:%s\"},"
        "{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+gzip\",\"digest\":\"sha256:%s\"}]}",
        l.config, l.lower, l.upper);
    write_text(at("oci/oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}");
    return l;
}

static void write_index(const char *manifest)
{
    char text[1024];

    (void) snprintf(text, sizeof(text),
                    "{\"schemaVersion\":2,\"manifests\":[{\"digest\":\"sha256:%s\",\"platform\":"
                    "{\"os\":\"linux\",\"architecture\":\"mips\"}},{\"mediaType\":"
                    "\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"sha256:%s\","
                    "\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\"}}]}",
                    "0000000000000000000000000000000000000000000000000000000000000000", manifest,
                    our_arch());
    write_text(at("oci/index.json"), text);
}

static void check_layers(const outcome *o)
{
    struct stat st;
    char value[4] = "";

    CHECK_STR(o->message, "");
    CHECK_INT(o->result, CSN_OK);
    CHECK_INT(o->n_layers, 2);
    CHECK_INT(o->n_fresh, 2);
    CHECK_STR(text_of(in_layer(o, 1, "etc/a")), "lower a");
    CHECK_STR(text_of(in_layer(o, 0, "etc/c")), "upper c");
    CHECK(lstat(in_layer(o, 0, "etc/a"), &st) == 0);
    CHECK(S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0));
    CHECK(access(in_layer(o, 0, "etc/.wh.a"), F_OK) < 0);
    CHECK_INT(lgetxattr(in_layer(o, 0, "opt/x"), "user.overlay.opaque", value, sizeof(value)), 1);
    CHECK_STR(value, "y");
    CHECK_STR(o->env0, "LANG=C");
    CHECK_STR(o->cwd, "/srv");
}

TEST(an_oci_layout_becomes_layers_with_their_whiteouts)
{
    layout l = make_layout();
    outcome o;

    write_index(l.manifest);
    o = unpack(at("oci"));
    check_layers(&o);
    CHECK_STR(o.source, "oci");
    CHECK_STR(o.layers[0], l.upper);
    CHECK_STR(o.layers[1], l.lower);
}

TEST(an_oci_layout_in_an_archive_is_the_same)
{
    layout l = make_layout();
    outcome o;

    write_index(l.manifest);
    RUN("tar", "czf", at("image.tar.gz"), "-C", at("oci"), ".");
    o = unpack(at("image.tar.gz"));
    check_layers(&o);
    CHECK_STR(o.source, "oci");
}

TEST(a_layer_that_exists_is_not_unpacked_again)
{
    layout l = make_layout();
    outcome o;

    make_dirs();
    CHECK(mkdir(at("layers/%s", l.lower), 0755) == 0);
    CHECK(mkdir(at("layers/%s/root", l.lower), 0755) == 0);
    write_index(l.manifest);
    o = unpack(at("oci"));
    CHECK_INT(o.result, CSN_OK);
    CHECK_INT(o.n_layers, 2);
    CHECK_INT(o.n_fresh, 1);
    CHECK(access(at("out/%s", l.lower), F_OK) < 0);
}

TEST(a_layer_that_is_not_what_its_digest_says_is_refused)
{
    layout l = make_layout();
    tar_maker tar;
    outcome o;

    write_index(l.manifest);
    tar_begin(&tar, at("oci/blobs/sha256/%s", l.lower));
    TAR_ADD(&tar, .name = "etc/a", .data = "forged");
    tar_end(&tar);
    o = unpack(at("oci"));
    CHECK_INT(o.result, CSN_E_INVALID);
    CHECK(strstr(o.message, "is not what its digest says"));
    CHECK(access(at("out/%s", l.lower), F_OK) < 0);
}

TEST(a_manifest_or_configuration_that_was_changed_is_refused)
{
    layout l = make_layout();

    write_index(l.manifest);
    write_text(at("oci/blobs/sha256/%s", l.config), "{}");
    CHECK_INT(unpack(at("oci")).result, CSN_E_INVALID);
    write_text(at("oci/blobs/sha256/%s", l.manifest), "{}");
    CHECK_INT(unpack(at("oci")).result, CSN_E_INVALID);
    CHECK(unlink(at("oci/blobs/sha256/%s", l.manifest)) == 0);
    CHECK_INT(unpack(at("oci")).result, CSN_E_INVALID);
}

TEST(a_blob_that_is_a_link_out_of_the_layout_is_not_read)
{
    layout l = make_layout();
    char path[PATH_SIZE];

    write_index(l.manifest);
    (void) snprintf(path, sizeof(path), "%s", at("oci/blobs/sha256/%s", l.config));
    CHECK(rename(path, at("elsewhere")) == 0);
    CHECK(symlink(at("elsewhere"), path) == 0);
    CHECK(unpack(at("oci")).result < 0);
    CHECK(unlink(path) == 0 && symlink("../../../elsewhere", path) == 0);
    CHECK(unpack(at("oci")).result < 0);
    CHECK(unlink(path) == 0 && mkfifo(path, 0644) == 0);
    CHECK(unpack(at("oci")).result < 0);
}

TEST(an_index_of_indexes_ends_somewhere)
{
    char digest[CSN_DIGEST_SIZE];
    char text[512];

    (void) make_layout();
    (void) snprintf(digest, sizeof(digest), "%064d", 0);
    for (int i = 0; i < 12; i++)
        add_text_blob(digest,
                      "{\"manifests\":[{\"mediaType\":\"application/vnd.oci.image.index.v1+json\","
                      "\"digest\":\"sha256:%s\"}]}",
                      digest);
    (void) snprintf(text, sizeof(text),
                    "{\"manifests\":[{\"mediaType\":\"application/vnd.oci.image.index.v1+json\","
                    "\"digest\":\"sha256:%s\"}]}",
                    digest);
    write_text(at("oci/index.json"), text);
    CHECK_INT(unpack(at("oci")).result, CSN_E_INVALID);
}

static void make_docker_dir(const char *first_layer)
{
    char text[1024], lower[CSN_DIGEST_SIZE], upper[CSN_DIGEST_SIZE];

    CHECK(mkdir(at("docker"), 0755) == 0);
    make_layer_files();
    digest_file(at("lower.tar"), lower);
    digest_file(at("upper.tar"), upper);
    CHECK(rename(at("lower.tar"), at("docker/lower.tar")) == 0);
    CHECK(rename(at("upper.tar"), at("docker/upper.tar")) == 0);
    (void) snprintf(
        text, sizeof(text),
        "{\"architecture\":\"%s\",\"config\":{\"Env\":[\"LANG=C\"],\"WorkingDir\":\"/srv\"},"
        "\"rootfs\":{\"diff_ids\":[\"sha256:%s\",\"sha256:%s\"]}}",
        our_arch(), lower, upper);
    write_text(at("docker/config.json"), text);
    (void) snprintf(
        text, sizeof(text),
        "[{\"Config\":\"config.json\",\"RepoTags\":null,\"Layers\":[\"%s\",\"upper.tar\"]}]",
        first_layer);
    write_text(at("docker/manifest.json"), text);
}

TEST(a_docker_archive_becomes_layers)
{
    outcome o;

    make_docker_dir("lower.tar");
    RUN("tar", "cf", at("docker.tar"), "-C", at("docker"), "manifest.json", "config.json",
        "lower.tar", "upper.tar");
    o = unpack(at("docker.tar"));
    check_layers(&o);
    CHECK_STR(o.source, "docker-archive");
}

TEST(a_docker_archive_is_checked_against_its_configuration)
{
    tar_maker tar;

    make_docker_dir("lower.tar");
    tar_begin(&tar, at("docker/lower.tar"));
    TAR_ADD(&tar, .name = "etc/a", .data = "forged");
    tar_end(&tar);
    CHECK_INT(unpack(at("docker")).result, CSN_E_INVALID);
}

TEST(a_docker_archive_names_no_file_of_the_machine)
{
    make_docker_dir("../lower.tar");
    CHECK_INT(unpack(at("docker")).result, CSN_E_INVALID);
}

/* ---- the program itself ---------------------------------------------------------------------------------------- */

/* Eight gigabytes of zeros that take no place: long enough to look at whoever reads them. */
static void make_long_tar(void)
{
    tar_maker tar;

    tar_begin(&tar, at("long.tar"));
    TAR_ADD(&tar, .name = "zeros", .claims = INT64_C(8) << 30);
    CHECK(close(tar.fd) == 0);
    CHECK(truncate(at("long.tar"), 512 + (INT64_C(8) << 30) + 1024) == 0);
}

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

    make_long_tar();
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

    make_long_tar();
    pid = start(at("long.tar"), NULL, &fd);
    close(fd);
    while ((r = waitpid(pid, &status, WNOHANG)) == 0 && !csn_deadline_passed(deadline))
        (void) poll(NULL, 0, 5); /* a look every 5 ms, until the deadline */
    if (r == 0)
        (void) kill(pid, SIGKILL); /* the check below tells */
    CHECK(r == pid);
    CHECK(WIFEXITED(status));
}
