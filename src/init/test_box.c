/* SPDX-License-Identifier: Apache-2.0 */
#include "init/test_box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "csn_test.h"
#include "init/init.h"
#include "init/sys.h"
#include "wire/spec.h"

enum { DEADLINE_MS = 30000 };

static void must(int r, const char *what)
{
    if (r < 0) {
        fprintf(stderr, "# inside: %s: %s\n", what, strerror(errno));
        _exit(99);
    }
}

static void furnish(void)
{
    must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private");
    must(mount("proc", "/proc", "proc", 0, "hidepid=invisible"), "proc");
    must(mount("tmpfs", "/home", "tmpfs", 0, "mode=755"), "home");
    must(mkdir("/home/daytona", 0755), "home");
    must(chown("/home/daytona", 1000, 1000), "home");
    must(mount("devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=620"), "devpts");
    must(mount("/dev/pts/ptmx", "/dev/ptmx", NULL, MS_BIND, NULL), "ptmx");
}

/* As a keeper has it: in memory, so that its path need not be open to the user it runs as. */
static int copy_of_init(void)
{
    csn_auto(buf) csn_buf image = CSN_BUF_INIT;
    char path[4096];
    int fd = memfd_create("init", MFD_CLOEXEC);

    (void) snprintf(path, sizeof(path), "%s/caisson-init", getenv("CSN_BUILD"));
    must(fd, "make a memfd");
    must(csn_read_file(AT_FDCWD, path, &image, 1 << 24), "read caisson-init");
    must(csn_write_all(fd, image.data, image.len), "copy caisson-init");
    must(fchmod(fd, 0555), "let everyone execute the copy");
    return fd;
}

static void run_inside(int sock, box_options o)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), program = o.real_binary ? copy_of_init() : -1;

    must(prctl(PR_SET_PDEATHSIG, SIGKILL), "death signal");
    furnish();
    if (!o.as_root)
        must(csn_sys_become(1000, 1000), "become");
    must(dup2(sock, 63), "socket");
    for (int i = 0; i < 3 && !getenv("CSN_TEST_NOISY"); i++)
        must(dup2(null, i), "null");
    must(dup2(63, CSN_CONTROL_FD), "socket");
    if (o.real_binary) {
        char name[] = "caisson-init";
        must(dup3(program, 62, O_CLOEXEC), "program");
        must(dup3(62, 4, O_CLOEXEC), "program");
        must(csn_sys_close_range(5), "close");
        (void) execveat(4, "", (char *[]){ name, NULL }, (char *[]){ NULL }, AT_EMPTY_PATH);
        _exit(98);
    }
    must(csn_sys_close_range(4), "close");
    csn_init_prepare();
    must(csn_frame_send(CSN_CONTROL_FD, &(csn_out){ .type = CSN_FRAME_INIT_READY }), "ready");
    csn_init_serve();
    _exit(0);
}

static void end_box(void *user)
{
    box_end(user);
    free(user);
}

int run_outside(const char *const *argv)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        execvp(argv[0], (char *const *) (uintptr_t) argv);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

static void remove_dir(void *user)
{
    if (run_outside(ARGV("rm", "-rf", user)) < 0)
        csn_test_note("%s stays", (char *) user);
}

static const char *a_dir(bool in_memory)
{
    static char path[] = "/dev/shm/csn-test-XXXXXX";
    const char *dir = csn_test_dir();
    char parent[4096];

    if (in_memory && access("/dev/shm", W_OK) == 0 && mkdtemp(path)) {
        csn_test_defer(remove_dir, path);
        dir = path;
    }
    CHECK(chmod(dir, 0777) == 0);
    (void) snprintf(parent, sizeof(parent), "%s/..", csn_test_dir());
    CHECK(chmod(parent, 0711) == 0);
    return dir;
}

box box_start(box_options o)
{
    const char *build = getenv("CSN_BUILD");
    box b = { 0 }, *kept;
    char path[4096];
    int pair[2];
    csn_msg msg;

    if (geteuid() != 0)
        SKIP("user: needs root for a PID namespace and mounts");
    (void) snprintf(path, sizeof(path), "%s/caisson-init", build ? build : "");
    if (o.real_binary && access(path, X_OK) < 0)
        SKIP("caisson-init is not built");
    b.dir = a_dir(o.in_memory);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    b.outer = (pid_t) syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);
    if (b.outer == 0)
        run_inside(pair[1], o);
    if (b.outer < 0)
        SKIP("kernel: no new PID namespace: %s", strerror(errno));
    close(pair[1]);
    b.sock = pair[0];
    kept = malloc(sizeof(*kept));
    CHECK(kept);
    *kept = b;
    csn_test_defer(end_box, kept);
    msg = box_hear(&b);
    CHECK_INT(msg.head.type, CSN_FRAME_INIT_READY);
    return b;
}

