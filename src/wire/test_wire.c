/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "csn_test.h"
#include "wire/filereq.h"
#include "wire/frame.h"
#include "wire/plan.h"
#include "wire/spec.h"

#define UNPACK_OF(p) \
    { \
        .data = (p).data, .len = (p).len \
    }

static char room[CSN_BLOB_MAX];

static csn_pack a_pack(void)
{
    return (csn_pack){ .data = room, .cap = sizeof(room) };
}

/* --- fields ---------------------------------------------------------------------------------------------------------- */

TEST(fields_come_out_as_they_went_in)
{
    csn_pack p = a_pack();
    size_t len;

    csn_pack_u32(&p, 0xdeadbeef);
    csn_pack_str(&p, "word");
    csn_pack_i64(&p, INT64_MIN);
    csn_pack_bytes(&p, "a\0b", 3);
    csn_pack_str(&p, NULL);
    CHECK_INT(p.error, 0);
    {
        csn_unpack u = UNPACK_OF(p);
        CHECK_INT(csn_unpack_u32(&u), 0xdeadbeef);
        CHECK_STR(csn_unpack_str(&u), "word");
        CHECK_INT(csn_unpack_i64(&u), INT64_MIN);
        CHECK(memcmp(csn_unpack_bytes(&u, &len), "a\0b", 4) == 0);
        CHECK_INT(len, 3);
        CHECK_STR(csn_unpack_str(&u), "");
        CHECK_INT(csn_unpack_end(&u), 0);
    }
}

TEST(a_full_buffer_is_a_sticky_error_and_nothing_is_written_behind_it)
{
    char small[16];
    csn_pack p = { .data = small, .cap = 8 };

    memset(small, 'x', sizeof(small));
    csn_pack_u32(&p, 1);
    csn_pack_str(&p, "long");
    CHECK_INT(p.error, -EMSGSIZE);
    csn_pack_u32(&p, 2); /* would fit */
    CHECK_INT(p.error, -EMSGSIZE);
    CHECK_INT(p.len, 4);
    CHECK_INT(small[8], 'x');
}

TEST(cut_and_lying_fields_are_refused)
{
    csn_pack p = a_pack();

    csn_pack_str(&p, "word");
    for (size_t len = 0; len < p.len; len++) {
        csn_unpack u = { .data = room, .len = len };
        CHECK_STR(csn_unpack_str(&u), "");
        CHECK_INT(csn_unpack_end(&u), -EBADMSG);
        CHECK_INT(csn_unpack_u32(&u), 0); /* sticky */
    }
    room[p.len - 1] = 'x'; /* not terminated */
    {
        csn_unpack u = UNPACK_OF(p);
        CHECK_STR(csn_unpack_str(&u), "");
        CHECK_INT(u.error, -EBADMSG);
    }
    memset(room, 0xff, 4); /* 4 GiB of string */
    {
        csn_unpack u = UNPACK_OF(p);
        CHECK_STR(csn_unpack_str(&u), "");
        CHECK_INT(u.error, -EBADMSG);
    }
    p = a_pack();
    csn_pack_bytes(&p, "a\0b", 3);
    {
        csn_unpack u = UNPACK_OF(p);
        CHECK_STR(csn_unpack_str(&u), "");
        CHECK_INT(u.error, -EBADMSG);
    }
    p = a_pack();
    csn_pack_u32(&p, 1);
    csn_pack_u32(&p, 2);
    {
        csn_unpack u = UNPACK_OF(p);
        csn_unpack_u32(&u);
        CHECK_INT(csn_unpack_end(&u), -EBADMSG); /* a rest */
    }
}

/* --- spec ------------------------------------------------------------------------------------------------------------ */

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

