/* SPDX-License-Identifier: Apache-2.0 */
#include "server/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "server/cell.h"
#include "server/disk.h"

#define MIB                (INT64_C(1) << 20)
#define MEMORY_RESERVE_MAX (2 * CSN_GIB) /* a tenth of the machine's, at most so much */

enum { OVERCOMMIT = 16, ORG_PERCENT = 80 };

static int64_t whole_mib(int64_t bytes)
{
    return bytes > MIB ? bytes / MIB * MIB : MIB;
}

/* A container's own limit, where it can be read. */
static int64_t limit_in(const char *path)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    int64_t value;

    if (csn_read_file(AT_FDCWD, path, &text, 64) < 0)
        return INT64_MAX;
    csn_buf_truncate(&text, strcspn(text.data, "\n"));
    return csn_parse_i64(csn_str_of(text.data), &value) < 0 || value <= 0 ? INT64_MAX : value;
}

static int64_t total_memory(void)
{
    static const char *const limits[] = { "/sys/fs/cgroup/memory.max",
                                          "/sys/fs/cgroup/memory/memory.limit_in_bytes" };
    struct sysinfo info;
    int64_t total = sysinfo(&info) < 0 ? 0 : (int64_t) info.totalram * (int64_t) info.mem_unit;

    for (size_t i = 0; i < CSN_COUNT(limits); i++) {
        int64_t limit = limit_in(limits[i]);
        total = limit < total ? limit : total;
    }
    return total;
}

static int64_t count_cpu_milli(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        return CPU_COUNT(&set) * 1000;
    return sysconf(_SC_NPROCESSORS_ONLN) > 0 ? sysconf(_SC_NPROCESSORS_ONLN) * 1000 : 1000;
}

/* A product that stays a number. */
static int64_t times(int64_t value, int64_t factor)
{
    return factor > 0 && value > INT64_MAX / factor ? INT64_MAX : value * factor;
}

static void set_quota(int64_t *quota, int64_t value)
{
    if (*quota < 0)
        *quota = value / MIB * MIB;
}

void csn_machine_read(csn_config *config)
{
    csn_server probe = { .config = *config };
    int64_t total = total_memory(), reserve = total / 10;

    if (reserve > MEMORY_RESERVE_MAX)
        reserve = MEMORY_RESERVE_MAX;
    config->machine_cpu_milli = count_cpu_milli();
    config->machine_memory_bytes = total > 0 ? whole_mib(total - reserve) : INT64_MAX;
    if (config->overcommit < 0)
        config->overcommit = OVERCOMMIT;
    probe.config = *config;
    csn_disk disk = csn_disk_look(&probe);
    csn_size all = csn_machine_promisable(&probe);
    set_quota(&config->max_memory_bytes, all.memory_bytes / 100 * ORG_PERCENT);
    set_quota(&config->max_disk_bytes, all.disk_bytes / 100 * ORG_PERCENT);
    set_quota(&config->max_snapshot_bytes, disk.total_bytes / 2);
    set_quota(&config->max_volume_bytes, disk.total_bytes / 2);
}

void csn_machine_tell(const csn_server *server)
{
    csn_size one = csn_machine_largest(server), all = csn_machine_promisable(server);
    char cores[24], memory[24], disk[24], all_memory[24], all_disk[24];

    (void) snprintf(cores, sizeof(cores), "%lld", (long long) (one.cpu_milli / 1000));
    (void) snprintf(memory, sizeof(memory), "%lld", (long long) (one.memory_bytes / MIB));
    (void) snprintf(disk, sizeof(disk), "%lld", (long long) (one.disk_bytes / MIB));
    (void) snprintf(all_memory, sizeof(all_memory), "%lld", (long long) (all.memory_bytes / MIB));
    (void) snprintf(all_disk, sizeof(all_disk), "%lld", (long long) (all.disk_bytes / MIB));
    csn_log(CSN_LOG_INFO, "one sandbox gets at most", "cores", cores, "memory_mib", memory,
            "disk_mib", disk, "all_memory_mib", all_memory, "all_disk_mib", all_disk, NULL);
}

csn_size csn_machine_largest(const csn_server *server)
{
    csn_disk disk = csn_disk_look(server);

    return (csn_size){ server->config.machine_cpu_milli, server->config.machine_memory_bytes,
                       whole_mib(disk.total_bytes - disk.reserve_bytes) };
}

csn_size csn_machine_promisable(const csn_server *server)
{
    csn_size one = csn_machine_largest(server);
    int64_t factor = server->config.overcommit;

    return (csn_size){ 0, times(one.memory_bytes, factor), times(one.disk_bytes, factor) };
}

static int64_t at_most(int64_t value, int64_t max)
{
    return value < max ? value : max;
}

csn_size csn_machine_default(const csn_server *server)
{
    csn_size max = csn_machine_largest(server);

    return (csn_size){ at_most(CSN_DEFAULT_CPU, max.cpu_milli),
                       at_most(CSN_DEFAULT_MEMORY, max.memory_bytes),
                       at_most(CSN_DEFAULT_DISK, max.disk_bytes) };
}

/* Which are told and compared alike. */
typedef struct kind {
    const char *name, *unit;
    int64_t scale;
    int64_t granted_anyway; /* no more than a sandbox gets that asks for nothing */
} kind;

static int fit(const csn_server *server, const kind *k, int64_t max, int64_t *value, csn_buf *told,
               csn_error *err)
{
    double scale = (double) k->scale;

    if (*value <= max)
        return CSN_OK;
    if (*value > k->granted_anyway && !server->config.is_clamping)
        return csn_fail(err, CSN_E_DENIED,
                        "%s: %.2f%s were asked for, and this machine grants one sandbox at most "
                        "%.2f%s; ask for less, or start the server with --clamp",
                        k->name, (double) *value / scale, k->unit, (double) max / scale, k->unit);
    csn_buf_printf(told, "%s%s %g of %g%s", told->len > 0 ? ", " : "", k->name,
                   (double) max / scale, (double) *value / scale, k->unit);
    *value = max;
    return CSN_OK;
}

int csn_machine_fit(const csn_server *server, csn_size *size, csn_buf *told, csn_error *err)
{
    static const kind cpu = { "cpu", "", 1000, INT64_MAX };
    static const kind memory = { "memory", " GiB", CSN_GIB, CSN_DEFAULT_MEMORY };
    static const kind disk = { "disk", " GiB", CSN_GIB, CSN_DEFAULT_DISK };
    csn_size max = csn_machine_largest(server);
    int r = fit(server, &cpu, max.cpu_milli, &size->cpu_milli, told, err);

    if (r == CSN_OK)
        r = fit(server, &memory, max.memory_bytes, &size->memory_bytes, told, err);
    if (r == CSN_OK)
        r = fit(server, &disk, max.disk_bytes, &size->disk_bytes, told, err);
    return r;
}
