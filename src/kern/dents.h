/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_DENTS_H
#define CSN_KERN_DENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Directory entries without opendir(): no allocation, and the position is ours to keep. */
typedef struct csn_dents {
    int fd; /* borrowed; opened for reading */
    size_t at, end;
    int64_t next; /* where the entry behind the last one starts, for csn_dents_seek() */
    _Alignas(8) char data[8192];
} csn_dents;

void csn_dents_begin(csn_dents *dents, int fd);

/* Goes to a position that `next` had; forgets what is buffered. */
int csn_dents_seek(csn_dents *dents, int64_t position);

/* 1 and a name that is valid until the next call ("." and ".." are left out); 0 at the end; -errno.
 * `ret_type` (may be NULL): DT_…, DT_UNKNOWN where the file system doesn't say. */
int csn_dents_next(csn_dents *dents, const char **ret_name, unsigned char *ret_type);

#endif
