/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine has, what of it one sandbox may be promised, and what all of them together.
 *
 * Processors are shared by weight: who asks for more than there are gets all. Memory and disk are promised: one sandbox gets at
 * most the machine's less a reserve; all together `overcommit` times as much, since most never use what they may. */
#ifndef CSN_SERVER_MACHINE_H
#define CSN_SERVER_MACHINE_H

#include "base/buf.h"
#include "server/server.h"

typedef struct csn_size {
    int64_t cpu_milli, memory_bytes, disk_bytes;
} csn_size;

/* Reads what the machine has and sets those quotas that nobody chose. Before the process is confined: it reads /proc and /sys. */
void csn_machine_read(csn_config *config);
void csn_machine_tell(const csn_server *server); /* the log */

/* The most that one sandbox gets. */
csn_size csn_machine_largest(const csn_server *server);
/* What a sandbox gets that asks for nothing. */
csn_size csn_machine_default(const csn_server *server);
/* What may be promised to all together; 0: any number. */
csn_size csn_machine_promisable(const csn_server *server);

/* Makes *size one that this machine can grant. Processors, what nobody asked for, and with --clamp all else become less, which
 * `told` then says ("cpu 2 of 64"); else CSN_E_DENIED with the number. */
int csn_machine_fit(const csn_server *server, csn_size *size, csn_buf *told, csn_error *err);

#endif