TEST(a_spec_comes_out_as_it_went_in)
{
    const char *table[16];
    csn_pack p = a_pack();
    csn_spec spec;

    csn_spec_pack(&p, LIST("ls", "-l", ""), LIST("A=1", "B="), "/tmp");
    CHECK_INT(p.len, csn_spec_size(LIST("ls", "-l", ""), LIST("A=1", "B="), "/tmp"));
    {
        csn_unpack u = UNPACK_OF(p);
        CHECK_INT(csn_spec_unpack(&u, table, 16, &spec), 0);
    }
    CHECK_INT(spec.argc, 3);
    CHECK_STR(spec.argv[0], "ls");
    CHECK_STR(spec.argv[2], "");
    CHECK(spec.argv[3] == NULL);
    CHECK_INT(spec.envc, 2);
    CHECK_STR(spec.env[1], "B=");
    CHECK(spec.env[2] == NULL);
    CHECK_STR(spec.cwd, "/tmp");
    {
        csn_unpack u = UNPACK_OF(p);
        CHECK_INT(csn_spec_unpack(&u, table, 6, &spec), -E2BIG);
    }
}

static int unpack_spec(const char *const *argv, const char *const *env)
{
    static const char *table[64];
    csn_pack p = a_pack();
    csn_spec spec;

    csn_spec_pack(&p, argv, env, NULL);
    csn_unpack u = UNPACK_OF(p);
    return csn_spec_unpack(&u, table, 64, &spec);
}

TEST(a_spec_without_program_or_with_bad_variables_is_refused)
{
    CHECK_INT(unpack_spec(NULL, NULL), -EBADMSG);
    CHECK_INT(unpack_spec(LIST("x"), NULL), 0);
    CHECK_INT(unpack_spec(LIST("x"), LIST("NOVALUE")), -EBADMSG);
    CHECK_INT(unpack_spec(LIST("x"), LIST("=x")), -EBADMSG);
    CHECK_INT(unpack_spec(LIST("x"), LIST("")), -EBADMSG);
}

TEST(a_spec_that_claims_more_strings_than_it_holds_is_refused)
{
    static const char *table[64];
    csn_pack p = a_pack();
    csn_spec spec;

    csn_pack_u32(&p, 0x7fffffff);
    csn_pack_str(&p, "x");
    csn_unpack u = UNPACK_OF(p);
    CHECK_INT(csn_spec_unpack(&u, table, 64, &spec), -EBADMSG);
}

/* --- plan ------------------------------------------------------------------------------------------------------------ */

static csn_plan a_plan(void)
{
    return (csn_plan){
        .mode = CSN_PLAN_RUN,
        .flags = CSN_PLAN_EPHEMERAL | CSN_PLAN_HOST_BASED,
        .state_dir = "/var/lib/caisson",
        .id = "0123456789abcdef0123456789abcdef",
        .name = "my-box",
        .target = "",
        .n_layers = 2,
        .layers = { "top", "bottom" },
        .n_mounts = 1,
        .mounts = { { "data", "/mnt/data", "sub/dir", 1 } },
        .hostname = "caisson",
        .id_base = 0x40000000,
        .id_index = 3,
        .memory_bytes = -1,
        .cpu_milli = 1500,
        .timeout_ms = 600000,
        .optional_walls = 5,
        .fault_at = 17,
    };
}

static int through(const csn_plan *in, csn_plan *out)
{
    csn_pack p = a_pack();

    csn_plan_pack(&p, in);
    if (p.error < 0)
        return p.error;
    csn_unpack u = UNPACK_OF(p);
    return csn_plan_unpack(&u, out);
}

TEST(a_plan_comes_out_as_it_went_in)
{
    csn_plan in = a_plan(), out = { 0 };

    CHECK_INT(through(&in, &out), 0);
    CHECK_STR(out.id, in.id);
    CHECK_STR(out.state_dir, in.state_dir);
    CHECK_STR(out.layers[1], "bottom");
    CHECK_STR(out.mounts[0].subpath, "sub/dir");
    CHECK_INT(out.mounts[0].is_read_only, 1);
    CHECK_INT(out.id_base, 0x40000000);
    CHECK_INT(out.memory_bytes, -1);
    CHECK_INT(out.cpu_milli, 1500);
    CHECK_INT(out.optional_walls, 5);
    CHECK_INT(out.fault_at, 17);
}

