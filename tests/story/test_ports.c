/* Ports: what listens in a sandbox can be spoken to from outside of it, and nothing else can. */
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"
#include "base/time.h"
#include "story.h"

/* Answers every connection with one line and repeats what it hears, then says that it is there. */
static const char echo[] =
    "import socket, sys, threading\n"
    "s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)\n"
    "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
    "s.bind((sys.argv[1], int(sys.argv[2]))); s.listen(int(sys.argv[3]))\n"
    "print('there', flush=True)\n"
    "def talk(c):\n"
    "    while data := c.recv(65536): c.sendall(data)\n"
    "    c.close()\n"
    "while True:\n"
    "    if sys.argv[3] == '0': threading.Event().wait()\n"
    "    threading.Thread(target=talk, args=(s.accept()[0],), daemon=True).start()\n";

static void end(void *user)
{
    csn_process_free(user);
}

static void listen_in(csn_sandbox *box, const char *address, const char *port, const char *backlog)
{
    csn_process_options o = { .size = sizeof(o),
                              .argv = ARGV("python3", "-c", echo, address, port, backlog),
                              .is_background = 1 };
    csn_process *p = NULL;
    csn_log_chunk chunk;

    OK(csn_process_start(box, &o, &p, err));
    csn_test_defer(end, p);
    OK(csn_process_read_log(p, 0, 10000, &chunk, err));
    CHECK_MEM(chunk.data, chunk.len, "there\n", 6);
}

static void check_echo(int fd, const char *text)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    char got[64];

    CHECK(send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t) strlen(text));
    CHECK_INT(poll(&p, 1, 10000), 1);
    ssize_t n = recv(fd, got, sizeof(got), 0);
    CHECK_MEM(got, (size_t) n, text, strlen(text));
    close(fd);
}

TEST(what_listens_inside_is_reached)
{
    csn_sandbox *box = an_ephemeral();
    int fd = -1;

    listen_in(box, "127.0.0.1", "3000", "16");
    listen_in(box, "0.0.0.0", "3001", "16");
    OK(csn_port_connect(box, 3000, &fd, err));
    check_echo(fd, "hello");
    OK(csn_port_connect(box, 3001, &fd, err));
    check_echo(fd, "there");
    if (csn_streq(sh(box, "cat /proc/net/if_inet6 2>/dev/null | wc -l")->out, "0\n"))
        return; /* no IPv6 here */
    listen_in(box, "::1", "3002", "16");
    OK(csn_port_connect(box, 3002, &fd, err));
    check_echo(fd, "over six");
}

TEST(where_nobody_listens_the_answer_is_quick)
{
    csn_sandbox *box = an_ephemeral();
    int64_t begin = csn_now_ns();
    int fd = -1;

    for (int i = 0; i < 20; i++)
        FAILS(csn_port_connect(box, 3000, &fd, err), CSN_E_NOT_FOUND);
    CHECK(csn_now_ns() - begin < 10 * CSN_NS_PER_S);
    FAILS(csn_port_connect(box, 0, &fd, err), CSN_E_INVALID);
    FAILS(csn_port_connect(box, 65536, &fd, err), CSN_E_INVALID);
    CHECK_INT(fd, -1);
    OK(csn_file_put(box, "still", "works", 5, 0, err));
}

TEST(who_never_accepts_is_not_waited_for_for_long)
{
    csn_sandbox *box = an_ephemeral();
    int64_t begin = csn_now_ns();
    int r = CSN_OK, fds[8], n = 0;

    listen_in(box, "127.0.0.1", "3000", "0");
    while (n < 8 && (r = csn_port_connect(box, 3000, &fds[n], NULL)) == CSN_OK)
        n++;
    CHECK_INT(r, CSN_E_TIMEOUT);
    CHECK(csn_now_ns() - begin < 10 * CSN_NS_PER_S);
    while (n > 0)
        close(fds[--n]);
}

/* The host's own listeners, and those of another sandbox, are not there. */
TEST(only_its_own_ports_are_reached)
{
    csn_sandbox *box = an_ephemeral(), *other = an_ephemeral();
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof(a);
    int fd = -1, ours = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(bind(ours, (struct sockaddr *) &a, len) == 0 && listen(ours, 4) == 0);
    CHECK(getsockname(ours, (struct sockaddr *) &a, &len) == 0);
    FAILS(csn_port_connect(box, ntohs(a.sin_port), &fd, err), CSN_E_NOT_FOUND);
    listen_in(other, "0.0.0.0", "3000", "16");
    FAILS(csn_port_connect(box, 3000, &fd, err), CSN_E_NOT_FOUND);
    close(ours);
}

typedef struct promise {
    int fd, result, is_done;
} promise;

static void on_connected(int fd, int result, const csn_error *err, void *user)
{
    promise *p = user;

    (void) err;
    *p = (promise){ .fd = fd, .result = result, .is_done = 1 };
}

/* As the server does it: a borrowed sandbox, and nothing waits. */
TEST(a_borrowed_sandbox_is_reached_without_waiting)
{
    csn_engine_options eo = { .size = sizeof(eo), .is_guest = 1 };
    csn_sandbox_options o = { .size = sizeof(o) };
    csn_sandbox *box = an_ephemeral(.is_detached = 1), *lent = NULL;
    csn_engine *guest = NULL;
    promise p = { .fd = -1 };
    int fd = -1;

    listen_in(box, "127.0.0.1", "3000", "16");
    OK(csn_engine_open(&eo, &guest, err));
    OK(csn_sandbox_lend(box, &fd, err));
    OK(csn_sandbox_borrow(guest, csn_sandbox_id(box), &o, fd, &lent, err));
    (void) BEGUN(csn_port_connect_async(lent, 3000, on_connected, &p, err));
    while (!p.is_done)
        OK(csn_engine_dispatch(guest, 10000, err));
    CHECK_INT(p.result, CSN_OK);
    check_echo(p.fd, "from a guest");
    p = (promise){ .fd = -1 };
    (void) BEGUN(csn_port_connect_async(lent, 3999, on_connected, &p, err));
    while (!p.is_done)
        OK(csn_engine_dispatch(guest, 10000, err));
    CHECK_INT(p.result, CSN_E_NOT_FOUND);
    CHECK_INT(p.fd, -1);
    csn_sandbox_free(lent);
    csn_engine_free(guest);
    OK(csn_sandbox_delete(box, err));
}
