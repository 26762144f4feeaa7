/* Sorted names in a directory. */
#ifndef CSN_IMAGE_NAMES_H
#define CSN_IMAGE_NAMES_H

#include <stddef.h>

#include "base/auto.h"

typedef struct csn_names {
    char **at; /* owned */
    size_t n;
} csn_names;

#define CSN_NAMES_INIT \
    { \
        NULL, 0 \
    }

/* The entries of dirfd/path for which csn_is_name() holds; a missing directory has none. 0 or -errno. */
int csn_names_read(int dirfd, const char *path, csn_names *ret);
int csn_names_add(csn_names *names, const char *name); /* at the end; 0 or -errno */
void csn_names_auto(csn_names *names);

#endif