void box_end(box *b)
{
    if (b->outer > 0) {
        kill(b->outer, SIGKILL);
        waitpid(b->outer, NULL, 0);
    }
    b->outer = 0;
}

csn_msg hear_on(int sock, uint32_t said, char *buf)
{
    struct pollfd p = { .fd = sock, .events = POLLIN };
    csn_msg msg = CSN_MSG_INIT;
    int r;

    if (poll(&p, 1, DEADLINE_MS * csn_test_slow()) != 1)
        FAIL("nothing was said in %d ms", DEADLINE_MS * csn_test_slow());
    r = csn_frame_recv(sock, buf, CSN_FRAME_MAX, said, 0, &msg);
    if (r != 1)
        FAIL("no frame: %d", r);
    return msg;
}

csn_msg box_hear(box *b)
{
    static char buf[CSN_FRAME_MAX];

    return hear_on(b->sock, CSN_SAID_BY_INIT, buf);
}

csn_init_started box_hear_started(box *b, int *ret_master)
{
    csn_init_started body;
    csn_msg msg = box_hear(b);

    if (msg.head.type == CSN_FRAME_INIT_FAILED) {
        csn_init_failed failed;
        csn_msg_fixed(&msg, &failed, sizeof(failed));
        FAIL("failed in stage %u: %s", failed.stage, strerror(failed.sys_errno));
    }
    CHECK_INT(msg.head.type, CSN_FRAME_INIT_STARTED);
    csn_msg_fixed(&msg, &body, sizeof(body));
    if (ret_master)
        *ret_master = csn_msg_take_fd(&msg, 0);
    csn_msg_done(&msg);
    return body;
}

csn_init_exited box_hear_exited(box *b)
{
    csn_init_exited body;
    csn_msg msg = box_hear(b);

    CHECK_INT(msg.head.type, CSN_FRAME_INIT_EXITED);
    csn_msg_fixed(&msg, &body, sizeof(body));
    return body;
}

csn_init_failed box_hear_failed(box *b)
{
    csn_init_failed body;
    csn_msg msg = box_hear(b);

    CHECK_INT(msg.head.type, CSN_FRAME_INIT_FAILED);
    csn_msg_fixed(&msg, &body, sizeof(body));
    return body;
}

void box_spawn(box *b, command c)
{
    static char spec[CSN_BLOB_MAX];
    csn_pack p = { .data = spec, .cap = sizeof(spec) };
    static uint32_t next_process = 10000;
    csn_init_spawn body = { .process = c.process ? c.process : next_process++,
                            .kind = CSN_SPAWN_EXEC,
                            .flags = c.flags,
                            .fds = c.fds,
                            .rows = c.rows,
                            .cols = c.cols,
                            .uid = c.flags & CSN_SPAWN_ROOT ? 0 : 1000,
                            .gid = c.flags & CSN_SPAWN_ROOT ? 0 : 1000 };
    int fds[3];
    size_t n = 0;

    for (int i = 0; i < 3; i++)
        if (c.fds & (1u << i))
            fds[n++] = c.stdio[i];
    csn_spec_pack(&p, c.argv, c.env, c.cwd ? c.cwd : "/");
    CHECK_INT(p.error, 0);
    CHECK_INT(csn_frame_send(b->sock, &(csn_out){ .type = CSN_FRAME_INIT_SPAWN,
                                                  .fixed = &body,
                                                  .fixed_len = sizeof(body),
                                                  .rest = spec,
                                                  .rest_len = p.len,
                                                  .fds = fds,
                                                  .n_fds = n }),
              0);
}

void box_kill(box *b, uint32_t process, int sig, bool whole_tree)
{
    csn_init_kill body = { .process = process, .signal = sig, .whole_tree = whole_tree };

    CHECK_INT(csn_frame_send(b->sock, &(csn_out){ .type = CSN_FRAME_INIT_KILL,
                                                  .fixed = &body,
                                                  .fixed_len = sizeof(body) }),
              0);
}

