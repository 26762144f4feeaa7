/* SPDX-License-Identifier: Apache-2.0 */
#include "server/ending.h"

#include <stdio.h>

static void limit_text(const char *name, int64_t limit, int is_bytes, char *out, size_t size)
{
    if (limit <= 0)
        (void) snprintf(out, size, "%s", name); /* cut is fine */
    else if (is_bytes)
        (void) snprintf(out, size, "%s (limit %lld MiB)", name, (long long) (limit >> 20));
    else
        (void) snprintf(out, size, "%s (limit %lld)", name, (long long) limit);
}

void csn_ending_text(const csn_receipt *r, const char *what, char *out, size_t size)
{
    char why[96];

    switch (r->ended) {
    case CSN_ENDED_EXIT:
        (void) snprintf(out, size, "%s ended with exit code %d", what, r->exit_code);
        return;
    case CSN_ENDED_SIGNAL:
        (void) snprintf(out, size, "%s was ended by signal %d", what, r->signal);
        return;
    case CSN_ENDED_TIMEOUT:
        (void) snprintf(out, size, "%s took longer than %lld ms and was killed", what,
                        (long long) r->timeout_ms);
        return;
    case CSN_ENDED_OOM:
        limit_text(
            r->outer_limit > 0 ? "out of memory, in the group around the server" : "out of memory",
            r->outer_limit > 0 ? r->outer_limit : r->memory_limit_bytes, 1, why, sizeof(why));
        break;
    case CSN_ENDED_OUTPUT_LIMIT:
        limit_text("too much output", r->output_limit_bytes, 1, why, sizeof(why));
        break;
    case CSN_ENDED_PIDS_LIMIT:
        limit_text(r->outer_limit > 0 ? "too many processes, in the group around the server"
                                      : "too many processes",
                   r->outer_limit > 0 ? r->outer_limit : r->pids_limit, 0, why, sizeof(why));
        break;
    case CSN_ENDED_DISK_FULL:
        limit_text("the disk is full", r->disk_limit_bytes, 1, why, sizeof(why));
        break;
    case CSN_ENDED_LOST:
        limit_text("the sandbox went away", 0, 0, why, sizeof(why));
        break;
    case CSN_ENDED_RUNNING:
    case CSN_ENDED_KILLED:
    default:
        (void) snprintf(out, size, "%s was killed", what);
        return;
    }
    (void) snprintf(out, size, "%s was killed: %s", what, why);
}

int csn_ending_is_limit(const csn_receipt *r)
{
    return r->ended == CSN_ENDED_OOM || r->ended == CSN_ENDED_OUTPUT_LIMIT ||
           r->ended == CSN_ENDED_PIDS_LIMIT || r->ended == CSN_ENDED_DISK_FULL;
}
