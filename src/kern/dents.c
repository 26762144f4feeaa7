/* SPDX-License-Identifier: Apache-2.0 */
#include "dents.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct entry { /* what the kernel writes */
    uint64_t inode;
    int64_t next;
    uint16_t size;
    uint8_t type;
    char name[];
};

void csn_dents_begin(csn_dents *dents, int fd)
{
    dents->fd = fd;
    dents->at = dents->end = 0;
    dents->next = 0;
}

int csn_dents_seek(csn_dents *dents, int64_t position)
{
    dents->at = dents->end = 0;
    dents->next = position;
    return lseek(dents->fd, position, SEEK_SET) < 0 ? -errno : 0;
}

int csn_dents_next(csn_dents *dents, const char **ret_name, unsigned char *ret_type)
{
    for (;;) {
        if (dents->at >= dents->end) {
            long n = syscall(SYS_getdents64, dents->fd, dents->data, sizeof(dents->data));
            if (n <= 0)
                return n < 0 ? -errno : 0;
            dents->at = 0;
            dents->end = (size_t) n;
        }
        const struct entry *e = (const void *) (dents->data + dents->at);
        dents->at += e->size;
        dents->next = e->next;
        if (!strcmp(e->name, ".") || !strcmp(e->name, ".."))
            continue;
        *ret_name = e->name;
        if (ret_type)
            *ret_type = e->type;
        return 1;
    }
}
