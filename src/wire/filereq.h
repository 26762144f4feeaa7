/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_WIRE_FILEREQ_H
#define CSN_WIRE_FILEREQ_H

/* The packed spec of a CSN_SPAWN_FILES: what one file worker is to do. */

#include <stdint.h>

#include <caisson/files.h> /* the verbs, kinds and flags */

#include "wire/pack.h"

enum { CSN_FILEREQ_OPEN = 100, CSN_FILEREQ_CONNECT }; /* other verbs: csn_file_verb */

typedef struct csn_filereq {
    uint32_t verb;
    uint32_t flags; /* CONNECT: the port; OPEN: CSN_OPEN_…; CSN_STAT_…, CSN_LIST_…, CSN_MOVE_…, CSN_DELETE_… */
    int32_t mode;   /* OPEN, MKDIR, CHMOD; -1: unchanged; LIST: levels */
    uint32_t max_results;
    const char *path, *arg, *arg2; /* strings may not hold NUL; SEARCH and REPLACE arguments may not be empty */
} csn_filereq;

void csn_filereq_pack(csn_pack *p, const csn_filereq *req);
int csn_filereq_unpack(csn_unpack *u, csn_filereq *ret_req); /* 0 or -EBADMSG */

#endif
