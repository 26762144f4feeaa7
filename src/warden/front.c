/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the front: another user when we are root, no rights, three descriptors beside stdin, stdout and stderr. It gets no
 * environment but what it is meant to know. Its program and its directory are opened here, by who may: in a clone below
 * root's home neither can be reached by the front's user. The directory becomes its current one. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "kern/caps.h"
#include "kern/spawn.h"
#include "warden/warden.h"

enum { ARGS_MAX = 64 };

/* In the child, until it is there: behind the link, the socket and the lock. */
enum { DATA_FD = 6 };

static csn_front_user becomes; /* what the child below reads: `prepare` takes no argument */
static pid_t warden_pid;

/* It takes the host's mounts as they are: without a capability, and with no_new_privs, it can't change one. In a namespace
 * of its own it would hold on to file systems that the host unmounts, for as long as the server runs. */
static int become(void)
{
    if (becomes.is_other &&
        (setgroups(0, NULL) < 0 || setresgid(becomes.gid, becomes.gid, becomes.gid) < 0 ||
         setresuid(becomes.uid, becomes.uid, becomes.uid) < 0))
        return -errno;
    /* a change of user takes the wish back, so it is said again; and we may have died meanwhile */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != warden_pid)
        return -ESRCH;
    int r = csn_caps_clear();
    return r < 0 ? r : csn_no_new_privs();
}

static int enter_and_become(void *user)
{
    (void) user;
    if (fchdir(DATA_FD) < 0 || close(DATA_FD) < 0)
        return -errno;
    return become();
}

static int make_argv(const csn_warden_options *o, char *program, char *data, char **argv)
{
    static char missing[sizeof(o->missing)];
    size_t n = 0;

    argv[n++] = program;
    argv[n++] = data;
    memcpy(missing, o->missing, sizeof(missing));
    if (missing[0])
        argv[n++] = missing;
    for (char **a = o->front_argv; a && *a; a++) {
        if (n == ARGS_MAX - 1)
            return -E2BIG;
        argv[n++] = *a;
    }
    argv[n] = NULL;
    return 0;
}

/* The key travels in the environment, which only the same user and root can read; arguments are for everyone to see. */
static int make_envp(csn_buf *key, char **envp)
{
    static char path[] = "PATH=/usr/bin:/bin", asan[] = "ASAN_OPTIONS=detect_leaks=0";
    const char *value = getenv("CAISSON_API_KEY");
    size_t n = 0;

    envp[n++] = path;
    envp[n++] = asan;
    if (value && csn_buf_printf(key, "CAISSON_API_KEY=%s", value) < 0)
        return key->error;
    if (value)
        envp[n++] = key->data;
    envp[n] = NULL;
    return 0;
}

static bool may_run(const csn_front_user *user, const struct stat *st)
{
    if (st->st_uid == user->uid)
        return st->st_mode & S_IXUSR;
    if (st->st_gid == user->gid)
        return st->st_mode & S_IXGRP;
    return st->st_mode & S_IXOTH;
}

/* What was built under umask 077 nobody else may execute: a copy in memory is. */
static int copy_program(int *fd, size_t len)
{
    void *bytes = mmap(NULL, len, PROT_READ, MAP_PRIVATE, *fd, 0);
    int copy = -1;

    if (bytes == MAP_FAILED)
        return -errno;
    int r = csn_memfd_sealed("caisson-serve", bytes, len, &copy);
    (void) munmap(bytes, len); /* can't fail: it is all of it */
    if (r < 0)
        return r;
    csn_close(fd);
    *fd = copy;
    return 0;
}

static int open_program(const char *path, int *ret_fd)
{
    csn_auto(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    int r = 0;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (becomes.is_other && !may_run(&becomes, &st))
        r = copy_program(&fd, (size_t) st.st_size);
    if (r == 0)
        *ret_fd = csn_take_fd(&fd);
    return r;
}

static int name_things(const csn_warden_options *o, csn_buf *program, csn_buf *data,
                       int *ret_program_fd, csn_error *err)
{
    csn_buf_printf(program, "%s/caisson-serve", o->libexec);
    csn_buf_printf(data, "--data=%s/front", o->state);
    if (program->error < 0 || data->error < 0)
        return csn_fail(err, CSN_E_NO_MEMORY, "start the front");
    int r = open_program(program->data, ret_program_fd);
    return r < 0 ? csn_fail_sys(err, r, "open '%.128s'", program->data) : CSN_OK;
}

static int spawn(csn_wd *wd, const csn_warden_options *o, int far_end, int front_fd, csn_error *err)
{
    csn_auto(buf) csn_buf program = CSN_BUF_INIT, data = CSN_BUF_INIT, key = CSN_BUF_INIT;
    csn_auto(fd) int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    csn_auto(fd) int program_fd = -1;
    const int stdio[3] = { null_fd, 1, 2 };
    const int keep[] = { far_end, wd->listen_fd, wd->front_lock_fd, front_fd };
    char *argv[ARGS_MAX], *envp[4];
    int r;

    if (null_fd < 0)
        return csn_fail_sys(err, -errno, "open /dev/null");
    r = name_things(o, &program, &data, &program_fd, err);
    if (r < 0)
        return r;
    r = make_argv(o, program.data, data.data, argv);
    if (r == 0)
        r = make_envp(&key, envp);
    if (r == 0)
        r = csn_spawn_prepared(program_fd, argv, envp, stdio, keep, CSN_COUNT(keep),
                               enter_and_become, NULL, &wd->front_pid, &wd->front_pidfd);
    return r < 0 ? csn_fail_sys(err, r, "start '%.128s'", program.data) : CSN_OK;
}

int csn_front_exec(const csn_warden_options *o, const csn_front_user *user, int front_fd,
                   csn_error *err)
{
    csn_auto(buf) csn_buf program = CSN_BUF_INIT, data = CSN_BUF_INIT, key = CSN_BUF_INIT;
    csn_auto(fd) int program_fd = -1;
    char *argv[ARGS_MAX], *envp[4];
    int r;

    becomes = *user;
    warden_pid = getppid(); /* of the one who stays */
    r = name_things(o, &program, &data, &program_fd, err);
    if (r < 0)
        return r;
    r = make_argv(o, program.data, data.data, argv);
    if (r == 0)
        r = make_envp(&key, envp);
    if (r == 0 && fchdir(front_fd) < 0)
        r = -errno;
    if (r == 0)
        r = become();
    if (r == 0)
        r = csn_exec_fd(program_fd, argv, envp);
    return csn_fail_sys(err, r, "start '%.128s'", program.data);
}

int csn_front_start(csn_wd *wd, const csn_warden_options *o, const csn_front_user *user,
                    int front_fd, csn_error *err)
{
    csn_auto(fd) int far_end = -1;
    int pair[2], r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return csn_fail_sys(err, -errno, "make a socket pair");
    wd->link_fd = pair[0];
    far_end = pair[1];
    becomes = *user;
    warden_pid = getpid();
    r = spawn(wd, o, far_end, front_fd, err);
    (void) unsetenv("CAISSON_API_KEY"); /* ours no more */
    return r;
}
