/* Structs from callers built against another version: shorter ones read as zeros, longer ones must end in zeros. */
#ifndef CSN_ARENA_OPTIONS_H
#define CSN_ARENA_OPTIONS_H

#include <stddef.h>

#include <caisson/error.h>

/* Copies `from` (NULL: all defaults) of `size` bytes into `to`, which has `to_size`. */
int csn_arena_options_copy(void *to, size_t to_size, const void *from, size_t size,
                           const char *what, csn_error *err);

#endif
