/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAISSON_IMAGE_H
#define CAISSON_IMAGE_H

#include <caisson/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Named root file systems. "host" always exists: this machine's /usr, read-only, under a minimal root. A service has its
 * snapshots instead, and neither imports nor builds for us. */

#define CSN_IMAGE_LAYERS_UNKNOWN SIZE_MAX

typedef struct csn_image_info {
    const char *name;
    /* "host", "directory", "tar", "oci", "docker-archive", "debian", "snapshot" */
    const char *source;
    int is_host_based; /* lies on the machine's own /usr */
    size_t n_layers;    /* CSN_IMAGE_LAYERS_UNKNOWN: a service does not tell */
    int64_t size_bytes; /* of its layers, counted alone; -1: likewise */
    int64_t created_ms;
    const char *const *env; /* from the image's configuration, "KEY=value", NULL at the end */
    const char *cwd;        /* "" when it names none */
    /* What the image's makers would run, and as whom; the engine runs neither by itself. Lists end with NULL and are
     * never NULL themselves. */
    const char *const *entrypoint;
    const char *const *cmd;
    const char *user; /* "" when it names none; as it stands in the image: "app", "101:101" */
} csn_image_info;
typedef void (*csn_image_fn)(const csn_image_info *info, void *user);

/* Imports a directory, a tar (plain, gz, zst), an OCI layout (directory or tar) or a docker-archive file. Unpacked by a
 * confined helper; nothing remains on failure. Errors: CSN_E_EXISTS, CSN_E_INVALID, CSN_E_LIMIT, CSN_E_SYSTEM. */
CSN_API int csn_image_import(csn_engine *engine, const char *name, const char *path,
                             csn_error *err);
CSN_API csn_op *csn_image_import_async(csn_engine *engine, const char *name, const char *path,
                                       csn_done_fn done, void *user, csn_error *err);
/* mmdebstrap with these packages. */
CSN_API int csn_image_build_debian(csn_engine *engine, const char *name,
                                   const char *const *packages, csn_error *err);
CSN_API csn_op *csn_image_build_debian_async(csn_engine *engine, const char *name,
                                             const char *const *packages, csn_done_fn done,
                                             void *user, csn_error *err);
/* `fn` runs before `done`; both get `user`. */
CSN_API int csn_image_list(csn_engine *engine, csn_image_fn fn, void *user, csn_error *err);
CSN_API csn_op *csn_image_list_async(csn_engine *engine, csn_image_fn fn, csn_done_fn done,
                                     void *user, csn_error *err);
CSN_API int csn_image_inspect(csn_engine *engine, const char *name, csn_image_fn fn, void *user,
                              csn_error *err);
CSN_API csn_op *csn_image_inspect_async(csn_engine *engine, const char *name, csn_image_fn fn,
                                        csn_done_fn done, void *user, csn_error *err);
/* Removes the name; layers still used by a sandbox or another image stay until they are not. CSN_E_BUSY: in use by a
 * sandbox. */
CSN_API int csn_image_remove(csn_engine *engine, const char *name, csn_error *err);
CSN_API csn_op *csn_image_remove_async(csn_engine *engine, const char *name, csn_done_fn done,
                                       void *user, csn_error *err);

#ifdef __cplusplus
}
#endif
#endif
