/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_SERVER_CONFINE_H
#define CSN_SERVER_CONFINE_H

#include <stdbool.h>

#include <caisson/error.h>

/* Walls the front in, for good, before it reads the first foreign byte. Errors: CSN_E_SYSTEM; CSN_E_UNSUPPORTED for a kernel
 * without Landlock, unless that is optional. */
int csn_front_confine(const char *data_dir, bool is_landlock_optional, csn_error *err);

#endif
