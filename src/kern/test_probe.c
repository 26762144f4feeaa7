/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "csn_test.h"
#include "kern/pidfd.h"
#include "kern/probe.h"

static const char *const states[] = { "ok", "limited", "missing", "FAILED", "not tried" };

TEST(every_wall_and_limit_of_this_host_is_tried)
{
    csn_probe_item items[CSN_PROBE_MAX];
    size_t n = 0;
    int64_t t = csn_now_ns();

    CHECK_INT(csn_probe_run("/tmp", items, CSN_PROBE_MAX, &n), 0);
    t = (csn_now_ns() - t) / 1000;
    CHECK(n >= 20);
    for (size_t i = 0; i < n; i++) {
        csn_test_note("%-28s %-8s %s%s%s", items[i].name, states[items[i].state], items[i].detail,
                      items[i].error ? ": " : "", items[i].error ? strerror(items[i].error) : "");
        CHECK((items[i].state == CSN_PROBE_OK || items[i].state == CSN_PROBE_NOT_TRIED) ==
              (items[i].remedy[0] == '\0'));
    }
    csn_test_note("%lld us", (long long) t);
    CHECK_INT(csn_reap_any(NULL), -10 /* ECHILD: no child is left */);
    CHECK_INT(csn_probe_run("/tmp", items, 3, &n), 0);
    CHECK_INT(n, 3);
}
