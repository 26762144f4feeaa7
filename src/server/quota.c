/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "base/str.h"
#include "server/cell.h"
#include "server/machine.h"
#include "store/quotas.h"
#include "store/snapshots.h"
#include "store/volumes.h"

typedef struct sums {
    int64_t n, cpu_milli, memory_bytes, disk_bytes;
} sums;

/* Disk counts always, processor and memory while it runs or is about to. */
static void add(const csn_cell *cell, sums *s)
{
    s->n++;
    s->disk_bytes += cell->row.disk_bytes;
    if (cell->state == CSN_CELL_STOPPED || cell->state == CSN_CELL_ARCHIVED ||
        cell->state == CSN_CELL_ERROR)
        return;
    s->cpu_milli += cell->row.cpu_milli;
    s->memory_bytes += cell->row.memory_bytes;
}

/* One kind of thing an organisation has so much of. */
typedef struct kind {
    csn_quota limit;
    const char *what, *unit, *remedy;
    int64_t scale;
} kind;

static const kind sandboxes = { CSN_QUOTA_SANDBOXES, "sandboxes", "",
                                "delete some, or raise --max-sandboxes", 1 };
static const kind cpu = { CSN_QUOTA_CPU, "CPU", " cores", "stop some sandboxes, or raise --max-cpu",
                          1000 };
static const kind memory = { CSN_QUOTA_MEMORY, "memory", " GiB",
                             "stop some sandboxes, or raise --max-memory", CSN_GIB };
static const kind disk = { CSN_QUOTA_DISK, "disk", " GiB",
                           "delete some sandboxes, or raise --max-disk", CSN_GIB };
static const kind snapshots = { CSN_QUOTA_SNAPSHOTS, "snapshots", "",
                                "delete some, or raise --max-snapshots", 1 };
static const kind snapshot_disk = { CSN_QUOTA_SNAPSHOT_DISK, "snapshot disk", " GiB",
                                    "delete some snapshots, or raise --max-snapshot-disk",
                                    CSN_GIB };
static const kind volumes = { CSN_QUOTA_VOLUMES, "volumes", "",
                              "delete some, or raise --max-volumes", 1 };
static const kind volume_disk = { CSN_QUOTA_VOLUME_DISK, "volume disk", " GiB",
                                  "delete some volumes, or raise --max-volume-disk", CSN_GIB };

int64_t csn_quota_of(const csn_server *server, const char *org_id, csn_quota limit)
{
    const csn_config *c = &server->config;
    const int64_t defaults[CSN_QUOTA_COUNT] = {
        [CSN_QUOTA_SANDBOXES] = c->max_sandboxes, [CSN_QUOTA_CPU] = c->max_cpu_milli,
        [CSN_QUOTA_MEMORY] = c->max_memory_bytes, [CSN_QUOTA_DISK] = c->max_disk_bytes,
        [CSN_QUOTA_SNAPSHOTS] = c->max_snapshots, [CSN_QUOTA_SNAPSHOT_DISK] = c->max_snapshot_bytes,
        [CSN_QUOTA_VOLUMES] = c->max_volumes,     [CSN_QUOTA_VOLUME_DISK] = c->max_volume_bytes,
    };
    int64_t own;

    return csn_store_quota_get(server->store, org_id, limit, &own, NULL) == 1 ? own
                                                                              : defaults[limit];
}

static bool is_too_much(int64_t used, int64_t more, int64_t max)
{
    return max > 0 && (more > max || used > max - more);
}

static int check(const csn_server *server, const char *org_id, const kind *k, int64_t used,
                 int64_t more, csn_error *err)
{
    double scale = (double) k->scale;
    int64_t max = csn_quota_of(server, org_id, k->limit);

    if (!is_too_much(used, more, max))
        return CSN_OK;
    return csn_fail(
        err, CSN_E_DENIED,
        "Total %s limit exceeded: %.2f of %.2f%s are in use, %.2f more were asked for; %s", k->what,
        (double) used / scale, (double) max / scale, k->unit, (double) more / scale, k->remedy);
}

/* Of all organisations together; no key's fault, so it is no quota's status. */
static int check_machine(const kind *k, int64_t promised, int64_t more, int64_t max, csn_error *err)
{
    double scale = (double) k->scale;

    if (!is_too_much(promised, more, max))
        return CSN_OK;
    return csn_fail(err, CSN_E_CANCELLED,
                    "The server's %s is promised to other sandboxes: %.2f of %.2f%s, %.2f more "
                    "were asked for; try again when some have stopped, or raise --overcommit",
                    k->what, (double) promised / scale, (double) max / scale, k->unit,
                    (double) more / scale);
}

csn_size csn_quota_promised(const csn_boxes *boxes)
{
    sums all = { 0 };

    csn_list_foreach (node, &boxes->cells)
        add(csn_list_entry(node, csn_cell, link), &all);
    return (csn_size){ all.cpu_milli, all.memory_bytes, all.disk_bytes };
}

int csn_quota_check(const csn_boxes *boxes, const char *org_id, int64_t cpu_milli,
                    int64_t memory_bytes, int64_t disk_bytes, const csn_cell *except,
                    csn_error *err)
{
    const csn_server *server = boxes->server;
    csn_size max = csn_machine_promisable(server);
    sums own = { 0 }, all = { 0 };

    csn_list_foreach (node, &boxes->cells) {
        const csn_cell *cell = csn_list_entry(node, csn_cell, link);
        if (cell == except)
            continue;
        add(cell, &all);
        if (csn_streq(cell->row.org_id, org_id))
            add(cell, &own);
    }
    int r = check(server, org_id, &sandboxes, own.n, 1, err);
    if (r == CSN_OK)
        r = check(server, org_id, &cpu, own.cpu_milli, cpu_milli, err);
    if (r == CSN_OK)
        r = check(server, org_id, &memory, own.memory_bytes, memory_bytes, err);
    if (r == CSN_OK)
        r = check(server, org_id, &disk, own.disk_bytes, disk_bytes, err);
    if (r == CSN_OK)
        r = check_machine(&memory, all.memory_bytes, memory_bytes, max.memory_bytes, err);
    if (r == CSN_OK)
        r = check_machine(&disk, all.disk_bytes, disk_bytes, max.disk_bytes, err);
    return r;
}

int csn_quota_snapshots(const csn_server *server, const char *org_id, int64_t more_bytes,
                        csn_error *err)
{
    int64_t n = 0, bytes = 0;
    int r = csn_store_snapshot_sums(server->store, org_id, &n, &bytes, err);

    if (r == CSN_OK)
        r = check(server, org_id, &snapshots, n, 1, err);
    if (r == CSN_OK)
        r = check(server, org_id, &snapshot_disk, bytes, more_bytes, err);
    return r;
}

int csn_quota_volumes(const csn_server *server, const char *org_id, int64_t more, csn_error *err)
{
    int64_t n = 0, bytes = 0;
    int r = csn_store_volume_sums(server->store, org_id, &n, &bytes, err);

    if (r == CSN_OK && more > 0)
        r = check(server, org_id, &volumes, n, more, err);
    if (r == CSN_OK)
        r = check(server, org_id, &volume_disk, bytes, 0, err);
    return r;
}
