#include "names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

void csn_names_auto(csn_names *names)
{
    int saved = errno;

    for (size_t i = 0; i < names->n; i++)
        free(names->at[i]);
    free(names->at);
    names->at = NULL;
    names->n = 0;
    errno = saved;
}

int csn_names_add(csn_names *names, const char *name)
{
    if ((names->n & (names->n - 1)) == 0) { /* full at every power of two */
        size_t cap = names->n ? names->n * 2 : 1;
        char **more = csn_realloc_array(names->at, cap, sizeof(*more));

        if (!more)
            return -ENOMEM;
        names->at = more;
    }
    names->at[names->n] = csn_strdup(name);
    if (!names->at[names->n])
        return -ENOMEM;
    names->n++;
    return 0;
}

int csn_names_read(int dirfd, const char *path, csn_names *ret)
{
    csn_auto(names) csn_names names = CSN_NAMES_INIT;
    struct dirent *entry;
    int fd, r = 0;
    DIR *dir;

    fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    dir = fdopendir(fd);
    if (!dir) {
        csn_close(&fd);
        return -ENOMEM;
    }
    while (r == 0 && (entry = readdir(dir)))
        if (csn_is_name(entry->d_name))
            r = csn_names_add(&names, entry->d_name);
    (void) closedir(dir); /* only read from */
    if (r < 0)
        return r;
    if (names.n > 1)
        qsort(names.at, names.n, sizeof(*names.at), compare);
    *ret = names;
    names = (csn_names) CSN_NAMES_INIT; /* given away */
    return 0;
}
