#include "options.h"

#include <string.h>

#include "base/err.h"

int csn_arena_options_copy(void *to, size_t to_size, const void *from, size_t size,
                           const char *what, csn_error *err)
{
    memset(to, 0, to_size);
    if (!from)
        return CSN_OK;
    if (size < sizeof(size_t))
        return csn_fail(err, CSN_E_INVALID, "%s: size is not set", what);
    for (size_t i = to_size; i < size; i++)
        if (((const char *) from)[i] != 0)
            return csn_fail(err, CSN_E_INVALID,
                            "%s: the caller was built for a newer version of the library", what);
    memcpy(to, from, size < to_size ? size : to_size);
    return CSN_OK;
}
