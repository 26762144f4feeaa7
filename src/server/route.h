/* SPDX-License-Identifier: Apache-2.0 */
/* The routes, as data: what the router matches, what auth demands, what the tests walk through. */
#ifndef CSN_SERVER_ROUTE_H
#define CSN_SERVER_ROUTE_H

#include "server/req.h"

typedef enum csn_plane {
    CSN_PLANE_API, /* under /api and, for those who forgot the suffix, at the root */
    CSN_PLANE_TOOLBOX, /* under /toolbox/{sandbox}, the pattern's own parameters count from 0 behind it */
    CSN_PLANE_ROOT /* at the root only: /metrics */
} csn_plane;

typedef enum csn_scope {
    CSN_SCOPE_PUBLIC, /* no key */
    CSN_SCOPE_KEY,    /* a valid key */
    CSN_SCOPE_ADMIN,  /* a key that may manage keys and organisations */
    CSN_SCOPE_BOX /* toolbox: a key (or the sandbox's preview token) and a started sandbox of the key's organisation */
} csn_scope;

typedef enum csn_body_kind { CSN_BODY_NONE, CSN_BODY_WHOLE, CSN_BODY_STREAM } csn_body_kind;

enum {
    CSN_ROUTE_WS = 1 << 0,    /* may be upgraded */
    CSN_ROUTE_AUDIT = 1 << 1, /* changes something: a line in the audit log */
    CSN_ROUTE_TENANT =
        1
        << 2, /* names an object of an organisation in its path: the two-organisation test demands 404 */
    CSN_ROUTE_QUIET = 1 << 3, /* does not count as the sandbox's activity */
    CSN_ROUTE_PREVIEW =
        1 << 4 /* passed on to a port of the sandbox; a public one's asks for no key */
};

struct csn_route {
    csn_plane plane;
    csn_method method;
    const char *pattern; /* "/sandbox/{}/start": literal segments and {} for any one segment */
    csn_scope scope;
    csn_body_kind body;
    size_t body_max; /* BODY_WHOLE: 0 is 16 MiB */
    unsigned flags;
    void (*handle)(csn_req *req);
};

/* One table per file in routes/; the router's list of them is in routes/all.c. */
typedef struct csn_route_table {
    const csn_route *routes;
    size_t n;
} csn_route_table;
#define CSN_ROUTE_TABLE(array) \
    { \
        (array), sizeof(array) / sizeof((array)[0]) \
    }

extern const csn_route_table *const csn_route_tables[]; /* NULL at the end */

#endif
