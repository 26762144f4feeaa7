/* SPDX-License-Identifier: Apache-2.0 */
/* The few files of the sandbox's own that no layer can bring: its home, its name. Written only where they differ from
 * what a layer has, since each write copies a directory up. No symlink is followed. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "inside_impl.h"
#include "keeper.h"
#include "kern/mount.h"
#include "kern/net.h"

int csn_inside_make_home(csn_inside *in)
{
    csn_auto(fd) int home = -1;
    struct stat st;
    int r;

    if (fstatat(in->root_fd, "home/daytona", &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0; /* the image's own, or from an earlier run */
    r = csn_target_open(in->root_fd, "home/daytona", CSN_TARGET_DIR, &home);
    if (r < 0)
        return r;
    return fchownat(home, "", CSN_INSIDE_UID, CSN_INSIDE_UID, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/* True when /etc/`name` is a regular file that holds `text`. */
static bool holds(int etc, const char *name, const char *text)
{
    char have[4096];
    csn_auto(fd) int fd = openat(etc, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    n = csn_read_all(fd, have, sizeof(have) - 1);
    if (n < 0)
        return false;
    have[n] = '\0';
    return strstr(have, text) != NULL;
}

static int replace(int etc, const char *name, const char *text)
{
    csn_auto(fd) int fd = -1;

    if (unlinkat(etc, name, 0) < 0 && errno != ENOENT)
        return -errno;
    fd = openat(etc, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : csn_write_all(fd, text, strlen(text));
}

int csn_inside_write_names(csn_inside *in)
{
    const char *host = in->plan.hostname[0] ? in->plan.hostname : "caisson";
    csn_auto(fd) int etc = -1;
    char line[128], hosts[512];
    int r = csn_target_open(in->root_fd, "etc", CSN_TARGET_DIR, &etc);

    if (r < 0)
        return r;
    (void) snprintf(line, sizeof(line), "%s\n", host); /* at most 63 bytes */
    (void) snprintf(
        hosts, sizeof(hosts),
        "127.0.0.1\tlocalhost\n127.0.1.1\t%s\n::1\tlocalhost ip6-localhost ip6-loopback\n",
        host);                        /* the same */
    if (holds(etc, "hostname", line)) /* then it is our base, and its hosts fit */
        hosts[0] = '\0';
    else
        r = replace(etc, "hostname", line);
    if (r == 0 && hosts[0] && !holds(etc, "hosts", host))
        r = replace(etc, "hosts", hosts);
    if (r == 0 && in->plan.flags & CSN_PLAN_OUTBOUND)
        r = replace(etc, "resolv.conf", "nameserver " CSN_SLIRP_DNS "\n");
    return r;
}
