/* SPDX-License-Identifier: Apache-2.0 */
#include "server/envs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

bool csn_envs_is_key(const char *key)
{
    static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char other[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

    return *key && strchr(first, *key) && key[strspn(key, other)] == '\0';
}

static size_t count(const char *const *env)
{
    size_t n = 0;

    while (env && env[n])
        n++;
    return n;
}

char **csn_envs_free(char **env)
{
    for (size_t i = 0; env && env[i]; i++)
        free(env[i]);
    free(env);
    return NULL;
}

char **csn_envs_copy(const char *const *env)
{
    size_t n = count(env);
    char **copy = csn_calloc(n + 1, sizeof(*copy));

    for (size_t i = 0; copy && i < n; i++)
        if (!(copy[i] = csn_strdup(env[i])))
            return csn_envs_free(copy);
    return copy;
}

static int set(char **env, size_t *n, const char *key, const char *value)
{
    size_t key_len = strlen(key), size = key_len + strlen(value) + 2, at = 0;
    char *entry = csn_malloc(size);

    if (!entry)
        return -ENOMEM;
    memcpy(entry, key, key_len);
    entry[key_len] = '=';
    memcpy(entry + key_len + 1, value, size - key_len - 1);
    while (at < *n && strncmp(env[at], entry, key_len + 1) != 0)
        at++;
    free(at < *n ? env[at] : NULL);
    env[at] = entry;
    *n += at == *n;
    return 0;
}

int csn_envs_add(char ***env, const csn_json *object, const char **ret_bad_key)
{
    csn_json_type type = csn_json_type_of(object);
    size_t n = count((const char *const *) *env);
    char **more;
    int r = 0;

    *ret_bad_key = "";
    if (type == CSN_JSON_NONE || type == CSN_JSON_NULL)
        return 0;
    if (type != CSN_JSON_OBJECT)
        return -EINVAL;
    more = csn_calloc(n + csn_json_count(object) + 1, sizeof(*more));
    if (!more)
        return -ENOMEM;
    if (n > 0)
        memcpy(more, *env, n * sizeof(*more));
    free(*env);
    *env = more;
    for (void *it = csn_json_iter(object); r == 0 && it; it = csn_json_iter_next(object, it)) {
        const char *key = csn_json_iter_key(it),
                   *value = csn_json_str(csn_json_iter_value(it), NULL);
        if (!value || !csn_envs_is_key(key)) {
            *ret_bad_key = key;
            return -EINVAL;
        }
        r = set(more, &n, key, value);
    }
    return r;
}

bool csn_envs_is_good(const csn_json *object)
{
    csn_json_type type = csn_json_type_of(object);

    if (type == CSN_JSON_NONE || type == CSN_JSON_NULL)
        return true;
    if (type != CSN_JSON_OBJECT)
        return false;
    for (void *it = csn_json_iter(object); it; it = csn_json_iter_next(object, it))
        if (!csn_envs_is_key(csn_json_iter_key(it)) ||
            csn_json_type_of(csn_json_iter_value(it)) != CSN_JSON_STRING)
            return false;
    return true;
}

int csn_envs_set(char ***env, const char *key, const char *value)
{
    size_t n = count((const char *const *) *env);
    char **more = csn_calloc(n + 2, sizeof(*more));

    if (!more)
        return -ENOMEM;
    if (n > 0)
        memcpy(more, *env, n * sizeof(*more));
    free(*env);
    *env = more;
    return set(more, &n, key, value);
}
