/* SPDX-License-Identifier: Apache-2.0 */
#include "init/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "init/init.h"
#include "init/sys.h"

const char *csn_home_of(uid_t uid)
{
    return uid == 0 ? "/root" : "/home/daytona";
}

static int take_session(csn_child *c)
{
    if (setsid() < 0)
        return -errno;
    if (c->tty >= 0 && ioctl(c->tty, TIOCSCTTY, 0) < 0)
        return -errno;
    return 0;
}

static int take_stdio(csn_child *c)
{
    for (int i = 0; i < 3; i++) {
        int fd = c->tty >= 0 ? c->tty : c->stdio[i];
        if (fd >= 0 && dup2(fd, i) < 0)
            return -errno;
    }
    if ((c->flags & CSN_SPAWN_MERGED) && dup2(1, 2) < 0)
        return -errno;
    if (c->stdio[3] < 0)
        return csn_sys_close_range(3);
    if (dup2(c->stdio[3], 3) < 0)
        return -errno;
    return csn_sys_close_range(4);
}

/* When memory ends, the program should go before its shepherd. Only root may write it here, since we are not dumpable;
 * otherwise the set-up has done it for all of us. */
static void become_first_to_die(void)
{
    int fd;

    if (atomic_load(csn_oom_is_set))
        return;
    fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || write(fd, "500", 3) < 0)
        atomic_store(csn_oom_is_set, 1);
    if (fd >= 0)
        (void) close(fd); /* best effort */
}

static int take_user(csn_child *c)
{
    return c->change_user ? csn_sys_become(c->uid, c->gid) : 0;
}

/* Resolved inside and by descriptor: no link of /proc may lead out of it (R10). */
static int take_cwd(csn_child *c)
{
    static char where[4096];
    const char *home = csn_home_of(c->uid);
    const char *cwd = c->spec->cwd;
    int r, fd;

    if (cwd[0] != '/' && chdir(home) < 0 && chdir("/") < 0)
        return -errno;
    if (cwd[0] == '\0')
        cwd = ".";
    fd = csn_sys_openat(AT_FDCWD, cwd, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_MAGICLINKS);
    if (fd < 0)
        return fd;
    r = fchdir(fd) < 0 ? -errno : csn_sys_getcwd(where, sizeof(where));
    (void) close(fd); /* we stand in it */
    if (r < 0)
        return r;
    return where[0] == '/' ? 0 : -ENOENT;
}

static const struct child_step {
    int stage;
    int (*run)(csn_child *c);
} steps[] = {
    { CSN_STAGE_TTY, take_session },
    { CSN_STAGE_STDIO, take_stdio }, /* from here on nothing but stdio is open */
    { CSN_STAGE_USER, take_user },
    { CSN_STAGE_CWD, take_cwd }, /* with the user's rights */
};

int csn_child_run(void *child)
{
    csn_child *c = child;
    sigset_t none;
    int r;

    become_first_to_die();
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        r = steps[i].run(c);
        if (r < 0) {
            c->error = -r;
            c->stage = steps[i].stage;
            _exit(127);
        }
    }
    sigemptyset(&none);
    (void) sigprocmask(SIG_SETMASK, &none, NULL); /* valid arguments */
    c->error = csn_exec(c->spec, (c->flags & CSN_SPAWN_SHELL) != 0);
    c->stage = CSN_STAGE_EXEC;
    _exit(127);
}