#define REFUSED(field, value) \
    do { \
        csn_plan bad = a_plan(), out = { 0 }; \
        bad.field = value; \
        if (through(&bad, &out) == 0) \
            FAIL("a plan with %s = %s was taken", #field, #value); \
    } while (0)

TEST(a_plan_with_any_bad_name_count_or_path_is_refused)
{
    REFUSED(mode, 0);
    REFUSED(mode, 4);
    REFUSED(flags, 1u << 30);
    REFUSED(state_dir, "relative");
    REFUSED(state_dir, "");
    REFUSED(id, "0123");
    REFUSED(id, "");
    REFUSED(id, "../456789abcdef0123456789abcdef");
    REFUSED(id, "0123456789ABCDEF0123456789abcdef");
    REFUSED(name, "../x");
    REFUSED(name, "a/b");
    REFUSED(layers[0], "");
    REFUSED(layers[1], "..");
    REFUSED(n_layers, CSN_PLAN_LAYERS_MAX + 1);
    REFUSED(n_mounts, CSN_PLAN_MOUNTS_MAX + 1);
    REFUSED(mounts[0].volume, "a/../b");
    REFUSED(mounts[0].path, "mnt");
    REFUSED(mounts[0].subpath, "/abs");
    REFUSED(mounts[0].subpath, "a/../../b");
    REFUSED(mounts[0].subpath, "a//b");
    REFUSED(mounts[0].is_read_only, 2);
    REFUSED(hostname, "-x");
    REFUSED(hostname, "a b");
    REFUSED(hostname, "x\n127.0.0.1 bank");
    REFUSED(id_base, -1);
    REFUSED(id_index, -2);
}

TEST(removing_and_copying_stay_below_the_state_directory)
{
    csn_plan plan = a_plan(), out = { 0 };

    plan.mode = CSN_PLAN_REMOVE;
    plan.id = "";
    plan.target = "boxes/x";
    CHECK_INT(through(&plan, &out), 0);
    plan.target = "";
    CHECK_INT(through(&plan, &out), -EBADMSG);
    plan.target = "boxes/../../etc";
    CHECK_INT(through(&plan, &out), -EBADMSG);
    plan.target = "/etc";
    CHECK_INT(through(&plan, &out), -EBADMSG);
    plan.target = "boxes/./x";
    CHECK_INT(through(&plan, &out), -EBADMSG);
}

TEST(a_plan_cut_anywhere_is_refused)
{
    csn_plan plan = a_plan(), out = { 0 };
    csn_pack p = a_pack();

    csn_plan_pack(&p, &plan);
    for (size_t len = 0; len < p.len; len++) {
        csn_unpack u = { .data = room, .len = len };
        CHECK_INT(csn_plan_unpack(&u, &out), -EBADMSG);
    }
}

/* --- file requests ----------------------------------------------------------------------------------------------------- */

static int request(csn_filereq req)
{
    csn_pack p = a_pack();
    csn_filereq out;

    csn_filereq_pack(&p, &req);
    csn_unpack u = UNPACK_OF(p);
    return csn_filereq_unpack(&u, &out);
}

TEST(file_requests_are_checked)
{
    CHECK_INT(request((csn_filereq){ .verb = CSN_FILE_STAT, .path = "/x" }), 0);
    CHECK_INT(request((csn_filereq){ .verb = CSN_FILEREQ_OPEN, .path = "x", .mode = -1 }), 0);
    CHECK_INT(request((csn_filereq){ .verb = CSN_FILEREQ_CONNECT, .path = "x", .flags = 65535 }), 0);
    CHECK_INT(request((csn_filereq){ .verb = CSN_FILEREQ_CONNECT, .path = "x" }), -EBADMSG);
    CHECK_INT(request((csn_filereq){ .verb = CSN_FILEREQ_CONNECT, .path = "x", .flags = 65536 }),
              -EBADMSG);
    CHECK_INT(request((csn_filereq){ .verb = CSN_FILE_REPLACE, .path = "x", .arg = "a" }), 0);
    CHECK_INT(request((csn_filereq){ .verb = CSN_FILE_REPLACE, .path = "x" }), -EBADMSG);
    CHECK_INT(request((csn_filereq){ .verb = CSN_FILE_SEARCH, .path = "x" }), -EBADMSG);
    CHECK_INT(request((csn_filereq){ .verb = CSN_FILE_STAT }), -EBADMSG);
    CHECK_INT(request((csn_filereq){ .verb = 0, .path = "x" }), -EBADMSG);
    CHECK_INT(request((csn_filereq){ .verb = 99, .path = "x" }), -EBADMSG);
    CHECK_INT(request((csn_filereq){ .verb = CSN_FILE_CHMOD, .path = "x", .mode = 010000 }),
              -EBADMSG);
}

/* --- frames ---------------------------------------------------------------------------------------------------------- */

static int pair[2];
static char buf[CSN_FRAME_MAX];

static void a_pair(void)
{
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
}

static int hear(uint32_t said, csn_msg *msg)
{
    return csn_frame_recv(pair[1], buf, sizeof(buf), said, MSG_DONTWAIT, msg);
}

TEST(a_frame_carries_struct_fields_and_descriptors)
{
    csn_spawn spawn = { .kind = CSN_SPAWN_EXEC, .fds = CSN_FD_STDIN, .timeout_ms = 5 }, got;
    csn_pack p = a_pack();
    csn_msg msg = CSN_MSG_INIT;
    csn_unpack u;

    a_pair();
    csn_pack_str(&p, "hello");
    CHECK_INT(csn_frame_send(pair[0], &(csn_out){ .type = CSN_FRAME_SPAWN,
                                                  .seq = 9,
                                                  .fixed = &spawn,
                                                  .fixed_len = sizeof(spawn),
                                                  .rest = room,
                                                  .rest_len = p.len,
                                                  .fds = (int[]){ 0 },
                                                  .n_fds = 1 }),
              0);
    CHECK_INT(hear(CSN_SAID_BY_CLIENT, &msg), 1);
    CHECK_INT(msg.head.seq, 9);
    CHECK_INT(msg.n_fds, 1);
    CHECK(fcntl(msg.fds[0], F_GETFD) & FD_CLOEXEC);
    csn_msg_fixed(&msg, &got, sizeof(got));
    CHECK_INT(got.timeout_ms, 5);
    u = csn_msg_rest(&msg, sizeof(got));
    CHECK_STR(csn_unpack_str(&u), "hello");
    CHECK_INT(csn_unpack_end(&u), 0);
    csn_msg_done(&msg);
    csn_msg_done(&msg);
    CHECK_INT(hear(CSN_SAID_BY_CLIENT, &msg), -EAGAIN);
    close(pair[0]);
    CHECK_INT(hear(CSN_SAID_BY_CLIENT, &msg), 0);
}

TEST(a_large_body_travels_in_a_sealed_memfd)
{
    csn_spawn spawn = { .kind = CSN_SPAWN_EXEC, .timeout_ms = 77 }, got;
    enum { LEN = 3 << 20 };
    char *big = malloc(LEN);
    csn_msg msg = CSN_MSG_INIT;
    int n = csn_test_count_fds();

    CHECK(big);
    a_pair();
    memset(big, 'b', LEN);
    CHECK_INT(csn_frame_send(pair[0], &(csn_out){ .type = CSN_FRAME_SPAWN,
                                                  .fixed = &spawn,
                                                  .fixed_len = sizeof(spawn),
                                                  .rest = big,
                                                  .rest_len = LEN,
                                                  .fds = (int[]){ 0, 1, 2 },
                                                  .n_fds = 3 }),
              0);
    CHECK_INT(hear(CSN_SAID_BY_CLIENT, &msg), 1);
    CHECK_INT(msg.n_fds, 3);
    CHECK_INT(msg.head.len, sizeof(spawn) + LEN);
    CHECK(msg.map != NULL);
    csn_msg_fixed(&msg, &got, sizeof(got));
    CHECK_INT(got.timeout_ms, 77);
    CHECK(memcmp(msg.body + sizeof(got), big, LEN) == 0);
    csn_msg_done(&msg);
    CHECK_INT(csn_test_count_fds(), n + 2);
    CHECK_INT(csn_frame_send(pair[0], &(csn_out){ .type = CSN_FRAME_SPAWN,
                                                  .fixed = &spawn,
                                                  .fixed_len = sizeof(spawn),
                                                  .rest = big,
                                                  .rest_len = CSN_BLOB_MAX }),
              -EMSGSIZE);
    CHECK_INT(csn_frame_send(pair[0], &(csn_out){ .type = CSN_FRAME_FILE_MATCH,
                                                  .fixed = &spawn,
                                                  .fixed_len = sizeof(csn_file_hit),
                                                  .rest = big,
                                                  .rest_len = CSN_FRAME_MAX }),
              -EMSGSIZE); /* workers have no memfds */
    free(big);
}

static void send_bytes(const void *data, size_t len, const int *fds, size_t n_fds)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int) * 32)];
    } control = { 0 };
    struct iovec iov = { (void *) (uintptr_t) data, len };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (n_fds > 0) {
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = (__typeof__(control.head.cmsg_len)) CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(&control.head), fds, sizeof(int) * n_fds);
        m.msg_control = &control;
        m.msg_controllen = (__typeof__(m.msg_controllen)) CMSG_SPACE(sizeof(int) * n_fds);
    }
    CHECK(sendmsg(pair[0], &m, 0) == (ssize_t) len);
}

