/* SPDX-License-Identifier: Apache-2.0 */
/* The head of one part of a multipart body: Content-Disposition and Content-Type, decoded. */
#ifndef CSN_SERVER_PART_HEAD_H
#define CSN_SERVER_PART_HEAD_H

#include "base/buf.h"
#include "base/str.h"
#include "server/multipart.h"

typedef struct csn_part_head {
    csn_part part;
    csn_buf name, filename, content_type;
} csn_part_head;

#define CSN_PART_HEAD_INIT \
    { \
        { "", NULL, NULL }, CSN_BUF_INIT, CSN_BUF_INIT, CSN_BUF_INIT \
    }

void csn_part_head_done(csn_part_head *head);

/* `text`: lines with their CRLF, the empty one at the end too. 0, -EBADMSG or -ENOMEM. */
int csn_part_head_parse(csn_part_head *head, csn_str text);

/* The boundary of "multipart/form-data; boundary=…". 0 or -EINVAL. */
int csn_part_boundary(const char *content_type, char out[CSN_BOUNDARY_MAX + 1]);

#endif
