/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/spec.h"

#include <errno.h>
#include <string.h>

static uint32_t count(const char *const *list)
{
    uint32_t n = 0;

    while (list && list[n])
        n++;
    return n;
}

static size_t list_size(const char *const *list)
{
    size_t size = sizeof(uint32_t);

    for (; list && *list; list++)
        size += sizeof(uint32_t) + strlen(*list) + 1;
    return size;
}

size_t csn_spec_size(const char *const *argv, const char *const *env, const char *cwd)
{
    return list_size(argv) + list_size(env) + sizeof(uint32_t) + (cwd ? strlen(cwd) : 0) + 1;
}

static void pack_list(csn_pack *p, const char *const *list)
{
    csn_pack_u32(p, count(list));
    for (; list && *list; list++)
        csn_pack_str(p, *list);
}

void csn_spec_pack(csn_pack *p, const char *const *argv, const char *const *env, const char *cwd)
{
    pack_list(p, argv);
    pack_list(p, env);
    csn_pack_str(p, cwd);
}

/* Takes n strings and a NULL out of the table's free part. 0, -EBADMSG or -E2BIG. */
static int unpack_list(csn_unpack *u, const char ***table, size_t *n_free, uint32_t *ret_n)
{
    uint32_t n = csn_unpack_u32(u);

    if (u->error == 0 && n > (u->len - u->pos) / (sizeof(uint32_t) + 1))
        u->error = -EBADMSG; /* more than there can be: not a question of our table */
    if (u->error < 0)
        return -EBADMSG;
    if (n >= *n_free)
        return -E2BIG;
    for (uint32_t i = 0; i < n; i++)
        (*table)[i] = csn_unpack_str(u);
    (*table)[n] = NULL;
    *table += n + 1;
    *n_free -= n + 1;
    *ret_n = n;
    return u->error < 0 ? -EBADMSG : 0;
}

int csn_spec_unpack(csn_unpack *u, const char **table, size_t table_len, csn_spec *ret_spec)
{
    csn_spec spec = { .argv = table };
    const char **next = table;
    int r = unpack_list(u, &next, &table_len, &spec.argc);

    if (r < 0)
        return r;
    spec.env = next;
    r = unpack_list(u, &next, &table_len, &spec.envc);
    if (r < 0)
        return r;
    spec.cwd = csn_unpack_str(u);
    if (csn_unpack_end(u) < 0 || spec.argc == 0)
        return -EBADMSG;
    for (uint32_t i = 0; i < spec.envc; i++)
        if (spec.env[i][0] == '\0' || !strchr(spec.env[i] + 1, '='))
            return -EBADMSG;
    *ret_spec = spec;
    return 0;
}
