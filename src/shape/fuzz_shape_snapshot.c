/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shape/volume.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bodies of snapshots and volumes; and the same bytes as a Dockerfile and as an image's name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(map) csn_map env = { 0 };
    csn_shape_snapshot_create c;
    csn_error err = { 0 };
    const char *name;
    char *image = NULL, out[65];
    csn_auto(mem) char *text = strndup((const char *) data, size);

    if (!text)
        return 0;
    if (csn_shape_dockerfile_read(text, &image, &env, &err) == CSN_OK && !*image)
        __builtin_trap();
    free(image);
    if (csn_shape_image_name(text, out) == 0 && (strlen(out) > 64 || strchr(out, '/')))
        __builtin_trap();
    if (csn_json_parse((const char *) data, size, &doc, NULL) < 0) /* NOLINT(clang-analyzer-unix.Malloc): the attribute frees it */
        return 0;
    if (csn_shape_snapshot_read(doc, &c, &err) == CSN_OK && !c.image_ref == !c.dockerfile)
        __builtin_trap();
    if (csn_shape_volume_read(doc, &name, &err) == CSN_OK && name && strchr(name, '/'))
        __builtin_trap();
    return 0;
}
