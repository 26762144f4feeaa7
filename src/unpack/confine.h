/* The walls round this program itself. */
#ifndef CSN_UNPACK_CONFINE_H
#define CSN_UNPACK_CONFINE_H

#include <caisson/error.h>

/* Builds with a sanitizer keep their system calls and their memory: its runtime has ways of its own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CSN_HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CSN_HAS_SANITIZER 1
#endif
#endif
#ifndef CSN_HAS_SANITIZER
#define CSN_HAS_SANITIZER 0
#endif

/* From here on: files only below `target_fd` (and, to read, `source_fd` when it is a directory), no program, no network,
 * no capability but those that give files their owners. */
int csn_confine(int source_fd, int target_fd, csn_error *err);

#endif
