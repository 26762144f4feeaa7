#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/fd.h"
#include "csn_test.h"

static int open_test_dir(void)
{
    int fd = open(csn_test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    CHECK(fd >= 0);
    return fd;
}

TEST(closing_forgets_the_number_and_keeps_errno)
{
    int fd = dup(1), copy = fd;

    errno = EBADMSG;
    csn_close(&fd);
    csn_close(&fd);
    CHECK_INT(errno, EBADMSG);
    CHECK_INT(fd, -1);
    CHECK_INT(fcntl(copy, F_GETFD), -1);
    fd = dup(1);
    copy = csn_take_fd(&fd);
    CHECK_INT(fd, -1);
    csn_close(&copy);
}

TEST(an_atomic_write_replaces_and_leaves_nothing_else)
{
    csn_auto(fd) int dir = open_test_dir();
    csn_auto(buf) csn_buf got = CSN_BUF_INIT;
    struct stat st;

    CHECK_INT(csn_write_file_atomic(dir, "f", "one", 3, 0640, true), 0);
    CHECK_INT(csn_write_file_atomic(dir, "f", "second", 6, 0600, false), 0);
    CHECK_INT(csn_read_file(dir, "f", &got, 100), 0);
    CHECK_STR(got.data, "second");
    CHECK_INT(fstatat(dir, "f", &st, 0), 0);
    CHECK_INT(st.st_mode & 07777, 0600);
    CHECK_INT(csn_write_file_atomic(dir, "no/such", "x", 1, 0600, false), -ENOENT);
    CHECK_INT(unlinkat(dir, "f", 0), 0);
    CHECK_INT(rmdir(csn_test_dir()), 0); /* no temporary file is left */
}

TEST(a_file_larger_than_the_bound_is_refused)
{
    csn_auto(fd) int dir = open_test_dir();
    csn_auto(buf) csn_buf got = CSN_BUF_INIT;

    CHECK_INT(csn_write_file_atomic(dir, "f", "12345", 5, 0600, false), 0);
    CHECK_INT(csn_read_file(dir, "f", &got, 4), -EFBIG);
    csn_buf_clear(&got);
    CHECK_INT(csn_read_file(dir, "f", &got, 5), 0);
    CHECK_STR(got.data, "12345");
    CHECK_INT(csn_read_file(dir, "absent", &got, 5), -ENOENT);
}

TEST(read_all_and_write_all_go_to_the_end)
{
    int p[2];
    char got[16];

    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    CHECK_INT(csn_write_all(p[1], "hello", 5), 0);
    csn_close(&p[1]);
    CHECK_INT(csn_read_all(p[0], got, sizeof(got)), 5);
    CHECK_MEM(got, 5, "hello", 5);
    csn_close(&p[0]);
}

TEST(flags_can_be_changed)
{
    csn_auto(fd) int fd = csn_fd_dup(1, 50);

    CHECK(fd >= 50);
    CHECK_INT(fcntl(fd, F_GETFD), FD_CLOEXEC);
    CHECK_INT(csn_fd_cloexec(fd, false), 0);
    CHECK_INT(fcntl(fd, F_GETFD), 0);
    CHECK_INT(csn_fd_cloexec(-1, true), -EBADF);
}

static void seqpacket_pair(int *ret_a, int *ret_b)
{
    int s[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
    *ret_a = s[0];
    *ret_b = s[1];
}

TEST(descriptors_travel_with_their_message)
{
    csn_auto(fd) int a = -1;
    csn_auto(fd) int b = -1;
    int send[2] = { 1, 2 }, got[4] = { -1, -1, -1, -1 };
    char data[8];
    size_t n_fds;

    seqpacket_pair(&a, &b);
    CHECK_INT(csn_send_fds(a, "hi", 2, send, 2), 0);
    CHECK_INT(csn_recv_fds(b, data, sizeof(data), got, 4, &n_fds), 2);
    CHECK_MEM(data, 2, "hi", 2);
    CHECK_INT(n_fds, 2);
    CHECK_INT(fcntl(got[1], F_GETFD), FD_CLOEXEC);
    csn_close_many(got, 2);
    CHECK_INT(got[0], -1);
    CHECK_INT(csn_recv_fds_flags(b, data, sizeof(data), got, 4, &n_fds, MSG_DONTWAIT), -EAGAIN);
    csn_close(&a);
    CHECK_INT(csn_recv_fds(b, data, sizeof(data), got, 4, &n_fds), 0);
}

TEST(what_doesn_t_fit_is_refused_and_nothing_leaks)
{
    csn_auto(fd) int a = -1;
    csn_auto(fd) int b = -1;
    int send[8] = { 1, 1, 1, 1, 1, 1, 1, 1 }, got[8];
    char data[4];
    size_t n_fds;

    seqpacket_pair(&a, &b);
    int before = csn_test_count_fds();
    CHECK_INT(csn_send_fds(a, "hi", 2, send, 8), 0);
    CHECK_INT(csn_recv_fds(b, data, sizeof(data), got, 7, &n_fds), -EMSGSIZE);
    CHECK_INT(n_fds, 0);
    CHECK_INT(csn_send_fds(a, "hi", 2, send, 1), 0);
    CHECK_INT(csn_recv_fds(b, data, sizeof(data), NULL, 0, NULL), -EMSGSIZE);
    CHECK_INT(csn_send_fds(a, "hello", 5, send, 8), 0);
    CHECK_INT(csn_recv_fds(b, data, sizeof(data), got, 8, &n_fds), -EMSGSIZE);
    CHECK_INT(csn_test_count_fds(), before);
    CHECK_INT(csn_send_fds(a, "hi", 2, send, 9), -EINVAL);
}

static int taker;

static void take_all(int signal)
{
    char data[8];
    struct iovec vec = { data, sizeof(data) };
    struct msghdr msg = { .msg_iov = &vec, .msg_iovlen = 1 };

    (void) signal;
    while (recvmsg(taker, &msg, MSG_DONTWAIT) > 0)
        ; /* a descriptor that comes along finds no place and is closed by the kernel */
}

/* Descriptors that nobody has taken yet count against the limit of whoever sends the next one. */
TEST(a_crowd_of_descriptors_under_way_is_waited_for)
{
    const struct rlimit few = { 16, 16 };
    const struct itimerval soon = { .it_value = { .tv_usec = 20000 } };
    int pair[2], fd = dup(0), r = 0;

    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    if (geteuid() == 0) /* root may have any number under way */
        CHECK(setresuid(65534, 65534, 65534) == 0);
    for (int i = 0; r == 0 && i < 100; i++)
        r = csn_send_fds(pair[0], "x", 1, &fd, 1);
    CHECK_INT(r, -ETOOMANYREFS);
    taker = pair[1];
    CHECK(signal(SIGALRM, take_all) != SIG_ERR);
    CHECK_INT(setitimer(ITIMER_REAL, &soon, NULL), 0);
    CHECK_INT(csn_send_fds(pair[0], "x", 1, &fd, 1), 0);
}
