/* What a file worker says is said by the attacker. Here the test plays keeper and worker, and says what it must not. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "core/engine.h"
#include "csn_test.h"
#include "local/local.h"
#include "local/open.h"

typedef struct scene {
    csn_local *local;
    csn_local_box *box;
    int keeper, worker; /* our ends */
    uint32_t seq;
    bool is_done;
    int result, n_files, n_matches;
    csn_error err;
    int fd; /* what came */
} scene;

static csn_engine *engine;
static scene s;

static void close_all(void *user)
{
    (void) user;
    if (s.box)
        csn_box_unref(&s.box->base);
    s.box = NULL;
    engine = csn_engine_free(engine);
    csn_close(&s.keeper);
    csn_close(&s.worker);
    csn_close(&s.fd);
}

static void on_done(csn_op *op, const csn_error *err)
{
    s.is_done = true;
    s.result = op->result;
    s.fd = op->value.file.fd;
    if (err)
        s.err = *err;
}

static void not_called(int result, const csn_error *err, void *user)
{
    (void) result, (void) err, (void) user;
    FAIL("on_done() is");
}

static csn_op *an_op(void)
{
    static const csn_op_kind kind = { .deliver = on_done };
    csn_op *op = csn_op_new(engine, sizeof(*op), &kind, NULL, NULL);

    CHECK(op);
    op->done.plain = not_called;
    return op;
}

static void on_file(const csn_file_info *info, void *user)
{
    (void) user;
    CHECK(info->path && info->owner && info->group);
    s.n_files++;
}

static void on_match(const csn_file_match *match, void *user)
{
    (void) user;
    CHECK(match->path && match->text);
    s.n_matches++;
}

