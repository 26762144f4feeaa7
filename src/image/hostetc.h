/* What of the machine's own files a host-based sandbox may see beside /usr: an explicit list, copied. */
#ifndef CSN_IMAGE_HOSTETC_H
#define CSN_IMAGE_HOSTETC_H

#include <stdbool.h>
#include <stdint.h>

/* A number that changes when the sources do: 64-bit FNV-1a over mode, size, inode and mtime of a few telling ones. */
uint64_t csn_hostetc_stamp(void);

/* Copies the sources below `root_fd`. Only what everybody may read, only regular files, directories and symlinks; a
 * source that isn't there is no mistake. 0 or -errno. */
int csn_hostetc_copy(int root_fd);

/* True when this name at the top of the machine's root is a link into /usr. */
bool csn_hostetc_is_merged(const char *name);

#endif
