/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KEEPER_COPY_FILE_H
#define CSN_KEEPER_COPY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* The bytes of one file: shared where the file system can, holes stay holes. `dst` is empty. 0 or -errno. */
int csn_file_copy(int src, int dst, int64_t size);

/* Files with several names: the second and later ones are linked to the first copy. Best effort: a name that can't be
 * remembered or linked is copied. */
typedef struct csn_links {
    int root_fd;
    struct csn_link *table;
    size_t n, cap;
} csn_links;

int csn_links_begin(csn_links *links, int root_fd); /* borrowed */
bool csn_links_try(csn_links *links, const struct stat *st, int dir, const char *name);
void csn_links_add(csn_links *links, const struct stat *st, int dir, const char *name);
void csn_links_done(csn_links *links);

#endif
