/* SPDX-License-Identifier: Apache-2.0 */
/* procfs and sysfs are the host's control panel (R8; CVE-2025-31133, -52565, -52881). */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* Masked: absent, unreadable or without a byte. */
static enum verdict read_masked(const struct attack *self)
{
    char buf[256];
    const char *path = (const char *) self->arg[0];
    struct stat st;
    if (stat(path, &st) < 0)
        return CONTAINED;
    if (S_ISDIR(st.st_mode)) {
        DIR *dir = opendir(path);
        if (!dir)
            return CONTAINED;
        int n = 0;
        while (readdir(dir))
            n++;
        closedir(dir);
        return n > 2 ? BREACH : CONTAINED;
    }
    return read_text(path, buf, sizeof(buf)) > 0 || (S_ISREG(st.st_mode) && st.st_size > 0) ? BREACH : CONTAINED;
}

static enum verdict open_for_writing(const struct attack *self)
{
    int fd = open((const char *) self->arg[0], O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return CONTAINED;
    close(fd);
    return BREACH;
}

static enum verdict sysfs_is_there(const struct attack *self)
{
    (void) self;
    struct statfs fs;
    return statfs("/sys", &fs) == 0 && fs.f_type == 0x62656572 ? BREACH : CONTAINED;
}

/* hidepid: a process of another uid must not show. Inside there is one uid, so the flag itself is read. */
static enum verdict proc_shows_strangers(const struct attack *self)
{
    (void) self;
    char buf[8192];
    if (read_text("/proc/self/mountinfo", buf, sizeof(buf)) <= 0)
        return CONTAINED;
    char *proc = strstr(buf, " /proc ");
    char *end = proc ? strchr(proc, '\n') : NULL;
    if (!end)
        return BREACH;
    *end = '\0';
    return strstr(proc, "hidepid=invisible") || strstr(proc, "hidepid=2") || strstr(proc, "subset=pid") ? CONTAINED
                                                                                                       : BREACH;
}

static enum verdict cgroup_is_writable(const struct attack *self)
{
    return open_for_writing(self);
}

#define MASKED(name, path) { "read_" name, "R8", W_PROC | W_LANDLOCK | W_USERNS | W_CAPS, NEEDS_ROOT_ENGINE, read_masked, { (long) path } }
#define READONLY(name, path) \
    { "write_" name, "R8", W_PROC | W_LANDLOCK | W_USERNS | W_CAPS, NEEDS_ROOT_ENGINE, open_for_writing, { (long) path } }

const struct attack attacks_proc[] = {
    MASKED("kcore", "/proc/kcore"),
    MASKED("kallsyms", "/proc/kallsyms"),
    MASKED("timer_list", "/proc/timer_list"),
    MASKED("interrupts", "/proc/interrupts"),
    MASKED("keys", "/proc/keys"),
    MASKED("config_gz", "/proc/config.gz"),
    READONLY("sysrq_trigger", "/proc/sysrq-trigger"),
    READONLY("core_pattern", "/proc/sys/kernel/core_pattern"),
    READONLY("modprobe", "/proc/sys/kernel/modprobe"),
    READONLY("kernel_hostname", "/proc/sys/kernel/hostname"),
    READONLY("ns_last_pid", "/proc/sys/kernel/ns_last_pid"),
    READONLY("drop_caches", "/proc/sys/vm/drop_caches"),
    READONLY("overcommit", "/proc/sys/vm/overcommit_memory"),
    READONLY("binfmt_register", "/proc/sys/fs/binfmt_misc/register"),
    READONLY("max_user_namespaces", "/proc/sys/user/max_user_namespaces"),
    READONLY("ip_forward", "/proc/sys/net/ipv4/ip_forward"),
    READONLY("irq_affinity", "/proc/irq/default_smp_affinity"),
    READONLY("uid_map_of_init", "/proc/1/uid_map"),
    { "sysfs_mounted", "R8", W_ROOT, NEEDS_ROOT_ENGINE, sysfs_is_there, { 0 } },
    { "proc_shows_strangers", "R8", W_PROC, 0, proc_shows_strangers, { 0 } },
    { "cgroup_v1_procs_writable", "R22 (CVE-2022-0492)", W_ROOT | W_LANDLOCK | W_USERNS | W_CAPS, NEEDS_ROOT_ENGINE,
      cgroup_is_writable, { (long) "/sys/fs/cgroup/memory/cgroup.procs" } },
    { "cgroup_release_agent_writable", "R22 (CVE-2022-0492)", W_ROOT | W_LANDLOCK | W_USERNS | W_CAPS,
      NEEDS_ROOT_ENGINE, cgroup_is_writable, { (long) "/sys/fs/cgroup/memory/release_agent" } },
    { 0 },
};
