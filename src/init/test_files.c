/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "csn_test.h"
#include "init/test_box.h"

static box a_box(void)
{
    box b = box_start((box_options){ .in_memory = true });

    CHECK(chdir(b.dir) == 0);
    return b;
}

/* The path of `name` in the box's directory. A few live at a time. */
static const char *at(const box *b, const char *name)
{
    static char paths[8][8192];
    static unsigned next;
    char *path = paths[next++ % 8];

    (void) snprintf(path, sizeof(paths[0]), "%s/%s", b->dir, name);
    return path;
}

static void give(const char *name)
{
    CHECK(lchown(name, 1000, 1000) == 0);
}

static void put(const char *name, const void *data, size_t len)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    CHECK(fd >= 0);
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        CHECK(n > 0);
        data = (const char *) data + n;
        len -= (size_t) n;
    }
    close(fd);
    give(name);
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

static const char *get_text(const char *name)
{
    static char text[65536];
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    CHECK(fd >= 0);
    n = read(fd, text, sizeof(text) - 1);
    CHECK(n >= 0);
    text[n] = '\0';
    close(fd);
    return text;
}

static void put_dir(const char *name)
{
    CHECK(mkdir(name, 0755) == 0);
    give(name);
}

static int mode_of(const char *name)
{
    struct stat st;

    CHECK(lstat(name, &st) == 0);
    return st.st_mode & 07777;
}

#define DO(b, ...) box_do((b), &(csn_filereq){ __VA_ARGS__ })

/* Opens a file inside; a descriptor or -errno. */
static int open_inside(box *b, const char *path, uint32_t flags, int mode)
{
    static char buf[CSN_FRAME_MAX];
    csn_filereq req = { .verb = CSN_FILEREQ_OPEN, .flags = flags, .mode = mode, .path = path };
    int fd, sock = box_ask(b, &req, 1000);
    csn_msg msg = hear_on(sock, CSN_SAID_BY_WORKER, buf);
    csn_file_done done;

    csn_msg_fixed(&msg, &done, sizeof(done));
    fd = csn_msg_take_fd(&msg, 0);
    if (msg.head.type == CSN_FRAME_FILE_FD) {
        CHECK(fd >= 0);
        msg = hear_on(sock, CSN_SAID_BY_WORKER, buf);
        CHECK_INT(msg.head.type, CSN_FRAME_FILE_DONE);
    }
    close(sock);
    return fd >= 0 ? fd : -done.sys_errno;
}

typedef struct results {
    int n, is_cut, error;
    int64_t value;
    csn_file_entry entry[64];
    char path[64][512], target[64][64], owner[64][64], group[64][64];
    int64_t line[64];
    char text[64][4200];
    size_t text_len[64];
} results;

static void keep(results *r, csn_msg *msg)
{
    size_t fixed =
        msg->head.type == CSN_FRAME_FILE_ENTRY ? sizeof(csn_file_entry) : sizeof(csn_file_hit);
    csn_unpack u = csn_msg_rest(msg, fixed);
    int i = r->n++;

    if (i >= 64)
        return;
    (void) snprintf(r->path[i], sizeof(r->path[i]), "%s", csn_unpack_str(&u));
    if (msg->head.type == CSN_FRAME_FILE_ENTRY) {
        csn_msg_fixed(msg, &r->entry[i], sizeof(r->entry[i]));
        (void) snprintf(r->target[i], sizeof(r->target[i]), "%s", csn_unpack_str(&u));
        (void) snprintf(r->owner[i], sizeof(r->owner[i]), "%s", csn_unpack_str(&u));
        (void) snprintf(r->group[i], sizeof(r->group[i]), "%s", csn_unpack_str(&u));
    } else {
        csn_file_hit hit;
        const char *text = csn_unpack_bytes(&u, &r->text_len[i]);
        csn_msg_fixed(msg, &hit, sizeof(hit));
        r->line[i] = hit.line;
        CHECK(r->text_len[i] <= 4096);
        memcpy(r->text[i], text, r->text_len[i] + 1);
    }
    CHECK_INT(csn_unpack_end(&u), 0);
}

static const results *collect(box *b, const csn_filereq *req)
{
    static results r;
    static char buf[CSN_FRAME_MAX];
    int sock = box_ask(b, req, 1000);

    memset(&r, 0, sizeof(r));
    for (;;) {
        csn_msg msg = hear_on(sock, CSN_SAID_BY_WORKER, buf);
        csn_file_done done;
        if (msg.head.type != CSN_FRAME_FILE_DONE) {
            keep(&r, &msg);
            continue;
        }
        csn_msg_fixed(&msg, &done, sizeof(done));
        r.is_cut = (int) done.is_cut;
        r.error = done.sys_errno;
        r.value = done.value;
        break;
    }
    close(sock);
    return &r;
}

#define COLLECT(b, ...) collect((b), &(csn_filereq){ __VA_ARGS__ })

static int index_of(const results *r, const char *path)
{
    for (int i = 0; i < r->n && i < 64; i++)
        if (strcmp(r->path[i], path) == 0)
            return i;
    FAIL("'%s' is not among %d results", path, r->n);
}

/* --- OPEN ---------------------------------------------------------------------------------------------------------- */

