/* SPDX-License-Identifier: Apache-2.0 */
#include "server/fds.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "server/cell.h"

enum { RESERVE_MAX = 32, USED_BY_ONE = 4 /* its connection, the sandbox's, two pipes */ };

static int limit_of_this_process(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > INT32_MAX
               ? INT32_MAX
               : (int) limit.rlim_cur;
}

static int reserve_of(int limit)
{
    return limit / 8 < RESERVE_MAX ? limit / 8 : RESERVE_MAX;
}

/* Nothing else counts the free ones: /proc is out of reach, and the numbers in use have gaps. 32 of them take 20 us. */
static bool has_reserve(int *ret_limit)
{
    int spare[RESERVE_MAX], n = 0, limit = limit_of_this_process(), reserve = reserve_of(limit);

    while (n < reserve && (spare[n] = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0)
        n++;
    for (int i = 0; i < n; i++)
        csn_close(&spare[i]);
    *ret_limit = limit;
    return n == reserve;
}

bool csn_fds_are_short(csn_server *server)
{
    static bool was_told;
    char text[16];
    int limit;

    if (has_reserve(&limit))
        return false;
    csn_warden_drop_spare_fds(server->warden);
    csn_boxes_disconnect_idle(server->boxes);
    if (has_reserve(&limit)) {
        was_told = false;
        return false;
    }
    (void) snprintf(text, sizeof(text), "%d", limit);
    if (!was_told)
        csn_log(CSN_LOG_ERROR, "out of descriptors: new work is refused", "limit", text, "remedy",
                "raise the limit of open files (ulimit -n, LimitNOFILE=)", NULL);
    was_told = true;
    return true;
}

int csn_fds_fail(csn_error *err)
{
    return csn_fail(err, CSN_E_CANCELLED, CSN_FDS_GONE);
}

bool csn_fds_refuse(csn_req *req)
{
    if (!csn_fds_are_short(csn_req_server(req)))
        return false;
    csn_req_add_header(req, "Retry-After", "1");
    csn_req_error(req, 503, NULL, CSN_FDS_GONE);
    return true;
}

void csn_fds_tell(void)
{
    int limit = limit_of_this_process(), at_once = (limit - reserve_of(limit)) / USED_BY_ONE;
    char limit_text[16], at_once_text[16];

    (void) snprintf(limit_text, sizeof(limit_text), "%d", limit);
    (void) snprintf(at_once_text, sizeof(at_once_text), "%d", at_once);
    csn_log(limit < 1024 ? CSN_LOG_WARN : CSN_LOG_INFO, "descriptors", "limit", limit_text,
            "sandboxes_in_use_at_once", at_once_text, NULL);
}
