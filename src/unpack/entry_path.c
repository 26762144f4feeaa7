#include "entry_path.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "base/utf8.h"

enum { PART_MAX = 255 };

static int add_part(char *out, size_t *len, csn_str part)
{
    if (part.len > PART_MAX || *len + part.len + 2 > CSN_ENTRY_PATH_MAX)
        return -ENAMETOOLONG;
    if (*len > 0)
        out[(*len)++] = '/';
    memcpy(out + *len, part.data, part.len);
    *len += part.len;
    return 0;
}

int csn_entry_path(const char *name, size_t max_depth, char out[CSN_ENTRY_PATH_MAX])
{
    csn_str rest = csn_str_of(name), part;
    size_t len = 0, depth = 0;

    if (rest.len == 0 || name[0] == '/')
        return -EINVAL;
    while (csn_str_split(&rest, '/', &part)) {
        int r;

        if (part.len == 0 || csn_str_is(part, "."))
            continue;
        if (csn_str_is(part, ".."))
            return -EINVAL;
        if (++depth > max_depth)
            return -ELOOP;
        r = add_part(out, &len, part);
        if (r < 0)
            return r;
    }
    out[len] = '\0';
    return 0;
}

const char *csn_entry_show(const char *name, char *out, size_t out_size)
{
    size_t len = strlen(name), n = 0;

    for (size_t i = 0; i < len;) {
        unsigned c = 0;
        int size = csn_utf8_next(name + i, len - i, &c);

        if (n + 5 > out_size)
            break;
        if (size <= 0 || c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x2028 && c <= 0x202e) ||
            (c >= 0x2066 && c <= 0x2069)) {
            out[n++] = '?';
            i += size > 0 ? (size_t) size : 1;
            continue;
        }
        memcpy(out + n, name + i, (size_t) size);
        n += (size_t) size;
        i += (size_t) size;
    }
    out[n] = '\0';
    return out;
}
