/* SPDX-License-Identifier: Apache-2.0 */
/* What the routes of git share: reading their bodies. Each answers 400 itself before it returns NULL or false. */
#ifndef CSN_SERVER_ROUTES_GIT_H
#define CSN_SERVER_ROUTES_GIT_H

#include "server/git_run.h"
#include "server/req.h"
#include "server/route.h"

/* A member that must be there; that no git takes for an option; that may be absent ("" then). */
const char *csn_git_need(csn_req *req, const csn_json *body, const char *key);
const char *csn_git_name(csn_req *req, const csn_json *body, const char *key);
bool csn_git_name_or_none(csn_req *req, const csn_json *body, const char *key, const char **ret);
/* For the repository that the body, or the query, names as `path`. */
csn_git *csn_git_of_body(csn_req *req, const csn_json *body);
csn_git *csn_git_of_query(csn_req *req);

#define CSN_GIT_ROUTE(method_, pattern_, body_, handler) \
    { \
        .plane = CSN_PLANE_TOOLBOX, .method = (method_), .pattern = (pattern_), \
        .scope = CSN_SCOPE_BOX, .body = (body_), .flags = CSN_ROUTE_TENANT, .handle = (handler) \
    }

#endif
