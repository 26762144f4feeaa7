/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>

#include "shape/create.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is taken of a body can be stored, read again and shown. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(shape_create) csn_shape_create c;
    csn_shape_mount mounts[CSN_SHAPE_MOUNTS_MAX];
    csn_error err = { 0 };
    size_t n = 0;

    c = (csn_shape_create){ 0 };
    if (csn_json_parse((const char *) data, size, &doc, NULL) < 0)
        return 0;
    int r = csn_shape_create_read(doc, &c, &err);
    if (r < 0 && (err.code != r || !err.message[0]))
        __builtin_trap();
    if (r < 0)
        return 0;
    csn_auto(mem) char *text = csn_shape_mounts_text(c.mounts, c.n_mounts);
    csn_auto(mem) char *env = csn_map_text(&c.env);
    csn_auto(map) csn_map again = { 0 };
    if (!text || csn_shape_mounts_parse(text, mounts, &n) < 0 || n != c.n_mounts)
        __builtin_trap();
    if (!env || csn_map_parse(env, &again) < 0 || !csn_map_contains(&again, &c.env))
        __builtin_trap();
    return 0;
}
