/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_WIRE_SPEC_H
#define CSN_WIRE_SPEC_H

/* The packed spec of a CSN_SPAWN_EXEC: u32 argc, strings; u32 envc, strings; string cwd. */

#include <stddef.h>
#include <stdint.h>

#include "wire/pack.h"

typedef struct csn_spec {
    const char **argv,
        **env; /* NULL at the end, in the table given; the strings point into the message */
    uint32_t argc, envc;
    const char *cwd; /* "": home */
} csn_spec;

/* How many bytes csn_spec_pack() needs. env and cwd may be NULL. */
size_t csn_spec_size(const char *const *argv, const char *const *env, const char *cwd);
void csn_spec_pack(csn_pack *p, const char *const *argv, const char *const *env, const char *cwd);

/* Fills `table`, which must live as long as the spec. 0, -EBADMSG, or -E2BIG when the strings and two NULLs do not
 * fit in it. argc is at least 1, each variable has a '=' behind its first byte. */
int csn_spec_unpack(csn_unpack *u, const char **table, size_t table_len, csn_spec *ret_spec);

#endif
