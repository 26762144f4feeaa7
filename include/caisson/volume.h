/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAISSON_VOLUME_H
#define CAISSON_VOLUME_H

#include <caisson/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Named durable directories, owned by the engine, mounted into any number of sandboxes at once.
 * Names: 1–64 of [A-Za-z0-9._-], not starting with '.'. */

#define CSN_VOLUME_USERS_UNKNOWN UINT32_MAX

typedef struct csn_volume_info {
    const char *name;
    int64_t created_ms;
    int64_t size_bytes; /* -1 in csn_volume_list, which does not count */
    int64_t n_files;    /* -1: not counted; the volume is a file system in a file, or at a service */
    uint32_t n_users; /* sandboxes that mount it; CSN_VOLUME_USERS_UNKNOWN: a service does not tell */
} csn_volume_info;
typedef void (*csn_volume_fn)(const csn_volume_info *info, void *user);

CSN_API int csn_volume_create(csn_engine *engine, const char *name,
                              csn_error *err); /* CSN_E_EXISTS */
CSN_API csn_op *csn_volume_create_async(csn_engine *engine, const char *name, csn_done_fn done,
                                        void *user, csn_error *err);
/* `fn` runs before `done`; both get `user`. */
CSN_API int csn_volume_list(csn_engine *engine, csn_volume_fn fn, void *user, csn_error *err);
CSN_API csn_op *csn_volume_list_async(csn_engine *engine, csn_volume_fn fn, csn_done_fn done,
                                      void *user, csn_error *err);
CSN_API int csn_volume_inspect(csn_engine *engine, const char *name, csn_volume_fn fn, void *user,
                               csn_error *err);
CSN_API csn_op *csn_volume_inspect_async(csn_engine *engine, const char *name, csn_volume_fn fn,
                                         csn_done_fn done, void *user, csn_error *err);
CSN_API int csn_volume_remove(csn_engine *engine, const char *name,
                              csn_error *err); /* CSN_E_BUSY: mounted */
CSN_API csn_op *csn_volume_remove_async(csn_engine *engine, const char *name, csn_done_fn done,
                                        void *user, csn_error *err);

#ifdef __cplusplus
}
#endif
#endif
