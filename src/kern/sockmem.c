/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of netlink sockets. The kernel charges an answer that nobody reads to no cgroup, and each of a program's thousands of sockets
 * may hold megabytes of them. The table of a network namespace lists what each socket holds. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "lines.h"
#include "watch.h"

enum { TABLE_MAX = 4 << 20, PIECE = 16 << 10, FIELD_RMEM = 4, FIELD_WMEM = 5 };

/* "sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode" */
static uint64_t bytes_of(csn_str line)
{
    uint64_t sum = 0, value;

    for (int i = 0; i <= FIELD_WMEM; i++) {
        csn_str field = csn_lines_field(&line, ' ');
        if (i >= FIELD_RMEM && csn_parse_u64(field, &value) == 0)
            sum += value; /* the head of the table has words there */
    }
    return sum;
}

int csn_watch_netlink_open(int pid, int *ret_fd)
{
    char path[48];

    (void) snprintf(path, sizeof(path), "/proc/%d/net/netlink", pid); /* fits */
    *ret_fd = open(path, O_RDONLY | O_CLOEXEC);
    return *ret_fd < 0 ? -errno : 0;
}

int csn_watch_netlink(int fd, uint64_t *ret_bytes)
{
    char piece[PIECE];
    size_t have = 0;
    off_t at = 0;
    ssize_t n;

    *ret_bytes = 0;
    while (at < TABLE_MAX && (n = pread(fd, piece + have, sizeof(piece) - have, at)) != 0) {
        if (n < 0)
            return -errno;
        at += n;
        csn_str rest = csn_str_n(piece, have + (size_t) n);
        for (const char *end; (end = memchr(rest.data, '\n', rest.len));) {
            csn_str line = csn_str_n(rest.data, (size_t) (end - rest.data));
            *ret_bytes += bytes_of(line);
            rest = csn_str_n(end + 1, rest.len - line.len - 1);
        }
        have = rest.len < sizeof(piece) ? rest.len : 0; /* no line is as long as a piece */
        memmove(piece, rest.data, have);
    }
    return 0;
}
