/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/filereq.h"

#include <errno.h>

void csn_filereq_pack(csn_pack *p, const csn_filereq *req)
{
    csn_pack_u32(p, req->verb);
    csn_pack_u32(p, req->flags);
    csn_pack_i64(p, req->mode);
    csn_pack_u32(p, req->max_results);
    csn_pack_str(p, req->path);
    csn_pack_str(p, req->arg);
    csn_pack_str(p, req->arg2);
}

static int is_valid(const csn_filereq *req, int64_t mode)
{
    int is_known = (req->verb >= CSN_FILE_STAT && req->verb <= CSN_FILE_REPLACE) ||
                   req->verb == CSN_FILEREQ_OPEN || req->verb == CSN_FILEREQ_CONNECT;
    int needs_arg = req->verb == CSN_FILE_MOVE || req->verb == CSN_FILE_FIND ||
                    req->verb == CSN_FILE_SEARCH || req->verb == CSN_FILE_REPLACE;

    if (!is_known || req->path[0] == '\0')
        return 0;
    if (needs_arg && req->arg[0] == '\0')
        return 0;
    if (req->verb == CSN_FILEREQ_CONNECT && (req->flags < 1 || req->flags > 65535))
        return 0;
    return mode >= -1 && mode <= 07777;
}

int csn_filereq_unpack(csn_unpack *u, csn_filereq *ret_req)
{
    csn_filereq req;
    int64_t mode;

    req.verb = csn_unpack_u32(u);
    req.flags = csn_unpack_u32(u);
    mode = csn_unpack_i64(u);
    req.max_results = csn_unpack_u32(u);
    req.path = csn_unpack_str(u);
    req.arg = csn_unpack_str(u);
    req.arg2 = csn_unpack_str(u);
    if (csn_unpack_end(u) < 0 || !is_valid(&req, mode))
        return -EBADMSG;
    req.mode = (int32_t) mode;
    *ret_req = req;
    return 0;
}
