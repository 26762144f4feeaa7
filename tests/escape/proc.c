/* SPDX-License-Identifier: Apache-2.0 */
/* procfs and sysfs are the host's control panel (R8; CVE-2025-31133, -52565, -52881). */
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

#include "attack.h"

/* Masked: absent, unreadable, the null device or an empty directory. */
static enum verdict read_masked(const struct attack *self)
{
    struct stat st;
    int fd = open((const char *) self->arg[0], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return CONTAINED;
    close(fd);
    return S_ISCHR(st.st_mode) ? CONTAINED : BREACH;
}

static enum verdict list_masked(const struct attack *self)
{
    DIR *dir = opendir((const char *) self->arg[0]);
    if (!dir)
        return CONTAINED;
    int n = 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n > 2 ? BREACH : CONTAINED;
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
    return strstr(proc, "hidepid=invisible") || strstr(proc, "hidepid=2") ||
                   strstr(proc, "subset=pid")
               ? CONTAINED
               : BREACH;
}

static enum verdict cgroup_is_writable(const struct attack *self)
{
    return open_for_writing(self);
}

/* Some are for root alone even without a mask. None is written to. */
#define MASKED(name, walls, path) \
    { \
        "read_" name, "R8", walls, 0, read_masked, { (long) path }, path \
    }
#define READONLY(name, walls, path) \
    { \
        "write_" name, "R8", walls, 0, open_for_writing, { (long) path }, path \
    }
#define ROOTS (W_PROC | W_USERNS)

const struct attack attacks_proc[] = {
    MASKED("kcore", W_PROC, "/proc/kcore"),
    MASKED("kallsyms", W_PROC, "/proc/kallsyms"),
    MASKED("timer_list", ROOTS, "/proc/timer_list"),
    MASKED("interrupts", W_PROC, "/proc/interrupts"),
    MASKED("keys", W_PROC, "/proc/keys"),
    MASKED("config_gz", W_PROC, "/proc/config.gz"),
    MASKED("kmsg", W_PROC | W_USERNS | W_CAPS, "/proc/kmsg"),
    { "list_acpi", "R8", W_PROC, 0, list_masked, { (long) "/proc/acpi" }, "/proc/acpi/wakeup" },
    { "list_scsi", "R8", W_PROC, 0, list_masked, { (long) "/proc/scsi" }, "/proc/scsi/scsi" },
    READONLY("sysrq_trigger", ROOTS, "/proc/sysrq-trigger"),
    READONLY("core_pattern", ROOTS, "/proc/sys/kernel/core_pattern"),
    READONLY("modprobe", ROOTS, "/proc/sys/kernel/modprobe"),
    READONLY("kernel_hostname", ROOTS, "/proc/sys/kernel/hostname"),
    READONLY("ns_last_pid", W_PROC, "/proc/sys/kernel/ns_last_pid"),
    READONLY("drop_caches", ROOTS, "/proc/sys/vm/drop_caches"),
    READONLY("overcommit", ROOTS, "/proc/sys/vm/overcommit_memory"),
    READONLY("binfmt_register", ROOTS, "/proc/sys/fs/binfmt_misc/register"),
    READONLY("max_user_namespaces", W_PROC | W_CAPS, "/proc/sys/user/max_user_namespaces"),
    READONLY("ip_forward", W_PROC | W_CAPS, "/proc/sys/net/ipv4/ip_forward"),
    READONLY("irq_affinity", ROOTS, "/proc/irq/default_smp_affinity"),
    { "write_uid_map_of_init",
      "R8",
      W_USERNS,
      0,
      open_for_writing,
      { (long) "/proc/1/uid_map" },
      NULL },
    { "sysfs_mounted", "R8", W_ROOT, 0, sysfs_is_there, { 0 }, "/sys/kernel" },
    { "proc_shows_strangers", "R8", W_PROC, 0, proc_shows_strangers, { 0 }, NULL },
    { "cgroup_v1_procs_writable",
      "R22 (CVE-2022-0492)",
      W_ROOT | W_USERNS | W_LANDLOCK,
      0,
      cgroup_is_writable,
      { (long) "/sys/fs/cgroup/memory/cgroup.procs" },
      "/sys/fs/cgroup/memory/cgroup.procs" },
    { "cgroup_release_agent_writable",
      "R22 (CVE-2022-0492)",
      W_ROOT | W_USERNS | W_LANDLOCK,
      0,
      cgroup_is_writable,
      { (long) "/sys/fs/cgroup/memory/release_agent" },
      "/sys/fs/cgroup/memory/release_agent" },
    { 0 },
};
