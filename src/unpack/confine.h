/* The walls round this program itself. */
#ifndef CSN_UNPACK_CONFINE_H
#define CSN_UNPACK_CONFINE_H

#include <caisson/error.h>

/* From here on: files only below `target_fd` (and, to read, `source_fd` when it is a directory), no program, no network,
 * no capability but those that give files their owners. */
int csn_confine(int source_fd, int target_fd, csn_error *err);

#endif
