/* SPDX-License-Identifier: Apache-2.0 */
/* Device nodes go round every file permission (R9). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attack.h"

static enum verdict node_is_there(const struct attack *self)
{
    struct stat st;
    return stat((const char *) self->arg[0], &st) == 0 ? BREACH : CONTAINED;
}

/* Everything in /dev must be on the short list. */
static enum verdict anything_unlisted(const struct attack *self)
{
    (void) self;
    static const char *const listed[] = { "null",   "zero",   "full", "random", "urandom", "tty",
                                          "pts",    "ptmx",   "shm",  "fd",     "stdin",   "stdout",
                                          "stderr", "mqueue", ".",    ".." };
    DIR *dir = opendir("/dev");
    if (!dir)
        return CONTAINED;
    struct dirent *d;
    enum verdict v = CONTAINED;
    while ((d = readdir(dir))) {
        size_t i, n = sizeof(listed) / sizeof(listed[0]);
        for (i = 0; i < n && strcmp(listed[i], d->d_name) != 0; i++)
            ;
        if (i == n) {
            printf("/dev/%s\n", d->d_name);
            v = BREACH;
        }
    }
    closedir(dir);
    return v;
}

static enum verdict ptmx_is_the_hosts(const struct attack *self)
{
    (void) self;
    struct stat st;
    if (stat("/dev/pts/ptmx", &st) < 0)
        return CONTAINED;
    DIR *dir = opendir("/dev/pts");
    int n = 0;
    struct dirent *d;
    while (dir && (d = readdir(dir)))
        n += d->d_name[0] >= '0' && d->d_name[0] <= '9';
    if (dir)
        closedir(dir);
    return n > 0
               ? BREACH
               : CONTAINED; /* nobody has opened a terminal in here: a number is somebody else's */
}

#define NODE(name, path) \
    { \
        "dev_" name, "R9", W_DEV, 0, node_is_there, { (long) path }, path \
    }

const struct attack attacks_dev[] = {
    NODE("kmsg", "/dev/kmsg"),
    NODE("mem", "/dev/mem"),
    NODE("fuse", "/dev/fuse"),
    NODE("kvm", "/dev/kvm"),
    NODE("loop_control", "/dev/loop-control"),
    NODE("loop0", "/dev/loop0"),
    NODE("tun", "/dev/net/tun"),
    NODE("vsock", "/dev/vsock"),
    NODE("vhost_net", "/dev/vhost-net"),
    NODE("console", "/dev/console"),
    NODE("tty1", "/dev/tty1"),
    NODE("hwrng", "/dev/hwrng"),
    { "dev_has_something_unlisted", "R9", W_DEV, 0, anything_unlisted, { 0 }, NULL },
    { "terminals_of_others",
      "R9",
      W_DEV,
      0,
      ptmx_is_the_hosts,
      { 0 },
      NULL }, /* the host has one open */
    { 0 },
};
