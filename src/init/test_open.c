/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "csn_test.h"
#include "init/test_file.h"

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