TEST(an_open_file_is_the_file)
{
    box b = a_box();
    char text[16] = "";
    int fd;

    put_text("file", "contents");
    fd = open_inside(&b, at(&b, "file"), CSN_OPEN_READ, -1);
    CHECK(fd >= 0);
    CHECK(read(fd, text, sizeof(text) - 1) == 8);
    CHECK_STR(text, "contents");
    CHECK(write(fd, "x", 1) < 0);
    CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0);
    CHECK_INT(open_inside(&b, at(&b, "nothing"), CSN_OPEN_READ, -1), -ENOENT);
    CHECK_INT(open_inside(&b, "/etc/shadow", CSN_OPEN_READ, -1), -EACCES);
}

TEST(only_regular_files_are_handed_out_and_nothing_hangs)
{
    box b = a_box();
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);

    CHECK(mkfifo("fifo", 0666) == 0 && chmod("fifo", 0666) == 0);
    put_dir("dir");
    memcpy(addr.sun_path, "sock", 5);
    CHECK(bind(sock, (void *) &addr, sizeof(addr)) == 0 && chmod("sock", 0666) == 0);
    CHECK_INT(open_inside(&b, at(&b, "fifo"), CSN_OPEN_READ, -1), -ENXIO);
    CHECK_INT(open_inside(&b, at(&b, "fifo"), CSN_OPEN_WRITE, -1), -ENXIO);
    CHECK_INT(open_inside(&b, at(&b, "fifo"), CSN_OPEN_READ | CSN_OPEN_WRITE, -1), -ENXIO);
    CHECK_INT(open_inside(&b, at(&b, "sock"), CSN_OPEN_READ, -1), -ENXIO);
    CHECK_INT(open_inside(&b, at(&b, "dir"), CSN_OPEN_READ, -1), -EISDIR);
    CHECK_INT(open_inside(&b, at(&b, "dir"), CSN_OPEN_WRITE, -1), -EISDIR);
    CHECK_INT(open_inside(&b, "/dev/zero", CSN_OPEN_READ, -1), -ENXIO);
    CHECK_INT(open_inside(&b, "/dev/null", CSN_OPEN_WRITE | CSN_OPEN_TRUNCATE, -1), -ENXIO);
    CHECK_INT(open_inside(&b, at(&b, "fifo"), 0, -1), -EINVAL);
    CHECK_INT(open_inside(&b, at(&b, "new"), CSN_OPEN_READ | CSN_OPEN_CREATE, -1), -EINVAL);
    close(sock);
}

TEST(magic_links_are_not_followed)
{
    box b = a_box();

    CHECK_INT(open_inside(&b, "/proc/self/exe", CSN_OPEN_READ, -1), -ELOOP);
    CHECK_INT(open_inside(&b, "/proc/self/root/etc/passwd", CSN_OPEN_READ, -1), -ELOOP);
    CHECK_INT(open_inside(&b, "/proc/self/fd/3", CSN_OPEN_READ, -1), -ELOOP);
    CHECK(symlink("/proc/self/exe", "link") == 0);
    CHECK_INT(open_inside(&b, at(&b, "link"), CSN_OPEN_READ, -1), -ELOOP);
    CHECK(DO(&b, .verb = CSN_FILE_MKDIR, .path = "/proc/self/cwd/x").sys_errno == ELOOP);
}

TEST(created_files_have_parents_the_mode_asked_for_and_no_setuid)
{
    box b = a_box();
    const uint32_t create = CSN_OPEN_WRITE | CSN_OPEN_CREATE;
    struct stat st;
    int fd = open_inside(&b, at(&b, "a/b/c"), create, 06755);

    CHECK(fd >= 0);
    CHECK(fstat(fd, &st) == 0 && st.st_uid == 1000);
    CHECK_INT(mode_of("a/b/c"), 0755);
    CHECK_INT(mode_of("a/b"), 0755);
    CHECK(open_inside(&b, at(&b, "x"), create, -1) >= 0);
    CHECK_INT(mode_of("x"), 0644);
    CHECK(open_inside(&b, at(&b, "y"), create, 0666) >= 0);
    CHECK_INT(mode_of("y"), 0666); /* no umask in between */
    CHECK_INT(open_inside(&b, at(&b, "y"), create | CSN_OPEN_EXCLUSIVE, -1), -EEXIST);
    CHECK_INT(open_inside(&b, at(&b, "y/z"), create, -1), -ENOTDIR);
    CHECK_INT(open_inside(&b, "/nowhere/z", create, -1), -EACCES);
}

TEST(truncating_and_appending)
{
    box b = a_box();
    int fd;

    put_text("f", "12345");
    fd = open_inside(&b, at(&b, "f"), CSN_OPEN_WRITE | CSN_OPEN_APPEND, -1);
    CHECK(write(fd, "6", 1) == 1);
    CHECK_STR(get_text("f"), "123456");
    fd = open_inside(&b, at(&b, "f"), CSN_OPEN_WRITE | CSN_OPEN_TRUNCATE, -1);
    CHECK(fd >= 0);
    CHECK_STR(get_text("f"), "");
}

TEST(relative_paths_start_at_home)
{
    box b = a_box();
    int fd = open_inside(&b, "notes/today", CSN_OPEN_WRITE | CSN_OPEN_CREATE, -1);

    CHECK(fd >= 0);
    close(fd);
    CHECK_STR(box_output(&b, (command){ .argv = ARGV("/bin/ls", "/home/daytona/notes") }, NULL),
              "today\n");
}

/* --- STAT, LIST ---------------------------------------------------------------------------------------------------- */

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

/* --- MKDIR, MOVE, CHMOD ---------------------------------------------------------------------------------------------- */

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
              EINVAL);
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

/* --- FIND, SEARCH, REPLACE -------------------------------------------------------------------------------------------- */

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

/* --- the rest ----------------------------------------------------------------------------------------------------------- */

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
