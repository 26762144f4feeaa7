/* SPDX-License-Identifier: Apache-2.0 */
/* How much the file system of the state directory has left, and how much of that stays free. */
#ifndef CSN_SERVER_DISK_H
#define CSN_SERVER_DISK_H

#include "server/req.h"
#include "server/server.h"

typedef struct csn_disk {
    int64_t total_bytes, free_bytes;
    int64_t reserve_bytes; /* below it nothing new is begun */
} csn_disk;

/* As of now. What can't be asked is all free. */
csn_disk csn_disk_look(const csn_server *server);
bool csn_disk_is_low(const csn_server *server);
/* Below the reserve: 507 with the numbers, and true. */
bool csn_disk_refuses(csn_req *req);

#endif
