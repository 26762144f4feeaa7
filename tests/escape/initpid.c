/* SPDX-License-Identifier: Apache-2.0 */
/* Process 1 is the attacker's nearest neighbour that is not his (R11, R15, CVE-2019-5736). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attack.h"

static enum verdict open_of_init(const struct attack *self)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/1/%s", (const char *) self->arg[0]);
    int fd = open(path, (int) self->arg[1] | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return CONTAINED;
    char buf[64];
    ssize_t n = (self->arg[1] & O_ACCMODE) == O_RDONLY ? read(fd, buf, sizeof(buf)) : 1;
    close(fd);
    return n > 0 ? BREACH : CONTAINED;
}

static enum verdict list_of_init(const struct attack *self)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/1/%s", (const char *) self->arg[0]);
    DIR *dir = opendir(path);
    if (!dir)
        return CONTAINED;
    int n = 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n > 2 ? BREACH : CONTAINED;
}

static enum verdict link_of_init(const struct attack *self)
{
    char path[64], target[256];
    snprintf(path, sizeof(path), "/proc/1/%s", (const char *) self->arg[0]);
    return readlink(path, target, sizeof(target)) < 0 ? CONTAINED : BREACH;
}

static enum verdict kill_init(const struct attack *self)
{
    (void) self;
    static const int signals[] = { SIGKILL, SIGTERM, SIGSTOP, SIGSEGV,
                                   SIGHUP,  SIGABRT, SIGSYS,  SIGXCPU };
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        kill(1, signals[i]);
    return kill(1, 0) == 0 || errno == EPERM || errno == ESRCH ? CONTAINED : BREACH;
}

static enum verdict trace_init(const struct attack *self)
{
    (void) self;
    return refused(call(SYS_ptrace, 0x4206 /* PTRACE_SEIZE: doesn't stop it */, 1, 0, 0, 0, 0));
}

static enum verdict starve_init(const struct attack *self)
{
    (void) self;
    unsigned long limit[2] = { 0, 0 };
    return refused(call(SYS_prlimit64, 1, 7, (long) limit, 0, 0, 0));
}

/* Secrets of the engine's own environment must not be in any process's block but ours, and ours is clean. */
static enum verdict engine_environment(const struct attack *self)
{
    (void) self;
    extern char **environ;
    for (char **e = environ; *e; e++)
        if (strstr(*e, "CSN_CANARY"))
            return BREACH;
    char buf[4096];
    return read_text("/proc/1/environ", buf, sizeof(buf)) > 0 ? BREACH : CONTAINED;
}

/* A non-dumpable process belongs to nobody's eyes: with all capabilities in the namespace they open again;
 * the files among them that have a mode only where inside 0, whose they then are, is mapped. */
const struct attack attacks_init[] = {
    { "init_memory",
      "R11",
      W_CAPS,
      NEEDS_ROOT_ENGINE,
      open_of_init,
      { (long) "mem", O_RDWR },
      NULL },
    { "init_maps", "R11", W_CAPS, 0, open_of_init, { (long) "maps", O_RDONLY }, NULL },
    { "init_auxv",
      "R11",
      W_CAPS,
      NEEDS_ROOT_ENGINE,
      open_of_init,
      { (long) "auxv", O_RDONLY },
      NULL },
    { "init_descriptors", "R11", W_CAPS, NEEDS_ROOT_ENGINE, list_of_init, { (long) "fd" }, NULL },
    { "init_exe", "R11 (CVE-2019-5736)", W_CAPS, 0, link_of_init, { (long) "exe" }, NULL },
    { "init_root_link", "R11", W_CAPS, 0, link_of_init, { (long) "root" }, NULL },
    { "init_cwd_link", "R11", W_CAPS, 0, link_of_init, { (long) "cwd" }, NULL },
    { "init_ns_link", "R11", W_CAPS, 0, link_of_init, { (long) "ns/net" }, NULL },
    { "init_environ", "R11, R33", 0, 0, engine_environment, { 0 }, NULL },
    { "init_killed", "R11", 0, 0, kill_init, { 0 }, NULL },
    { "init_traced", "R11, R15", W_SECCOMP | W_CAPS, 0, trace_init, { 0 }, NULL },
    { "init_starved_of_descriptors", "R11", W_SECCOMP, SPOILS_SANDBOX, starve_init, { 0 }, NULL },
    { 0 },
};
