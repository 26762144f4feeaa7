/* SPDX-License-Identifier: Apache-2.0 */
#include "drive.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/time.h"
#include "csn_test.h"
#include "owner.h"
#include "wire/spec.h"

enum { WAIT_MS = 60000 }; /* the machine may be busy with other tests */

/* --- a state directory with a base layer --------------------------------------------------------------------------- */

void make_dir(const char *state, const char *path)
{
    char full[512];

    snprintf(full, sizeof(full), "%s/%s", state, path);
    if (mkdir(full, 0755) < 0 && errno != EEXIST)
        FAIL("mkdir %s: %s", full, strerror(errno));
}

void make_file(const char *state, const char *path, const char *text)
{
    char full[512];

    snprintf(full, sizeof(full), "%s/%s", state, path);
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK_INT(csn_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

void make_link(const char *state, const char *path, const char *target)
{
    char full[512];

    snprintf(full, sizeof(full), "%s/%s", state, path);
    if (symlink(target, full) < 0 && errno != EEXIST)
        FAIL("symlink %s: %s", full, strerror(errno));
}

static int give_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
    (void) st;
    (void) kind;
    (void) walk;
    return lchown(path, owner_for(0), group_for(0));
}

void make_base(const char *state, const char *base)
{
    static const char *const root[] = { "dev", "etc", "home", "proc", "root",
                                        "run", "tmp", "usr",  "var" };
    static const char *const links[] = { "bin", "lib", "lib64", "sbin" };
    char path[256], target[64];

    make_dir(state, base);
    for (size_t i = 0; i < sizeof(root) / sizeof(root[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", base, root[i]);
        make_dir(state, path);
    }
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", base, links[i]);
        snprintf(target, sizeof(target), "usr/%s", links[i]);
        make_link(state, path, target);
    }
    snprintf(path, sizeof(path), "%s/etc/passwd", base);
    make_file(state, path,
              "root:x:0:0:root:/root:/bin/sh\ndaytona:x:1000:1000::/home/daytona:/bin/sh\n");
    snprintf(path, sizeof(path), "%s/etc/hostname", base);
    make_file(state, path, "caisson\n");
    snprintf(path, sizeof(path), "%s/etc/hosts", base);
    make_file(state, path, "127.0.0.1 localhost caisson\n");
    snprintf(path, sizeof(path), "%s/%s", state, base);
    CHECK_INT(nftw(path, give_one, 16, FTW_PHYS), 0);
}

const char *make_state(void)
{
    static const char *const dirs[] = { "boxes", "names", "ids", "layers", "volumes", "host" };
    const char *state = csn_test_dir();

    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
        make_dir(state, dirs[i]);
    make_base(state, "host/root");
    char run[512];
    snprintf(run, sizeof(run), "%s/run", state);
    CHECK(symlink(".", run) == 0 ||
          errno == EEXIST); /* ephemeral boxes lie with the others: one place to look at */
    return state;
}

bool state_has(const char *state, const char *path)
{
    char full[512];
    struct stat st;

    snprintf(full, sizeof(full), "%s/%s", state, path);
    return lstat(full, &st) == 0;
}

/* --- a keeper -------------------------------------------------------------------------------------------------------- */

void start_keeper(box *b)
{
    const char *build = getenv("CSN_BUILD");
    char path[512];
    int ends[2];

    snprintf(path, sizeof(path), "%s/caisson-keeper", build ? build : ".");
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    b->keeper = fork();
    CHECK(b->keeper >= 0);
    if (b->keeper == 0) {
        dup2(ends[1], CSN_KEEPER_FD);
        execl(path, "caisson-keeper", (char *) NULL);
        _exit(127);
    }
    close(ends[1]);
    b->fd = ends[0];
}

uint32_t ask(box *b, uint32_t type, const void *fixed, size_t len, const void *rest,
             size_t rest_len, const int *fds, size_t n_fds)
{
    csn_out out = { .type = type,
                    .seq = ++b->seq,
                    .fixed = fixed,
                    .fixed_len = len,
                    .rest = rest,
                    .rest_len = rest_len,
                    .fds = fds,
                    .n_fds = n_fds };

    CHECK_INT(csn_frame_send(b->fd, &out), 0);
    return b->seq;
}

/* The next frame; 0 when the keeper has hung up. */
uint32_t hear(box *b)
{
    csn_msg_done(&b->msg);
    if (csn_wait_fd(b->fd, POLLIN, csn_deadline_in_ms(WAIT_MS)) != 1)
        FAIL("the keeper says nothing");
    int r = csn_frame_recv(b->fd, b->buf, sizeof(b->buf), CSN_SAID_TO_CLIENT, 0, &b->msg);
    if (r < 0)
        FAIL("receive: %s", strerror(-r));
    if (r == 0)
        return 0;
    return b->msg.head.type;
}

void expect(box *b, uint32_t type)
{
    uint32_t got = hear(b);

    if (got == CSN_FRAME_ERROR && type != CSN_FRAME_ERROR) {
        csn_wire_error e;
        csn_msg_fixed(&b->msg, &e, sizeof(e));
        FAIL("error %d instead of frame %u: %s", e.code, type, e.message);
    }
    CHECK_INT(got, type);
}

void send_plan(box *b)
{
    static char bytes[CSN_FRAME_MAX];
    csn_pack p = { .data = bytes, .cap = sizeof(bytes) };

    csn_plan_pack(&p, &b->plan);
    CHECK_INT(p.error, 0);
    ask(b, CSN_FRAME_PLAN, NULL, 0, bytes, p.len, NULL, 0);
}

void new_box(box *b, const char *state, uint32_t flags)
{
    char path[128];

    memset(b, 0, sizeof(*b));
    b->state = state;
    b->msg = (csn_msg) CSN_MSG_INIT;
    CHECK_INT(csn_id_hex(b->id, 16), 0);
    snprintf(path, sizeof(path), "boxes/%s", b->id);
    make_dir(state, path);
    b->plan = (csn_plan){
        .mode = CSN_PLAN_RUN,
        .flags = flags | CSN_PLAN_HOST_BASED,
        .state_dir = state,
        .id = b->id,
        .name = "",
        .target = "",
        .hostname = "",
        .id_base = is_machines_root() ? 0x40000000 + (int64_t) (getpid() % 1000) * 65536 : 0,
        .id_index = -1,
        .memory_bytes = 256 << 20,
        .cpu_milli = 1000,
        .pids = 64,
        .disk_bytes = 64 << 20,
        .disk_inodes = 5000,
        .open_files = 1024,
        .tmp_bytes = 16 << 20,
        .shm_bytes = 16 << 20,
        .timeout_ms = -1,
        .output_bytes = -1,
        .created_ms = csn_wall_ms(),
    };
}

void end_quietly(void *user)
{
    box *b = user;

    if (b->plan.flags & CSN_PLAN_DETACHED && b->keeper > 0)
        kill(b->keeper, SIGKILL); /* of its own it would live on */
    if (b->fd >= 0)
        close(b->fd);
    b->fd = -1;
    if (b->keeper > 0)
        waitpid(b->keeper, NULL, 0);
}

void start_box(box *b, const char *state, uint32_t flags)
{
    new_box(b, state, flags);
    start_keeper(b);
    csn_test_defer(end_quietly, b);
    send_plan(b);
    expect(b, CSN_FRAME_READY);
    csn_msg_fixed(&b->msg, &b->ready, sizeof(b->ready));
}

uint32_t spawn_with(box *b, const char *shell, csn_spawn spawn, const int *fds, size_t n_fds)
{
    static char bytes[CSN_FRAME_MAX];
    const char *const argv[] = { shell, NULL };
    const char *const env[] = { "PATH=/usr/bin:/bin", NULL };
    csn_pack p = { .data = bytes, .cap = sizeof(bytes) };

    spawn.kind = CSN_SPAWN_EXEC;
    spawn.flags |= CSN_SPAWN_SHELL;
    csn_spec_pack(&p, argv, env, "/");
    return ask(b, CSN_FRAME_SPAWN, &spawn, sizeof(spawn), bytes, p.len, fds, n_fds);
}

uint32_t started(box *b)
{
    csn_started s;

    expect(b, CSN_FRAME_STARTED);
    csn_msg_fixed(&b->msg, &s, sizeof(s));
    return s.process;
}

csn_process_state exited(box *b)
{
    csn_process_state s;

    expect(b, CSN_FRAME_EXITED);
    csn_msg_fixed(&b->msg, &s, sizeof(s));
    return s;
}

/* Runs a shell text; its output goes to `out`. */
csn_process_state run(box *b, const char *shell, char *out, size_t size)
{
    csn_spawn spawn = { .fds = CSN_FD_STDOUT, .output_bytes = -1 };
    int ends[2];

    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    spawn_with(b, shell, spawn, &ends[1], 1);
    close(ends[1]);
    started(b);
    csn_process_state s = exited(b);
    ssize_t n = out ? csn_read_all(ends[0], out, size - 1) : 0;
    CHECK(n >= 0);
    if (out)
        out[n] = '\0';
    close(ends[0]);
    return s;
}

void stop_box(box *b, int grace_ms, bool delete_too)
{
    csn_stop stop = { .grace_ms = grace_ms, .delete_too = delete_too };
    int status = -1;

    ask(b, CSN_FRAME_STOP, &stop, sizeof(stop), NULL, 0, NULL, 0);
    expect(b, CSN_FRAME_DONE);
    CHECK_INT(hear(b), 0);
    CHECK_INT(waitpid(b->keeper, &status, 0), b->keeper);
    b->keeper = 0;
    CHECK_INT(status, 0);
}

void check_gone(box *b)
{
    char path[128];

    snprintf(path, sizeof(path), "boxes/%s", b->id);
    CHECK(!state_has(b->state, path));
}
csn_process_state wait_log(box *b, uint32_t process, int64_t offset)
{
    csn_wait wait = { .process = process, .log_offset = offset };
    csn_process_state s;

    ask(b, CSN_FRAME_WAIT, &wait, sizeof(wait), NULL, 0, NULL, 0);
    uint32_t type = hear(b);
    if (type == CSN_FRAME_EXITED) /* unasked, and before the answer */
        type = hear(b);
    CHECK_INT(type, CSN_FRAME_STATE);
    csn_msg_fixed(&b->msg, &s, sizeof(s));
    return s;
}

size_t attach(box *b, uint32_t process, int fds[3])
{
    csn_process_ref ref = { .process = process };
    size_t n;

    ask(b, CSN_FRAME_ATTACH, &ref, sizeof(ref), NULL, 0, NULL, 0);
    expect(b, CSN_FRAME_STATE);
    n = b->msg.n_fds;
    for (size_t i = 0; i < n; i++)
        fds[i] = csn_msg_take_fd(&b->msg, i);
    return n;
}

void connect_box(box *b)
{
    char dir[256];
    struct sockaddr_un addr = { .sun_family = AF_UNIX };

    snprintf(dir, sizeof(dir), "%s/boxes/%s", b->state, b->id);
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/sock", fd);
    b->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(connect(b->fd, (struct sockaddr *) &addr, sizeof(addr)) == 0);
    close(fd);
}
