/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "base/str.h"
#include "server/cell.h"
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
    const char *what, *unit, *remedy;
    int64_t scale;
} kind;

static const kind sandboxes = { "sandboxes", "", "delete some, or raise --max-sandboxes", 1 };
static const kind cpu = { "CPU", " cores", "stop some sandboxes, or raise --max-cpu", 1000 };
static const kind memory = { "memory", " GiB", "stop some sandboxes, or raise --max-memory",
                             CSN_GIB };
static const kind disk = { "disk", " GiB", "delete some sandboxes, or raise --max-disk", CSN_GIB };
static const kind snapshots = { "snapshots", "", "delete some, or raise --max-snapshots", 1 };
static const kind snapshot_disk = { "snapshot disk", " GiB",
                                    "delete some snapshots, or raise --max-snapshot-disk",
                                    CSN_GIB };
static const kind volumes = { "volumes", "", "delete some, or raise --max-volumes", 1 };
static const kind volume_disk = { "volume disk", " GiB",
                                  "delete some volumes, or raise --max-volume-disk", CSN_GIB };

static int check(const kind *k, int64_t used, int64_t more, int64_t max, csn_error *err)
{
    double scale = (double) k->scale;

    if (max <= 0 || (more <= max && used <= max - more))
        return CSN_OK;
    return csn_fail(
        err, CSN_E_DENIED,
        "Total %s limit exceeded: %.2f of %.2f%s are in use, %.2f more were asked for; %s", k->what,
        (double) used / scale, (double) max / scale, k->unit, (double) more / scale, k->remedy);
}

int csn_quota_check(const csn_boxes *boxes, const char *org_id, int64_t cpu_milli,
                    int64_t memory_bytes, int64_t disk_bytes, const csn_cell *except,
                    csn_error *err)
{
    const csn_config *c = &boxes->server->config;
    sums s = { 0 };

    if (c->max_sandboxes <= 0 && c->max_cpu_milli <= 0 && c->max_memory_bytes <= 0 &&
        c->max_disk_bytes <= 0)
        return CSN_OK;
    for (const csn_list *node = boxes->cells.next; node != &boxes->cells; node = node->next) {
        const csn_cell *cell = csn_list_entry(node, csn_cell, link);
        if (cell != except && csn_streq(cell->row.org_id, org_id))
            add(cell, &s);
    }
    int r = check(&sandboxes, s.n, 1, c->max_sandboxes, err);
    if (r == CSN_OK)
        r = check(&cpu, s.cpu_milli, cpu_milli, c->max_cpu_milli, err);
    if (r == CSN_OK)
        r = check(&memory, s.memory_bytes, memory_bytes, c->max_memory_bytes, err);
    if (r == CSN_OK)
        r = check(&disk, s.disk_bytes, disk_bytes, c->max_disk_bytes, err);
    return r;
}

int csn_quota_snapshots(const csn_server *server, const char *org_id, int64_t more_bytes,
                        csn_error *err)
{
    int64_t n = 0, bytes = 0;
    int r = csn_store_snapshot_sums(server->store, org_id, &n, &bytes, err);

    if (r == CSN_OK)
        r = check(&snapshots, n, 1, server->config.max_snapshots, err);
    if (r == CSN_OK)
        r = check(&snapshot_disk, bytes, more_bytes, server->config.max_snapshot_bytes, err);
    return r;
}

int csn_quota_volumes(const csn_server *server, const char *org_id, int64_t more, csn_error *err)
{
    int64_t n = 0, bytes = 0;
    int r = csn_store_volume_sums(server->store, org_id, &n, &bytes, err);

    if (r == CSN_OK && more > 0)
        r = check(&volumes, n, more, server->config.max_volumes, err);
    if (r == CSN_OK)
        r = check(&volume_disk, bytes, 0, server->config.max_volume_bytes, err);
    return r;
}
