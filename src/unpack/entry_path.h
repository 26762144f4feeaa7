/* The names of entries, before they may become paths. */
#ifndef CSN_UNPACK_ENTRY_PATH_H
#define CSN_UNPACK_ENTRY_PATH_H

#include <stddef.h>

enum { CSN_ENTRY_PATH_MAX = 4096 };

/* "./usr//bin/" → "usr/bin", "." → "". 0, or -EINVAL (absolute, "..", empty), -ENAMETOOLONG (a part or the whole),
 * -ELOOP (more than max_depth parts). */
int csn_entry_path(const char *name, size_t max_depth, char out[CSN_ENTRY_PATH_MAX]);

/* A name as it may be shown: controls and bad UTF-8 as '?', cut at out_size. Returns out. */
const char *csn_entry_show(const char *name, char *out, size_t out_size);

#endif
