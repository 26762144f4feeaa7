/* SPDX-License-Identifier: Apache-2.0 */
#include "server/snaps.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/id.h"
#include "base/str.h"
#include "server/bury.h"
#include "server/key.h"

/* The host's own image under other names: those of the stock snapshots, with their sizes. */
static const struct {
    const char *name;
    int64_t cpu_milli, memory_gib, disk_gib;
} aliases[] = {
    { "host", 1000, 1, 3 },           { "caisson-host", 1000, 1, 3 },
    { "daytona-small", 1000, 1, 3 },  { "daytona-medium", 2000, 4, 8 },
    { "daytona-large", 4000, 8, 10 },
};

/* Images of snapshots that organisations made are named so; they are nobody else's. */
static bool is_private_image(const char *name)
{
    return csn_starts_with(name, "snap-") && csn_is_uuid(name + 5);
}

int64_t csn_snap_size(const csn_server *server, const char *image)
{
    const csn_image *found = is_private_image(image) ? csn_boxes_image(server->boxes, image) : NULL;

    return found ? found->size_bytes : 0;
}

static void set_id(csn_snap *snap)
{
    unsigned char hash[32];
    char text[160], hex[33];
    int n = snprintf(text, sizeof(text), "general snapshot %s", snap->name);

    if (csn_key_hash(text, (size_t) n, hash) < 0)
        memset(hash, 0, sizeof(hash));
    hash[6] = (unsigned char) ((hash[6] & 0x0f) | 0x80); /* version 8: our own recipe */
    hash[8] = (unsigned char) ((hash[8] & 0x3f) | 0x80);
    csn_hex(hex, hash, 16);
    (void) snprintf(snap->id, sizeof(snap->id), "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
                    hex + 16, hex + 20);
}

bool csn_snap_general(csn_server *server, size_t i, csn_snap *ret)
{
    const csn_boxes *b = server->boxes;

    *ret = (csn_snap){ .is_general = true,
                       .cpu_milli = CSN_DEFAULT_CPU,
                       .memory_bytes = CSN_DEFAULT_MEMORY,
                       .disk_bytes = CSN_DEFAULT_DISK };
    if (i < CSN_COUNT(aliases)) {
        (void) snprintf(ret->name, sizeof(ret->name), "%s", aliases[i].name);
        (void) snprintf(ret->image, sizeof(ret->image), CSN_HOST_IMAGE);
        ret->cpu_milli = aliases[i].cpu_milli;
        ret->memory_bytes = aliases[i].memory_gib * CSN_GIB;
        ret->disk_bytes = aliases[i].disk_gib * CSN_GIB;
        set_id(ret);
        return true;
    }
    i -= CSN_COUNT(aliases);
    for (size_t k = 0; k < b->n_images; k++) {
        const csn_image *image = &b->images[k];
        if (is_private_image(image->name) || csn_streq(image->name, CSN_HOST_IMAGE) || i-- > 0)
            continue;
        (void) snprintf(ret->name, sizeof(ret->name), "%s", image->name);
        (void) snprintf(ret->image, sizeof(ret->image), "%s", image->name);
        ret->size_bytes = image->size_bytes;
        set_id(ret);
        return true;
    }
    return false;
}

bool csn_snap_general_find(csn_server *server, const char *id_or_name, csn_snap *ret)
{
    for (size_t i = 0; csn_snap_general(server, i, ret); i++)
        if (csn_streq(ret->name, id_or_name) || csn_streq(ret->id, id_or_name))
            return true;
    return false;
}

static int add_env(const char *json, csn_map *env, csn_error *err)
{
    csn_auto(map) csn_map own = { 0 };

    if (!json || !env)
        return CSN_OK;
    int r = csn_map_parse(json, &own);
    if (r == 0)
        r = csn_map_add(env, &own);
    return r < 0 ? csn_fail_sys(err, r, "read the variables of a snapshot") : CSN_OK;
}

static int from_row(const csn_snapshot_row *row, csn_snap *ret, csn_map *env, csn_error *err)
{
    if (!csn_streq(row->state, "active"))
        return csn_fail(err, CSN_E_STATE, "Snapshot %.64s is %s", row->name, row->state);
    *ret = (csn_snap){ .cpu_milli = row->cpu_milli,
                       .memory_bytes = row->memory_bytes,
                       .disk_bytes = row->disk_bytes,
                       .size_bytes = row->size_bytes };
    memcpy(ret->id, row->id, sizeof(ret->id));
    memcpy(ret->image, row->image, sizeof(ret->image));
    (void) snprintf(ret->name, sizeof(ret->name), "%.128s", row->name);
    return add_env(row->env, env, err);
}