static void refused_with(const csn_frame *head, size_t body_len, size_t n_fds, uint32_t said,
                         int fd)
{
    static char bytes[CSN_FRAME_MAX];
    int fds[32], n = csn_test_count_fds();
    csn_msg msg = CSN_MSG_INIT;

    memcpy(bytes, head, sizeof(*head));
    for (size_t i = 0; i < n_fds; i++)
        fds[i] = fd;
    send_bytes(bytes, sizeof(*head) + body_len, fds, n_fds);
    CHECK_INT(hear(said, &msg), -EBADMSG);
    CHECK_INT(csn_test_count_fds(), n); /* nothing stays open */
}

TEST(frames_that_must_not_be_are_refused_and_leave_no_descriptor)
{
    a_pair();
    /* unknown, zero, beyond the table */
    refused_with(&(csn_frame){ .type = 0 }, 0, 0, ~0u, 0);
    refused_with(&(csn_frame){ .type = 250 }, 0, 0, ~0u, 0);
    refused_with(&(csn_frame){ .type = 0x10001 }, 0, 0, ~0u, 0);
    /* of another kind */
    refused_with(&(csn_frame){ .type = CSN_FRAME_STAT }, 0, 0, CSN_SAID_BY_INIT, 0);
    /* a length that is not the type's, or not the body's */
    refused_with(&(csn_frame){ .type = CSN_FRAME_STAT, .len = 8 }, 8, 0, ~0u, 0);
    refused_with(&(csn_frame){ .type = CSN_FRAME_STOP, .len = 8 }, 4, 0, ~0u, 0);
    refused_with(&(csn_frame){ .type = CSN_FRAME_STOP, .len = 8 }, 12, 0, ~0u, 0);
    refused_with(&(csn_frame){ .type = CSN_FRAME_STOP, .len = 4 }, 4, 0, ~0u, 0);
    refused_with(&(csn_frame){ .type = CSN_FRAME_SPAWN, .len = 8 }, 8, 0, ~0u, 0);
    refused_with(&(csn_frame){ .type = CSN_FRAME_PLAN, .len = UINT32_MAX }, 8, 0, ~0u, 0);
    /* unknown flags */
    refused_with(&(csn_frame){ .type = CSN_FRAME_STAT, .flags = 2 }, 0, 0, ~0u, 0);
    /* descriptors where none belong, or too many */
    refused_with(&(csn_frame){ .type = CSN_FRAME_STAT }, 0, 1, ~0u, 0);
    refused_with(&(csn_frame){ .type = CSN_FRAME_SPAWN, .len = sizeof(csn_spawn) },
                 sizeof(csn_spawn), 4, ~0u, 0);
    refused_with(&(csn_frame){ .type = CSN_FRAME_SPAWN, .len = sizeof(csn_spawn) },
                 sizeof(csn_spawn), 30, ~0u, 0);
    /* a memfd that is none, not sealed, or not of the length said */
    refused_with(&(csn_frame){ .type = CSN_FRAME_SPAWN, .len = 4096, .flags = CSN_FRAME_MEMFD }, 0,
                 1, ~0u, 0);
    refused_with(&(csn_frame){ .type = CSN_FRAME_SPAWN, .len = 4096, .flags = CSN_FRAME_MEMFD }, 0,
                 0, ~0u, 0);
    refused_with(&(csn_frame){ .type = CSN_FRAME_STOP, .len = 8, .flags = CSN_FRAME_MEMFD }, 0, 1,
                 ~0u, 0);
}