static ssize_t read_in_time(int fd, char *buf, size_t size)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    if (poll(&p, 1, DEADLINE_MS * csn_test_slow()) != 1)
        FAIL("nothing to read in %d ms", DEADLINE_MS * csn_test_slow());
    return read(fd, buf, size);
}

const char *box_output(box *b, command c, csn_init_exited *ret_exited)
{
    static char out[1 << 20];
    size_t len = 0;
    ssize_t n;
    int pipe_fds[2];
    csn_init_exited exited;

    CHECK(pipe2(pipe_fds, O_CLOEXEC) == 0);
    c.fds |= CSN_FD_STDOUT | CSN_FD_STDERR;
    c.stdio[1] = c.stdio[2] = pipe_fds[1];
    box_spawn(b, c);
    close(pipe_fds[1]);
    box_hear_started(b, NULL);
    while ((n = read_in_time(pipe_fds[0], out + len, sizeof(out) - 1 - len)) > 0)
        len += (size_t) n;
    close(pipe_fds[0]);
    out[len] = '\0';
    exited = box_hear_exited(b);
    if (ret_exited)
        *ret_exited = exited;
    return out;
}

void wait_for_text(int fd, const char *text)
{
    static char seen[65536];
    size_t len = 0;

    while (len + 1 < sizeof(seen)) {
        ssize_t n = read_in_time(fd, seen + len, sizeof(seen) - 1 - len);
        if (n <= 0)
            FAIL("'%s' was not said, but '%s'", text, seen);
        len += (size_t) n;
        seen[len] = '\0';
        if (strstr(seen, text))
            return;
    }
    FAIL("'%s' was not said", text);
}

int box_ask(box *b, const csn_filereq *req, uint32_t uid)
{
    static char spec[CSN_BLOB_MAX];
    csn_pack p = { .data = spec, .cap = sizeof(spec) };
    csn_init_spawn body = {
        .kind = CSN_SPAWN_FILES, .fds = CSN_FD_CHANNEL, .uid = uid, .gid = uid
    };
    int pair[2];

    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    csn_filereq_pack(&p, req);
    CHECK_INT(p.error, 0);
    CHECK_INT(csn_frame_send(b->sock, &(csn_out){ .type = CSN_FRAME_INIT_SPAWN,
                                                  .fixed = &body,
                                                  .fixed_len = sizeof(body),
                                                  .rest = spec,
                                                  .rest_len = p.len,
                                                  .fds = &pair[1],
                                                  .n_fds = 1 }),
              0);
    close(pair[1]);
    return pair[0];
}

csn_file_done box_do(box *b, const csn_filereq *req)
{
    static char buf[CSN_FRAME_MAX];
    csn_file_done done;
    int sock = box_ask(b, req, 1000);

    for (;;) {
        csn_msg msg = hear_on(sock, CSN_SAID_BY_WORKER, buf);
        csn_msg_fixed(&msg, &done, sizeof(done));
        if (msg.head.type == CSN_FRAME_FILE_DONE)
            break;
        csn_msg_done(&msg);
    }
    close(sock);
    return done;
}

int count_processes(box *b)
{
    char path[64], line[256];
    int n = 0;
    struct dirent *e;
    DIR *dir = opendir("/proc");
    ino_t ours = 0;
    struct stat st;

    (void) snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int) b->outer);
    if (stat(path, &st) == 0)
        ours = st.st_ino;
    CHECK(dir);
    while ((e = readdir(dir))) {
        FILE *f;
        bool is_zombie = false;
        if (e->d_name[0] < '0' || e->d_name[0] > '9')
            continue;
        (void) snprintf(path, sizeof(path), "/proc/%.20s/ns/pid", e->d_name);
        if (stat(path, &st) < 0 || st.st_ino != ours)
            continue;
        (void) snprintf(path, sizeof(path), "/proc/%.20s/status", e->d_name);
        f = fopen(path, "re");
        while (f && fgets(line, sizeof(line), f))
            is_zombie |= strncmp(line, "State:\tZ", 8) == 0;
        if (f)
            fclose(f);
        n += !is_zombie;
    }
    closedir(dir);
    return n;
}

void wait_for_processes(box *b, int n)
{
    int seen = -1;

    for (int i = 0; i < 1000 && seen != n; i++) {
        seen = count_processes(b);
        if (seen != n)
            (void) poll(NULL, 0, 10);
    }
    CHECK_INT(seen, n);
}