int csn_snap_find(csn_server *server, const char *org_id, const char *id_or_name, csn_snap *ret,
                  csn_map *env, csn_error *err)
{
    csn_snapshot_row row = { 0 };
    const char *wanted = id_or_name ? id_or_name : server->config.default_snapshot;
    int r = csn_store_snapshot_get(server->store, org_id, wanted, &row, err);

    if (r == CSN_OK)
        r = from_row(&row, ret, env, err);
    else if (r == CSN_E_NOT_FOUND && csn_snap_general_find(server, wanted, ret))
        r = CSN_OK;
    else if (r == CSN_E_NOT_FOUND)
        (void) csn_fail(err, r,
                        "Snapshot %.100s not found. Did you add it through the API or register it "
                        "with 'caisson image import'?",
                        wanted);
    csn_snapshot_row_done(&row);
    return r;
}

/* ---- images without a row ---- */

typedef struct search {
    const char *image;
    bool is_found;
} search;

static void find_image(const csn_snapshot_row *row, void *user)
{
    search *s = user;

    s->is_found |= csn_streq(row->image, s->image);
}

void csn_snap_drop_image(csn_server *server, const char *image)
{
    search s = { .image = image };

    if (!is_private_image(image) ||
        csn_store_snapshot_each(server->store, NULL, find_image, &s, NULL) < 0 || s.is_found)
        return;
    csn_bury(server, CSN_BURY_IMAGE, image);
}

void csn_snap_drop_strays(csn_server *server)
{
    for (size_t i = 0; i < server->boxes->n_images; i++)
        csn_snap_drop_image(server, server->boxes->images[i].name);
}

/* ---- image references ---- */

static const char *without(const char *text, const char *prefix)
{
    return csn_starts_with(text, prefix) ? text + strlen(prefix) : text;
}

/* "python:3.12-slim" is the image python-3.12-slim; a reference to the stock image means the host's. */
int csn_snap_image(csn_server *server, const char *org_id, const char *ref, char ret_image[65],
                   csn_map *env, csn_error *err)
{
    const char *bare = without(without(ref, "docker.io/"), "library/");
    csn_snap snap;
    char name[65];

    if (csn_starts_with(bare, "daytonaio/sandbox")) {
        memcpy(ret_image, CSN_HOST_IMAGE, sizeof(CSN_HOST_IMAGE));
        return CSN_OK;
    }
    if (csn_snap_find(server, org_id, bare, &snap, env, NULL) == CSN_OK ||
        (csn_shape_image_name(bare, name) == 0 && csn_snap_general_find(server, name, &snap))) {
        memcpy(ret_image, snap.image, sizeof(snap.image));
        return CSN_OK;
    }
    bool is_name = csn_shape_image_name(bare, name) == 0;
    return csn_fail(err, CSN_E_NOT_FOUND,
                    "Image %.64s is not on this server: it pulls none by itself. An operator can "
                    "register it with 'caisson image import --name %.64s'",
                    ref, is_name ? name : "NAME");
}

void csn_snap_shape(const csn_server *server, const csn_snap *snap, csn_shape_snapshot *ret)
{
    const int64_t start_of_2026 = INT64_C(1767225600000); /* general ones have no birthday */

    *ret = (csn_shape_snapshot){
        .id = snap->id,
        .org_id = "",
        .name = snap->name,
        .state = "active",
        .image_ref = snap->image,
        .region = server->config.region,
        .is_general = true,
        .size_bytes = snap->size_bytes,
        .cpu_milli = snap->cpu_milli,
        .memory_bytes = snap->memory_bytes,
        .disk_bytes = snap->disk_bytes,
        .created_ms = start_of_2026,
        .updated_ms = start_of_2026,
    };
}

void csn_snap_row_shape(const csn_server *server, const csn_snapshot_row *row,
                        csn_shape_snapshot *ret)
{
    *ret = (csn_shape_snapshot){
        .id = row->id,
        .org_id = row->org_id,
        .name = row->name,
        .state = row->state,
        .image_ref = row->image_ref,
        .error_reason = row->error_reason,
        .source_id = row->source_id,
        .entrypoint = row->entrypoint,
        .region = server->config.region,
        .size_bytes = row->size_bytes,
        .cpu_milli = row->cpu_milli,
        .memory_bytes = row->memory_bytes,
        .disk_bytes = row->disk_bytes,
        .created_ms = row->created_ms,
        .updated_ms = row->updated_ms,
        .used_ms = row->used_ms,
    };
}
