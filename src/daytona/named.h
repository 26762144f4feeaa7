/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes and images of a service: the table's part. */
#ifndef CSN_DAYTONA_NAMED_H
#define CSN_DAYTONA_NAMED_H

#include "daytona.h"

int csn_daytona_volume_create(csn_backend *backend, const char *name, csn_op *op, csn_error *err);
int csn_daytona_volume_list(csn_backend *backend, csn_volume_fn fn, void *user, csn_op *op,
                            csn_error *err);
int csn_daytona_volume_inspect(csn_backend *backend, const char *name, csn_volume_fn fn, void *user,
                               csn_op *op, csn_error *err);
int csn_daytona_volume_remove(csn_backend *backend, const char *name, csn_op *op, csn_error *err);
int csn_daytona_image_list(csn_backend *backend, csn_image_fn fn, void *user, csn_op *op,
                           csn_error *err);
int csn_daytona_image_inspect(csn_backend *backend, const char *name, csn_image_fn fn, void *user,
                              csn_op *op, csn_error *err);
int csn_daytona_image_remove(csn_backend *backend, const char *name, csn_op *op, csn_error *err);

#endif
