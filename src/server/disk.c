/* SPDX-License-Identifier: Apache-2.0 */
#include "server/disk.h"

#include <fcntl.h>
#include <sys/vfs.h>

#include "base/fd.h"

#define MIB (INT64_C(1) << 20)
#define RESERVE_MAX \
    (1024 * MIB) /* of a reserve that nobody chose; below that a twentieth of the file system */

/* The front's own directory lies beside the engine's: one file system. */
csn_disk csn_disk_look(const csn_server *server)
{
    csn_auto(fd) int fd = open(CSN_DATA_HERE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    csn_disk disk = { .total_bytes = INT64_MAX, .free_bytes = INT64_MAX };
    struct statfs fs;

    if (fd < 0 || fstatfs(fd, &fs) < 0)
        return disk;
    disk.total_bytes = (int64_t) fs.f_blocks * (int64_t) fs.f_bsize;
    disk.free_bytes = (int64_t) fs.f_bavail * (int64_t) fs.f_bsize;
    disk.reserve_bytes = server->config.disk_reserve_bytes;
    if (disk.reserve_bytes < 0)
        disk.reserve_bytes =
            disk.total_bytes / 20 < RESERVE_MAX ? disk.total_bytes / 20 : RESERVE_MAX;
    return disk;
}

bool csn_disk_is_low(const csn_server *server)
{
    csn_disk disk = csn_disk_look(server);

    return disk.free_bytes < disk.reserve_bytes;
}

bool csn_disk_refuses(csn_req *req)
{
    csn_disk disk = csn_disk_look(csn_req_server(req));

    if (disk.free_bytes >= disk.reserve_bytes)
        return false;
    csn_req_error(req, 507, NULL,
                  "The server's disk is full: of the %lld MiB that are free %lld MiB are kept so "
                  "(--disk-reserve). Delete sandboxes, snapshots or volumes, or have its operator "
                  "free space",
                  (long long) (disk.free_bytes / MIB), (long long) (disk.reserve_bytes / MIB));
    return true;
}
