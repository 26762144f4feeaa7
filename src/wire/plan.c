/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/plan.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

enum { ID_DIGITS = 32, PATH_BYTES_MAX = 4095, HOSTNAME_BYTES_MAX = 63 };

/* Both directions walk this one list, so that they cannot drift apart. */
#define PLAN_NUMBERS(X) \
    X(id_base) \
    X(id_index) \
    X(memory_bytes) \
    X(cpu_milli) \
    X(pids) \
    X(disk_bytes) \
    X(disk_inodes) \
    X(open_files) \
    X(tmp_bytes) \
    X(shm_bytes) \
    X(timeout_ms) \
    X(output_bytes) \
    X(created_ms) \
    X(ttl_ms) \
    X(idle_stop_ms) \
    X(fault_at)

#define PLAN_STRINGS(X) \
    X(state_dir) \
    X(id) \
    X(name) \
    X(target) \
    X(hostname)

#define PLAN_WORDS(X) \
    X(mode) \
    X(flags) \
    X(strict) \
    X(optional_walls) \
    X(walls_off)

#define PACK_NUMBER(field) csn_pack_i64(p, plan->field);
#define PACK_STRING(field) csn_pack_str(p, plan->field);
#define PACK_WORD(field)   csn_pack_u32(p, plan->field);

void csn_plan_pack(csn_pack *p, const csn_plan *plan)
{
    if (plan->n_layers > CSN_PLAN_LAYERS_MAX || plan->n_mounts > CSN_PLAN_MOUNTS_MAX) {
        p->error = -EMSGSIZE;
        return;
    }
    PLAN_WORDS(PACK_WORD)
    PLAN_NUMBERS(PACK_NUMBER)
    PLAN_STRINGS(PACK_STRING)
    csn_pack_u32(p, plan->n_layers);
    for (uint32_t i = 0; i < plan->n_layers; i++)
        csn_pack_str(p, plan->layers[i]);
    csn_pack_u32(p, plan->n_mounts);
    for (uint32_t i = 0; i < plan->n_mounts; i++) {
        csn_pack_str(p, plan->mounts[i].volume);
        csn_pack_str(p, plan->mounts[i].path);
        csn_pack_str(p, plan->mounts[i].subpath);
        csn_pack_u32(p, plan->mounts[i].is_read_only);
    }
}

static bool is_absolute(const char *path)
{
    return path[0] == '/' && strlen(path) <= PATH_BYTES_MAX;
}

/* Relative, and no component is empty, "." or "..": a walk along it stays below where it starts. */
static bool is_below(const char *path)
{
    csn_str rest = csn_str_of(path), part;

    if (path[0] == '\0' || strlen(path) > PATH_BYTES_MAX)
        return false;
    while (csn_str_split(&rest, '/', &part))
        if (part.len == 0 || csn_str_is(part, ".") || csn_str_is(part, ".."))
            return false;
    return true;
}

static bool is_hostname(const char *name)
{
    size_t len = strlen(name);

    if (len > HOSTNAME_BYTES_MAX || name[0] == '-' || name[0] == '.')
        return false;
    return len == strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.");
}

static bool is_valid_mount(const csn_plan_mount *m)
{
    return csn_is_name(m->volume) && is_absolute(m->path) &&
           (m->subpath[0] == '\0' || is_below(m->subpath)) && m->is_read_only <= 1;
}

static bool are_names_valid(const csn_plan *plan)
{
    const bool has_box = plan->mode == CSN_PLAN_RUN || plan->id[0] != '\0';

    if (!is_absolute(plan->state_dir) || (has_box && !csn_is_hex(plan->id, ID_DIGITS)))
        return false;
    if (plan->name[0] != '\0' && !csn_is_name(plan->name))
        return false;
    if (plan->mode != CSN_PLAN_RUN && !is_below(plan->target))
        return false;
    return is_hostname(plan->hostname);
}

static bool is_valid(const csn_plan *plan)
{
    const uint32_t known_flags = CSN_PLAN_DETACHED | CSN_PLAN_EPHEMERAL | CSN_PLAN_ROOT_INSIDE |
                                 CSN_PLAN_PTRACE | CSN_PLAN_HOST_BASED | CSN_PLAN_OUTBOUND |
                                 CSN_PLAN_SHARED | CSN_PLAN_PATIENT | CSN_PLAN_ON_DISK;

    if (plan->mode < CSN_PLAN_RUN || plan->mode > CSN_PLAN_REMOVE || (plan->flags & ~known_flags))
        return false;
    if (!are_names_valid(plan) || plan->id_base < 0 || plan->id_index < -1)
        return false;
    for (uint32_t i = 0; i < plan->n_layers; i++)
        if (!csn_is_name(plan->layers[i]))
            return false;
    for (uint32_t i = 0; i < plan->n_mounts; i++)
        if (!is_valid_mount(&plan->mounts[i]))
            return false;
    return true;
}

static void unpack_lists(csn_unpack *u, csn_plan *plan)
{
    plan->n_layers = csn_unpack_u32(u);
    if (plan->n_layers > CSN_PLAN_LAYERS_MAX)
        u->error = -EBADMSG;
    for (uint32_t i = 0; u->error == 0 && i < plan->n_layers; i++)
        plan->layers[i] = csn_unpack_str(u);
    plan->n_mounts = csn_unpack_u32(u);
    if (plan->n_mounts > CSN_PLAN_MOUNTS_MAX)
        u->error = -EBADMSG;
    for (uint32_t i = 0; u->error == 0 && i < plan->n_mounts; i++) {
        plan->mounts[i].volume = csn_unpack_str(u);
        plan->mounts[i].path = csn_unpack_str(u);
        plan->mounts[i].subpath = csn_unpack_str(u);
        plan->mounts[i].is_read_only = csn_unpack_u32(u);
    }
}

#define UNPACK_NUMBER(field) ret_plan->field = csn_unpack_i64(u);
#define UNPACK_STRING(field) ret_plan->field = csn_unpack_str(u);
#define UNPACK_WORD(field)   ret_plan->field = csn_unpack_u32(u);

int csn_plan_unpack(csn_unpack *u, csn_plan *ret_plan)
{
    memset(ret_plan, 0, sizeof(*ret_plan));
    PLAN_WORDS(UNPACK_WORD)
    PLAN_NUMBERS(UNPACK_NUMBER)
    PLAN_STRINGS(UNPACK_STRING)
    unpack_lists(u, ret_plan);
    if (csn_unpack_end(u) < 0 || !is_valid(ret_plan))
        return -EBADMSG;
    return 0;
}
