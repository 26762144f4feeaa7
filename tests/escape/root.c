/* SPDX-License-Identifier: Apache-2.0 */
/* A reachable inode of the host is an escape (R6, R7, R10). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attack.h"

enum { OWN = 0, OF_THE_HOST = 1 };

static enum verdict has_canary_text(int dirfd, const char *path)
{
    char buf[256];
    int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return CONTAINED;
    ssize_t n = read(fd, buf, sizeof(buf) - 1);
    close(fd);
    if (n <= 0)
        return CONTAINED;
    buf[n] = '\0';
    return canary.host_text && strncmp(buf, canary.host_text, strlen(canary.host_text)) == 0
               ? BREACH
               : CONTAINED;
}

static enum verdict read_host_file(const struct attack *self)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s%s", (const char *) self->arg[0], canary.host_file);
    return has_canary_text(AT_FDCWD, path);
}

static enum verdict climb_with_dotdot(const struct attack *self)
{
    (void) self;
    char path[4096] = "";
    for (int i = 0; i < 64; i++)
        strcat(path, "../");
    strcat(path, canary.host_file + 1);
    return has_canary_text(AT_FDCWD, path);
}

/* CVE-2024-21626: a leaked descriptor or working directory of the host. */
static enum verdict climb_from_descriptors(const struct attack *self)
{
    (void) self;
    char path[64], up[4096];
    for (int fd = 0; fd < 256; fd++) {
        struct stat st;
        if (fstat(fd, &st) < 0)
            continue;
        if (fd > 2) {
            printf("descriptor %d is open\n", fd);
            return BREACH;
        }
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        snprintf(up, sizeof(up), "%s/../../../../../..%s", path, canary.host_file);
        if (has_canary_text(AT_FDCWD, up) == BREACH)
            return BREACH;
    }
    char cwd[4096];
    return getcwd(cwd, sizeof(cwd)) && cwd[0] == '/' ? CONTAINED : BREACH;
}

static enum verdict through_other_roots(const struct attack *self)
{
    char path[4200];
    DIR *dir = opendir("/proc");
    struct dirent *d;
    enum verdict v = CONTAINED;
    while (dir && (d = readdir(dir))) {
        if (d->d_name[0] < '0' || d->d_name[0] > '9')
            continue;
        snprintf(path, sizeof(path), "/proc/%s/%s%s", d->d_name, (const char *) self->arg[0],
                 canary.host_file);
        if (has_canary_text(AT_FDCWD, path) == BREACH)
            v = BREACH;
    }
    if (dir)
        closedir(dir);
    return v;
}

static enum verdict write_a_system_file(const struct attack *self)
{
    if (self->arg[1] == OF_THE_HOST && has_canary_text(AT_FDCWD, canary.host_file) != BREACH)
        return CONTAINED; /* what is written here is the sandbox's own layer */
    int fd = open((const char *) self->arg[0], O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        fd = open((const char *) self->arg[0], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0)
            unlink((const char *) self->arg[0]);
    }
    if (fd < 0)
        return CONTAINED;
    close(fd);
    return BREACH;
}

static enum verdict read_a_secret(const struct attack *self)
{
    char buf[64];
    return read_text((const char *) self->arg[0], buf, sizeof(buf)) > 0 ? BREACH : CONTAINED;
}

/* Host paths in mountinfo tell where the engine keeps things, and which directory to look for in the next bug. */
static enum verdict mountinfo_discloses(const struct attack *self)
{
    (void) self;
    static char buf[65536];
    int n = read_text("/proc/self/mountinfo", buf, sizeof(buf));
    if (n <= 0)
        return CONTAINED;
    static const char *const words[] = { "/boxes/",    "/layers/",   "caisson/",
                                         "lowerdir=/", "upperdir=/", "/.local/" };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strstr(buf, words[i])) {
            printf("mountinfo has %s\n", words[i]);
            return BREACH;
        }
    }
    return CONTAINED;
}

