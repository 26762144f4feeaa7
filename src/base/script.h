/* Which program runs a script: by its suffix, else by its own first line. */
#ifndef CSN_BASE_SCRIPT_H
#define CSN_BASE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct csn_language {
    const char *suffix;
    const char *program; /* NULL: it must be built first */
    const char *build;   /* … by this text for sh; $1: the file, $2: without its suffix, then its arguments */
} csn_language;

/* NULL: the suffix says nothing. */
const csn_language *csn_language_of(const char *path);

/* Begins with "#!" or is a program: can be executed as it is. */
bool csn_is_executable_text(const char *data, size_t len);

/* ".py" of "dir/x.py"; "" when there is none. Borrowed from path. */
const char *csn_suffix_of(const char *path);

#endif
