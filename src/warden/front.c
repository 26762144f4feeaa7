/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the front: another user when we are root, no rights, three descriptors beside stdin, stdout and stderr. It gets no
 * environment but what it is meant to know. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "kern/caps.h"
#include "kern/spawn.h"
#include "warden/warden.h"

enum { ARGS_MAX = 64 };

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

static int name_things(const csn_warden_options *o, csn_buf *program, csn_buf *data, csn_error *err)
{
    csn_buf_printf(program, "%s/caisson-serve", o->libexec);
    csn_buf_printf(data, "--data=%s/front", o->state);
    if (program->error < 0 || data->error < 0)
        return csn_fail(err, CSN_E_NO_MEMORY, "start the front");
    return csn_place_can_enter(&becomes, program->data, err);
}

static int spawn(csn_wd *wd, const csn_warden_options *o, int far_end, csn_error *err)
{
    csn_auto(buf) csn_buf program = CSN_BUF_INIT, data = CSN_BUF_INIT, key = CSN_BUF_INIT;
    csn_auto(fd) int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int stdio[3] = { null_fd, 1, 2 }, keep[] = { far_end, wd->listen_fd, wd->front_lock_fd };
    char *argv[ARGS_MAX], *envp[4];
    int r;

    if (null_fd < 0)
        return csn_fail_sys(err, -errno, "open /dev/null");
    r = name_things(o, &program, &data, err);
    if (r < 0)
        return r;
    r = make_argv(o, program.data, data.data, argv);
    if (r == 0)
        r = make_envp(&key, envp);
    if (r == 0)
        r = csn_spawn_prepared(argv, envp, stdio, keep, CSN_COUNT(keep), become, &wd->front_pid,
                               &wd->front_pidfd);
    return r < 0 ? csn_fail_sys(err, r, "start '%.128s'", program.data) : CSN_OK;
}

int csn_front_exec(const csn_warden_options *o, const csn_front_user *user, csn_error *err)
{
    csn_auto(buf) csn_buf program = CSN_BUF_INIT, data = CSN_BUF_INIT, key = CSN_BUF_INIT;
    char *argv[ARGS_MAX], *envp[4];
    int r;

    becomes = *user;
    warden_pid = getppid(); /* of the one who stays */
    r = name_things(o, &program, &data, err);
    if (r < 0)
        return r;
    r = make_argv(o, program.data, data.data, argv);
    if (r == 0)
        r = make_envp(&key, envp);
    if (r == 0)
        r = become();
    if (r == 0 && execve(program.data, argv, envp) < 0)
        r = -errno;
    return csn_fail_sys(err, r, "start '%.128s'", program.data);
}

int csn_front_start(csn_wd *wd, const csn_warden_options *o, const csn_front_user *user,
                    csn_error *err)
{
    csn_auto(fd) int far_end = -1;
    int pair[2], r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return csn_fail_sys(err, -errno, "make a socket pair");
    wd->link_fd = pair[0];
    far_end = pair[1];
    becomes = *user;
    warden_pid = getpid();
    r = spawn(wd, o, far_end, err);
    (void) unsetenv("CAISSON_API_KEY"); /* ours no more */
    return r;
}
