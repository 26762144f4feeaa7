/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "init/child.h"
#include "init/sys.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

enum { DEFAULT_ROWS = 24, DEFAULT_COLS = 80 };

/* The multiplexer of the sandbox's own devpts: a look at the device number keeps us from trusting its name. */
static int open_master(void)
{
    int fd = csn_sys_openat(AT_FDCWD, "/dev/ptmx", O_RDWR | O_NOCTTY, 0, RESOLVE_NO_MAGICLINKS);
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(5, 2))
        return fd;
    (void) close(fd); /* something else */
    return -ENXIO;
}

static int open_slave(int master, unsigned short rows, unsigned short cols, uid_t owner)
{
    struct winsize size = { .ws_row = rows ? rows : DEFAULT_ROWS,
                            .ws_col = cols ? cols : DEFAULT_COLS };
    int unlock = 0, fd;

    if (ioctl(master, TIOCSPTLCK, &unlock) < 0 || ioctl(master, TIOCSWINSZ, &size) < 0)
        return -errno;
    fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (owner != geteuid() && fchown(fd, owner, (gid_t) -1) < 0) {
        int e = errno;
        (void) close(fd); /* of no use to its user */
        return -e;
    }
    return fd;
}

int csn_tty_open(unsigned short rows, unsigned short cols, uid_t owner, int *ret_master,
                 int *ret_slave)
{
    int master = open_master(), slave;

    if (master < 0)
        return master;
    slave = open_slave(master, rows, cols, owner);
    if (slave < 0) {
        (void) close(master); /* useless alone */
        return slave;
    }
    *ret_master = master;
    *ret_slave = slave;
    return 0;
}
