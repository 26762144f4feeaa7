/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of SDKs, and what of our answers hangs on them (WIRE 9.3). */
#ifndef CSN_SERVER_VERSION_H
#define CSN_SERVER_VERSION_H

#include <stdbool.h>

typedef enum csn_log_style {
    CSN_LOG_PLAIN,  /* text without markers: < 0.27, or no word about it */
    CSN_LOG_MARKED, /* text with markers: < 0.167, or X-Daytona-Split-Output */
    CSN_LOG_JSON    /* streams apart, also for versions that can't be read */
} csn_log_style;

/* version, split: the headers' values, or NULL. */
csn_log_style csn_log_style_of(const char *version, const char *split);

/* "1.2.3", also with a tail ("0.167.0a1") or a head ("v0.27.0"). False: can't be read. */
bool csn_version_parse(const char *text, int ret_parts[3]);
bool csn_version_is_below(const int version[3], int major, int minor);

#endif
