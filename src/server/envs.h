/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of "KEY=value", NULL at the end, owned. */
#ifndef CSN_SERVER_ENVS_H
#define CSN_SERVER_ENVS_H

#include <stdbool.h>

#include "base/json.h"

/* [A-Za-z_][A-Za-z0-9_]* */
bool csn_envs_is_key(const char *key);

/* A copy; of NULL an empty list. NULL: no memory. */
char **csn_envs_copy(const char *const *env);
char **csn_envs_free(char **env); /* NULL is fine; always NULL */

/* Adds the members of a JSON object to *env, which grows; a key that was there already is overridden, since the last one
 * counts. 0, -EINVAL (no object, a bad key, a value that is no string; *ret_bad_key then says which, borrowed from
 * the object), -ENOMEM. NULL or JSON null: nothing to add. */
int csn_envs_add(char ***env, const csn_json *object, const char **ret_bad_key);

/* An object of good keys and texts, or nothing at all. */
bool csn_envs_is_good(const csn_json *object);

/* Sets one variable; *env grows. 0 or -ENOMEM. */
int csn_envs_set(char ***env, const char *key, const char *value);

#endif