static void open_scene(void)
{
    const char *dir = csn_test_dir();
    char path[512];
    int pair[2];

    s = (scene){ .keeper = -1, .worker = -1, .fd = -1 };
    (void) snprintf(path, sizeof(path), "%s/caisson-keeper", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    close(fd);
    (void) snprintf(path, sizeof(path), "%s/state", dir);
    csn_engine_options o = { .size = sizeof(o), .state_dir = path, .libexec_dir = dir };
    CHECK(csn_engine_new(&o, csn_local_open, &engine, NULL) == CSN_OK);
    csn_test_defer(close_all, NULL);
    s.local = csn_container_of(engine->backend, csn_local, base);
    s.box = csn_local_box_new(s.local, NULL);
    CHECK(s.box && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    CHECK(csn_conn_open(&s.box->conn, pair[0]) == 0);
    s.keeper = pair[1];
    s.box->base.state = CSN_STATE_STARTED;
    s.box->base.wish.is_detached = true;
}

/* The verb is asked for; its channel arrives at us. */
static void ask_with(uint32_t verb, uint32_t flags, uint32_t max_results)
{
    static char buffer[CSN_FRAME_MAX];
    csn_msg msg = CSN_MSG_INIT;
    csn_file_call call = { .verb = verb,
                           .flags = flags,
                           .path = "path",
                           .arg = "arg",
                           .max_results = max_results,
                           .on_file = on_file,
                           .on_match = on_match };

    open_scene();
    CHECK_INT(csn_local_file(&s.box->base, &call, an_op(), NULL), CSN_OK);
    CHECK_INT(csn_frame_recv(s.keeper, buffer, sizeof(buffer), CSN_SAID_BY_CLIENT, 0, &msg), 1);
    CHECK_INT(msg.head.type, CSN_FRAME_SPAWN);
    s.seq = msg.head.seq;
    s.worker = csn_msg_take_fd(&msg, 0);
    CHECK(s.worker >= 0);
    csn_msg_done(&msg);
}

static void ask(uint32_t verb, uint32_t max_results)
{
    ask_with(verb, 0, max_results);
}

static int answer(void)
{
    int64_t deadline = csn_deadline_in_ms(5000);

    while (!s.is_done && !csn_deadline_passed(deadline))
        CHECK(csn_loop_run_once(engine->loop, deadline) >= 0);
    CHECK(s.is_done);
    return s.result;
}

static void say(uint32_t type, const void *fixed, size_t fixed_len, const csn_pack *rest, int fd)
{
    csn_out out = { .type = type,
                    .fixed = fixed,
                    .fixed_len = fixed_len,
                    .rest = rest ? rest->data : NULL,
                    .rest_len = rest ? rest->len : 0,
                    .fds = &fd,
                    .n_fds = fd >= 0 };

    CHECK_INT(csn_frame_send(s.worker, &out), 0);
}

static void say_entry(uint32_t kind, int64_t size, const char *path)
{
    csn_file_entry e = { .kind = kind, .mode = 0xffffffff, .size_bytes = size };
    char bytes[8192];
    csn_pack p = { .data = bytes, .cap = sizeof(bytes) };

    csn_pack_str(&p, path);
    csn_pack_str(&p, "target");
    csn_pack_str(&p, "");
    csn_pack_str(&p, "group");
    say(CSN_FRAME_FILE_ENTRY, &e, sizeof(e), &p, -1);
}

static void say_done(int32_t sys_errno)
{
    csn_file_done d = { .sys_errno = sys_errno };

    say(CSN_FRAME_FILE_DONE, &d, sizeof(d), NULL, -1);
}

static void say_fd(int fd)
{
    csn_file_done d = { 0 };

    say(CSN_FRAME_FILE_FD, &d, sizeof(d), NULL, fd);
}

TEST(an_honest_list_arrives)
{
    ask(CSN_FILE_LIST, 3);
    say_entry(CSN_FILE_REGULAR, 1, "a");
    say_entry(CSN_FILE_SYMLINK, 1, "b");
    say_done(0);
    CHECK_INT(answer(), CSN_OK);
    CHECK_INT(s.n_files, 2);
}

TEST(names_that_are_paths_are_refused)
{
    static const char *const names[] = { "../up", "a/b", "..", ".", "" };

    for (size_t i = 0; i < CSN_COUNT(names); i++) {
        ask(CSN_FILE_LIST, 3);
        say_entry(CSN_FILE_REGULAR, 1, names[i]);
        CHECK_INT(answer(), CSN_E_PROTOCOL);
        CHECK_INT(s.n_files, 0);
        close_all(NULL);
    }
}

TEST(kinds_and_sizes_out_of_range_are_refused)
{
    ask(CSN_FILE_LIST, 3);
    say_entry(77, 1, "a");
    CHECK_INT(answer(), CSN_E_PROTOCOL);
    close_all(NULL);
    ask(CSN_FILE_LIST, 3);
    say_entry(CSN_FILE_REGULAR, -5, "a");
    CHECK_INT(answer(), CSN_E_PROTOCOL);
}

TEST(more_than_was_asked_for_is_refused)
{
    ask(CSN_FILE_FIND, 2);
    for (int i = 0; i < 3; i++)
        say_entry(CSN_FILE_REGULAR, 1, "x/y");
    CHECK_INT(answer(), CSN_E_PROTOCOL);
    CHECK_INT(s.n_files, 2);
}

TEST(a_match_without_its_text_is_refused)
{
    csn_file_hit hit = { .line = 1 };
    char bytes[64];
    csn_pack p = { .data = bytes, .cap = sizeof(bytes) };

    ask(CSN_FILE_SEARCH, 2);
    csn_pack_str(&p, "only a path");
    say(CSN_FRAME_FILE_MATCH, &hit, sizeof(hit), &p, -1);
    CHECK_INT(answer(), CSN_E_PROTOCOL);
    CHECK_INT(s.n_matches, 0);
}

TEST(only_a_regular_file_is_let_through)
{
    int pipe_fd[2], pair[2];
    int dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    int path = open("/etc/passwd", O_PATH | O_CLOEXEC);
    int good = memfd_create("file", MFD_CLOEXEC);

    CHECK(pipe2(pipe_fd, O_CLOEXEC) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    const struct {
        int fd, want;
    } cases[] = { { pipe_fd[0], CSN_E_NOT_REGULAR }, { pair[0], CSN_E_NOT_REGULAR },
                  { dir, CSN_E_NOT_REGULAR },        { zero, CSN_E_NOT_REGULAR },
                  { path, CSN_E_PROTOCOL },          { -1, CSN_E_PROTOCOL },
                  { good, CSN_OK } };

    for (size_t i = 0; i < CSN_COUNT(cases); i++) {
        ask(CSN_FILE_OPEN, 0);
        say_fd(cases[i].fd);
        if (cases[i].want == CSN_OK)
            say_done(0);
        CHECK_INT(answer(), cases[i].want);
        CHECK((s.fd >= 0) == (cases[i].want == CSN_OK));
        close_all(NULL);
    }
}

/* A listener on this address, and a connection to it. */
static void connect_to(const char *address, int *ret_listener, int *ret_client, uint32_t *ret_port)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    socklen_t len = sizeof(a);

    CHECK(inet_pton(AF_INET, address, &a.sin_addr) == 1);
    *ret_listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *ret_client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(*ret_listener, (struct sockaddr *) &a, len) == 0 && listen(*ret_listener, 4) == 0);
    CHECK(getsockname(*ret_listener, (struct sockaddr *) &a, &len) == 0);
    CHECK(connect(*ret_client, (struct sockaddr *) &a, len) == 0);
    *ret_port = ntohs(a.sin_port);
}

TEST(only_a_connection_to_the_port_is_let_through)
{
    const struct linger forever = { .l_onoff = 1, .l_linger = 3600 };
    int listener, client, elsewhere, other, pair[2];
    int lone = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int datagram = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int file = memfd_create("file", MFD_CLOEXEC);
    uint32_t port, port2;

    connect_to("127.0.0.1", &listener, &client, &port);
    connect_to("127.0.0.2", &elsewhere, &other, &port2);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    CHECK(setsockopt(client, SOL_SOCKET, SO_LINGER, &forever, sizeof(forever)) == 0);
    const struct {
        int fd, want;
        uint32_t port;
    } cases[] = { { pair[0], CSN_E_PROTOCOL, port },  { lone, CSN_E_PROTOCOL, port },
                  { listener, CSN_E_PROTOCOL, port }, { datagram, CSN_E_PROTOCOL, port },
                  { file, CSN_E_PROTOCOL, port },     { client, CSN_E_PROTOCOL, port ^ 1 },
                  { other, CSN_E_PROTOCOL, port2 },   { -1, CSN_E_PROTOCOL, port },
                  { client, CSN_OK, port } };

    for (size_t i = 0; i < CSN_COUNT(cases); i++) {
        ask_with(CSN_FILE_CONNECT, cases[i].port, 0);
        say_fd(cases[i].fd);
        if (cases[i].want == CSN_OK)
            say_done(0);
        CHECK_INT(answer(), cases[i].want);
        CHECK((s.fd >= 0) == (cases[i].want == CSN_OK));
        if (cases[i].want == CSN_OK) {
            struct linger l = { 0 };
            socklen_t len = sizeof(l);
            CHECK(fcntl(s.fd, F_GETFL) & O_NONBLOCK);
            CHECK(fcntl(s.fd, F_GETFD) & FD_CLOEXEC);
            CHECK(getsockopt(s.fd, SOL_SOCKET, SO_LINGER, &l, &len) == 0 && l.l_onoff == 0);
        }
        close_all(NULL);
    }
}

TEST(a_port_where_nobody_listens_is_not_found)
{
    ask_with(CSN_FILE_CONNECT, 80, 0);
    say_done(ECONNREFUSED);
    CHECK_INT(answer(), CSN_E_NOT_FOUND);
    close_all(NULL);
    ask_with(CSN_FILE_CONNECT, 80, 0);
    say_done(ETIMEDOUT);
    CHECK_INT(answer(), CSN_E_TIMEOUT);
}

TEST(a_descriptor_nobody_asked_for_is_refused)
{
    ask(CSN_FILE_STAT, 0);
    say_fd(memfd_create("file", MFD_CLOEXEC));
    CHECK_INT(answer(), CSN_E_PROTOCOL);
    CHECK_INT(s.fd, -1);
}

TEST(two_descriptors_are_one_too_many)
{
    int fd = memfd_create("file", MFD_CLOEXEC);

    ask(CSN_FILE_OPEN, 0);
    say_fd(fd);
    say_fd(fd);
    CHECK_INT(answer(), CSN_E_PROTOCOL);
    CHECK_INT(s.fd, -1);
    close(fd);
}

TEST(success_without_the_descriptor_is_refused)
{
    ask(CSN_FILE_OPEN, 0);
    say_done(0);
    CHECK_INT(answer(), CSN_E_PROTOCOL);
}

TEST(errors_are_told_and_nonsense_isnt_believed)
{
    ask(CSN_FILE_STAT, 0);
    say_done(ENOENT);
    CHECK_INT(answer(), CSN_E_NOT_FOUND);
    CHECK_INT(s.err.sys_errno, ENOENT);
    close_all(NULL);
    ask(CSN_FILE_STAT, 0);
    say_done(-17);
    CHECK_INT(answer(), CSN_E_PROTOCOL);
    close_all(NULL);
    ask(CSN_FILE_STAT, 0);
    say_done(99999);
    CHECK_INT(answer(), CSN_E_PROTOCOL);
}

TEST(bytes_that_are_no_frame_end_it)
{
    ask(CSN_FILE_LIST, 3);
    CHECK(send(s.worker, "garbage that is no frame at all", 31, MSG_NOSIGNAL) == 31);
    CHECK_INT(answer(), CSN_E_PROTOCOL);
}

TEST(frames_of_a_keeper_are_none_of_a_workers)
{
    csn_done d = { 0 };

    ask(CSN_FILE_LIST, 3);
    say(CSN_FRAME_DONE, &d, sizeof(d), NULL, -1);
    CHECK_INT(answer(), CSN_E_PROTOCOL);
}

TEST(a_worker_that_just_ends_is_lost)
{
    ask(CSN_FILE_LIST, 3);
    say_entry(CSN_FILE_REGULAR, 1, "a");
    csn_close(&s.worker);
    CHECK_INT(answer(), CSN_E_LOST);
}

TEST(the_keepers_refusal_is_the_answer)
{
    csn_wire_error e = { .code = CSN_E_LIMIT, .message = "too many" };
    csn_out out = { .type = CSN_FRAME_ERROR, .fixed = &e, .fixed_len = sizeof(e) };

    ask(CSN_FILE_LIST, 3);
    out.seq = s.seq;
    CHECK_INT(csn_frame_send(s.keeper, &out), 0);
    CHECK_INT(answer(), CSN_E_LIMIT);
    CHECK_STR(s.err.message, "too many");
}

TEST(a_keeper_that_hangs_up_takes_the_verb_with_it)
{
    ask(CSN_FILE_LIST, 3);
    csn_close(&s.keeper);
    CHECK_INT(answer(), CSN_E_LOST);
}
