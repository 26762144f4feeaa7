/* SPDX-License-Identifier: Apache-2.0 */
#include "landlock.h"

#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "missing.h"

/* The bits of each ABI; linux-libc-dev 6.1 knows two of seven. */
#define FS_EXECUTE     (1ull << 0)
#define FS_WRITE_FILE  (1ull << 1)
#define FS_READ_FILE   (1ull << 2)
#define FS_READ_DIR    (1ull << 3)
#define FS_REMOVE_DIR  (1ull << 4)
#define FS_REMOVE_FILE (1ull << 5)
#define FS_MAKE_CHAR   (1ull << 6)
#define FS_MAKE_DIR    (1ull << 7)
#define FS_MAKE_REG    (1ull << 8)
#define FS_MAKE_SOCK   (1ull << 9)
#define FS_MAKE_FIFO   (1ull << 10)
#define FS_MAKE_BLOCK  (1ull << 11)
#define FS_MAKE_SYM    (1ull << 12)
#define FS_REFER       (1ull << 13) /* ABI 2; in ABI 1 linking across directories is always refused */
#define FS_TRUNCATE    (1ull << 14) /* ABI 3 */
#define FS_IOCTL_DEV   (1ull << 15) /* ABI 5 */

/* What makes sense on a rule for a plain file; the kernel refuses the others there. */
#define FILE_RIGHTS (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

#define NET_TCP      (3ull)      /* bind and connect, ABI 4 */
#define SCOPE_UNIX   (1ull << 0) /* ABI 6 */
#define SCOPE_SIGNAL (1ull << 1)

struct ruleset_attr {
    uint64_t handled_fs;
    uint64_t handled_net; /* ABI 4 */
    uint64_t scoped;      /* ABI 6 */
};

struct path_beneath {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

static const struct {
    unsigned right;
    uint64_t fs;
} rights_table[] = {
    { CSN_LANDLOCK_READ, FS_READ_FILE | FS_READ_DIR },
    { CSN_LANDLOCK_EXEC, FS_EXECUTE },
    { CSN_LANDLOCK_WRITE, FS_WRITE_FILE | FS_TRUNCATE | FS_REMOVE_DIR | FS_REMOVE_FILE |
                              FS_MAKE_DIR | FS_MAKE_REG | FS_MAKE_SOCK | FS_MAKE_FIFO |
                              FS_MAKE_SYM | FS_REFER },
    { CSN_LANDLOCK_DEV, FS_IOCTL_DEV },
    { CSN_LANDLOCK_NODES, FS_MAKE_CHAR | FS_MAKE_BLOCK },
    { CSN_LANDLOCK_WFILE, FS_WRITE_FILE | FS_TRUNCATE },
    { CSN_LANDLOCK_RMDIR, FS_REMOVE_DIR },
};

static uint64_t fs_rights_of(int abi)
{
    if (abi >= 5)
        return (FS_IOCTL_DEV << 1) - 1;
    if (abi >= 3)
        return (FS_TRUNCATE << 1) - 1;
    if (abi == 2)
        return (FS_REFER << 1) - 1;
    return (FS_MAKE_SYM << 1) - 1;
}

static size_t attr_size_of(int abi)
{
    if (abi >= 6)
        return sizeof(struct ruleset_attr);
    return abi >= 4 ? offsetof(struct ruleset_attr, scoped)
                    : offsetof(struct ruleset_attr, handled_net);
}

int csn_landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1u /* VERSION */);

    return abi < 0 ? -errno : (int) abi;
}

int csn_landlock_begin(csn_landlock *rs, unsigned flags)
{
    int abi = csn_landlock_abi();
    int r = csn_fault_as("landlock_begin", EOPNOTSUPP);

    if (abi < 0 || r < 0)
        return abi < 0 ? abi : r;
    struct ruleset_attr attr = { .handled_fs = fs_rights_of(abi) };
    if (abi >= 4 && flags & CSN_LANDLOCK_NO_TCP)
        attr.handled_net = NET_TCP;
    if (abi >= 6 && flags & CSN_LANDLOCK_SCOPE_UNIX)
        attr.scoped |= SCOPE_UNIX;
    if (abi >= 6 && flags & CSN_LANDLOCK_SCOPE_SIGNAL)
        attr.scoped |= SCOPE_SIGNAL;
    int fd = (int) syscall(SYS_landlock_create_ruleset, &attr, attr_size_of(abi), 0);
    if (fd < 0)
        return -errno;
    *rs = (csn_landlock){ .fd = fd, .abi = abi, .handled = attr.handled_fs };
    return 0;
}

int csn_landlock_allow(csn_landlock *rs, int fd, unsigned rights)
{
    struct path_beneath rule = { .parent_fd = fd };
    struct stat st;

    for (size_t i = 0; i < sizeof(rights_table) / sizeof(rights_table[0]); i++)
        if (rights & rights_table[i].right)
            rule.allowed |= rights_table[i].fs;
    rule.allowed &= rs->handled;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        rule.allowed &= FILE_RIGHTS;
    if (!rule.allowed)
        return 0; /* the kernel calls an empty rule ENOMSG; it changes nothing */
    return syscall(SYS_landlock_add_rule, rs->fd, 1 /* PATH_BENEATH */, &rule, 0) < 0 ? -errno : 0;
}

int csn_landlock_restrict(csn_landlock *rs)
{
    int r = csn_fault("landlock_restrict");

    if (r == 0 && syscall(SYS_landlock_restrict_self, rs->fd, 0) < 0)
        r = -errno;
    csn_landlock_done(rs);
    return r;
}

void csn_landlock_done(csn_landlock *rs)
{
    csn_close(&rs->fd);
}