static int a_memfd(size_t size, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    CHECK(fd >= 0 && ftruncate(fd, (off_t) size) == 0);
    CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

TEST(only_a_memfd_that_nobody_can_change_is_mapped)
{
    const int all = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    csn_frame head = { .type = CSN_FRAME_SPAWN, .len = 4096, .flags = CSN_FRAME_MEMFD };
    csn_msg msg = CSN_MSG_INIT;
    int fd;

    a_pair();
    refused_with(&head, 0, 1, ~0u, a_memfd(4096, 0));
    refused_with(&head, 0, 1, ~0u, a_memfd(4096, all & ~F_SEAL_WRITE));
    refused_with(&head, 0, 1, ~0u, a_memfd(4096, all & ~F_SEAL_SHRINK));
    refused_with(&head, 0, 1, ~0u, a_memfd(4096, all & ~F_SEAL_GROW));
    refused_with(&head, 0, 1, ~0u,
                 a_memfd(4096, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW));
    refused_with(&head, 0, 1, ~0u, a_memfd(4095, all));
    refused_with(&head, 0, 1, ~0u, a_memfd(8192, all));
    refused_with(&head, 1, 1, ~0u, a_memfd(4096, all)); /* a body beside it */
    head.len = CSN_BLOB_MAX + 1;
    refused_with(&head, 0, 1, ~0u, a_memfd(CSN_BLOB_MAX + 1, all));
    head.len = 4096;
    fd = a_memfd(4096, all);
    send_bytes(&head, sizeof(head), &fd, 1);
    CHECK_INT(hear(~0u, &msg), 1);
    CHECK_INT(msg.n_fds, 0);
    csn_msg_done(&msg);
}

TEST(a_cut_frame_and_an_empty_one_are_refused)
{
    csn_frame head = { .type = CSN_FRAME_STAT };
    csn_msg msg = CSN_MSG_INIT;

    a_pair();
    send_bytes(&head, sizeof(head) - 1, NULL, 0);
    CHECK_INT(hear(~0u, &msg), -EBADMSG);
    send_bytes(&head, sizeof(head), NULL, 0);
    CHECK_INT(csn_frame_recv(pair[1], buf, 8, ~0u, 0, &msg),
              -EBADMSG); /* our buffer was too small */
}

TEST(a_full_socket_says_so_and_a_closed_one_raises_no_signal)
{
    csn_done done = { 1 };
    csn_out out = {
        .type = CSN_FRAME_DONE, .fixed = &done, .fixed_len = sizeof(done), .flags = MSG_DONTWAIT
    };
    int r = 0;

    a_pair();
    for (int i = 0; r == 0 && i < 1000000; i++)
        r = csn_frame_send(pair[0], &out);
    CHECK_INT(r, -EAGAIN);
    close(pair[1]);
    CHECK_INT(csn_frame_send(pair[0], &out), -EPIPE);
}

TEST(the_last_words_of_a_peer_that_did_not_hear_ours_arrive)
{
    const csn_done done = { .value = 7 };
    csn_msg msg = CSN_MSG_INIT;

    a_pair();
    CHECK_INT(csn_frame_send(pair[0], &(csn_out){ .type = CSN_FRAME_STAT, .seq = 1 }), 0);
    CHECK_INT(csn_frame_send(pair[1], &(csn_out){ .type = CSN_FRAME_DONE,
                                                  .seq = 1,
                                                  .fixed = &done,
                                                  .fixed_len = sizeof(done) }),
              0);
    CHECK_INT(close(pair[1]), 0);
    CHECK_INT(csn_frame_recv(pair[0], room, sizeof(room), CSN_SAID_TO_CLIENT, 0, &msg), 1);
    CHECK_INT(msg.head.type, CSN_FRAME_DONE);
    csn_msg_done(&msg);
    CHECK_INT(csn_frame_recv(pair[0], room, sizeof(room), CSN_SAID_TO_CLIENT, 0, &msg), 0);
}