static enum verdict old_root_is_mounted(const struct attack *self)
{
    (void) self;
    static char buf[65536];
    read_text("/proc/self/mountinfo", buf, sizeof(buf));
    return strstr(buf, " ext4 ") || strstr(buf, " xfs ") || strstr(buf, " btrfs ") ? BREACH
                                                                                   : CONTAINED;
}

static enum verdict directory_has_entries(const struct attack *self)
{
    DIR *dir = opendir((const char *) self->arg[0]);
    if (!dir)
        return CONTAINED;
    struct dirent *d;
    int n = 0;
    while ((d = readdir(dir)))
        n += strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
             strcmp(d->d_name, "lock") != 0;
    closedir(dir);
    return n ? BREACH : CONTAINED;
}

/* Landlock lets everything be read: what there is to read is decided by the root alone. */
#define WRITE (W_ROOT | W_USERNS | W_LANDLOCK)

const struct attack attacks_root[] = {
    { "host_file_by_path", "R6", W_ROOT, NEEDS_CANARY, read_host_file, { (long) "" }, NULL },
    { "host_file_by_dotdot", "R6", W_ROOT, NEEDS_CANARY, climb_with_dotdot, { 0 }, NULL },
    { "host_file_by_proc_self_root",
      "R6",
      W_ROOT,
      NEEDS_CANARY,
      read_host_file,
      { (long) "/proc/self/root" },
      NULL },
    { "host_file_by_proc_root",
      "R6",
      W_ROOT,
      NEEDS_CANARY,
      through_other_roots,
      { (long) "root" },
      NULL },
    { "host_file_by_proc_cwd",
      "R6",
      W_ROOT,
      NEEDS_CANARY,
      through_other_roots,
      { (long) "cwd/../../.." },
      NULL },
    { "descriptors_left_open",
      "R10 (CVE-2024-21626)",
      0,
      NEEDS_CANARY,
      climb_from_descriptors,
      { 0 },
      NULL },
    { "write_usr_bin",
      "R6",
      WRITE,
      NEEDS_CANARY,
      write_a_system_file,
      { (long) "/usr/bin/csn-escape-probe", OF_THE_HOST },
      NULL },
    { "write_etc_passwd",
      "R6",
      WRITE,
      NEEDS_CANARY,
      write_a_system_file,
      { (long) "/etc/passwd", OF_THE_HOST },
      NULL },
    { "write_own_usr_bin",
      "R12",
      W_CAPS | W_LANDLOCK,
      NEEDS_ROOT_ENGINE,
      write_a_system_file,
      { (long) "/usr/bin/csn-escape-probe", OWN },
      NULL },
    { "write_own_passwd",
      "R12",
      W_CAPS | W_LANDLOCK,
      NEEDS_ROOT_ENGINE,
      write_a_system_file,
      { (long) "/etc/passwd", OWN },
      NULL },
    { "read_etc_shadow",
      "R6",
      W_ROOT | W_USERNS,
      0,
      read_a_secret,
      { (long) "/etc/shadow" },
      "/etc/shadow" },
    { "hosts_cron_jobs",
      "R6",
      W_ROOT,
      0,
      directory_has_entries,
      { (long) "/etc/cron.daily" },
      "/etc/cron.daily" },
    { "hosts_package_database",
      "R6",
      W_ROOT,
      0,
      directory_has_entries,
      { (long) "/var/lib/dpkg" },
      "/var/lib/dpkg" },
    { "hosts_var_log", "R6", W_ROOT, 0, directory_has_entries, { (long) "/var/log" }, "/var/log" },
    { "hosts_run", "R6", W_ROOT, 0, directory_has_entries, { (long) "/run" }, "/run" },
    { "mountinfo_discloses_host_paths", "R7", 0, 0, mountinfo_discloses, { 0 }, NULL },
    { "old_root_still_mounted", "R6", W_ROOT, 0, old_root_is_mounted, { 0 }, NULL },
    { 0 },
};
