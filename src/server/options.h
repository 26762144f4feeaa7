/* SPDX-License-Identifier: Apache-2.0 */
/* What caisson-serve is told on its command line, by the warden alone. */
#ifndef CSN_SERVER_OPTIONS_H
#define CSN_SERVER_OPTIONS_H

#include "server/server.h"

typedef enum csn_serve_mode {
    CSN_MODE_SERVE,
    CSN_MODE_ROUTES, /* print the table of routes as JSON */
    CSN_MODE_KEY,    /* create, list or remove keys */
    CSN_MODE_ORG     /* list organisations, set what they may have */
} csn_serve_mode;

typedef struct csn_serve_options {
    csn_serve_mode mode;
    csn_config config;
    char **rest; /* of CSN_MODE_KEY and _ORG: what follows; NULL at the end */
    bool is_debug;
    bool is_landlock_optional;
} csn_serve_options;

/* Strings are borrowed from argv. Errors: CSN_E_INVALID. */
int csn_serve_options_read(int argc, char **argv, csn_serve_options *ret, csn_error *err);

#endif
