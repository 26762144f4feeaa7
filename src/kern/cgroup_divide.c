/* SPDX-License-Identifier: Apache-2.0 */
/* Version 2: dividing a group that was handed to us. `caisson` is made in it, and what its children need is switched on;
 * when the last sandbox has gone, all of that is taken back. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "cgroup_impl.h"
#include "dents.h"
#include "lines.h"

enum { PREPARE_ROUNDS = 16 };

/* One pass over our own group; new processes may appear meanwhile. The number moved or -errno. */
static int move_all(int from, int to)
{
    csn_lines lines;
    csn_str line;
    uint64_t pid;
    int n = 0, r = csn_lines_open(&lines, from, "cgroup.procs", 1u << 20);

    if (r < 0)
        return r;
    while ((r = csn_lines_next(&lines, &line)) > 0) {
        if (csn_parse_u64(line, &pid) < 0 || pid == 0)
            continue;
        r = csn_cg_write_i64(to, "cgroup.procs", (int64_t) pid);
        if (r < 0 && r != -ESRCH)
            break;
        n++;
    }
    csn_lines_done(&lines);
    return r < 0 ? r : n;
}

int csn_cg_v2_empty(int own)
{
    csn_auto(fd) int leaf = -1;
    int r = 1;

    if (mkdirat(own, CSN_CGROUP_ENGINE, 0755) < 0 && errno != EEXIST)
        return -errno;
    leaf = openat(own, CSN_CGROUP_ENGINE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (leaf < 0)
        return -errno;
    for (int i = 0; r > 0 && i < PREPARE_ROUNDS; i++)
        r = move_all(own, leaf);
    return r > 0 ? -EBUSY : r;
}

/* ---- controllers for our groups ---- */

/* What a group says when nobody asked its controller for anything. */
static const struct controller {
    uint32_t bit;
    const char *name;
    struct {
        const char *file, *unset;
    } files[3];
} controllers[] = {
    { CSN_CG_MEMORY, "memory", { { "memory.max", "max" }, { "memory.high", "max" }, { "memory.low", "0" } } },
    { CSN_CG_PIDS, "pids", { { "pids.max", "max" } } },
    { CSN_CG_CPU, "cpu", { { "cpu.weight", "100" }, { "cpu.max", "max 100000" }, { "cpu.idle", "0" } } },
};

/* Which of them are on for the children of `dir`. */
static uint32_t read_enabled(int dir)
{
    char text[512];
    uint32_t on = 0;
    int n = csn_small_read(dir, "cgroup.subtree_control", text, sizeof(text));

    if (n < 0)
        return 0;
    csn_str rest = csn_str_trim(csn_str_n(text, (size_t) n));
    for (csn_str word = csn_lines_field(&rest, ' '); word.len; word = csn_lines_field(&rest, ' '))
        for (size_t i = 0; i < CSN_COUNT(controllers); i++)
            if (csn_str_is(word, controllers[i].name))
                on |= controllers[i].bit;
    return on;
}

static int switch_one(int dir, char sign, const char *name)
{
    char text[16];

    (void) snprintf(text, sizeof(text), "%c%s", sign, name); /* fits: names are short */
    return csn_cg_write(dir, "cgroup.subtree_control", text);
}

static int enable(int dir, uint32_t wanted)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < CSN_COUNT(controllers); i++)
        if (wanted & controllers[i].bit)
            r = switch_one(dir, '+', controllers[i].name);
    return r;
}

/* What we switched on in somebody's group stands on ours, and is taken back with it. Before 5.7 there is nowhere to write
 * it, and it stays on. */
static void remember(int parent, uint32_t bits)
{
    char text[16];
    uint32_t before = csn_cg_v2_remembered(parent);

    (void) snprintf(text, sizeof(text), "%u", bits | before);              /* fits */
    (void) fsetxattr(parent, "user.caisson.on", text, strlen(text), 0); /* see above */
}

uint32_t csn_cg_v2_remembered(int parent)
{
    char text[16] = "";
    uint64_t bits = 0;
    ssize_t n = fgetxattr(parent, "user.caisson.on", text, sizeof(text) - 1);

    return n > 0 && csn_parse_u64(csn_str_n(text, (size_t) n), &bits) == 0 ? (uint32_t) bits & CSN_CG_LIMITS : 0;
}

bool csn_cg_v2_has_divided(int own)
{
    csn_auto(fd) int parent =
        openat(own, CSN_CGROUP_PARENT, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    return parent < 0 || csn_cg_v2_remembered(parent) != 0;
}

static int enable_own(int own, uint32_t missing)
{
    int r = enable(own, missing);

    if (r != -EBUSY) /* only the host's root group may have processes and controllers both */
        return r;
    r = csn_cg_v2_empty(own);
    return r < 0 ? r : enable(own, missing);
}

int csn_cg_v2_prepare(const csn_cgroup_hierarchy *h)
{
    uint32_t wanted = h->controllers & CSN_CG_LIMITS;
    csn_auto(fd) int own = open(h->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), parent = -1;

    if (own < 0)
        return -errno;
    if (mkdirat(own, CSN_CGROUP_PARENT, 0755) < 0 && errno != EEXIST)
        return -errno;
    parent = openat(own, CSN_CGROUP_PARENT, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (parent < 0)
        return -errno;
    if ((read_enabled(parent) & wanted) == wanted)
        return 0;
    uint32_t missing = wanted & ~read_enabled(own);
    if (missing)
        remember(parent, missing);
    int r = missing ? enable_own(own, missing) : 0;
    return r < 0 ? r : enable(parent, wanted);
}

/* ---- and as it was before ---- */

static bool is_default(int group, const struct controller *c)
{
    for (size_t i = 0; i < CSN_COUNT(c->files) && c->files[i].file; i++) {
        char text[64];
        int n = csn_small_read(group, c->files[i].file, text, sizeof(text));
        if (n >= 0 && !csn_str_is(csn_str_trim(csn_str_n(text, (size_t) n)), c->files[i].unset))
            return false;
    }
    return true;
}

/* Somebody else's group may have come to use it meanwhile: then it is his. */
static bool has_user(int own, const struct controller *c)
{
    csn_auto(fd) int dir = openat(own, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_used = dir < 0;
    unsigned char type;
    const char *name;
    csn_dents dents;

    csn_dents_begin(&dents, dir);
    while (!is_used && csn_dents_next(&dents, &name, &type) > 0) {
        csn_auto(fd) int group = -1;
        if (type != DT_DIR)
            continue;
        group = openat(own, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        is_used = group >= 0 && !is_default(group, c);
    }
    return is_used;
}

/* The processes that had to leave their group for its controllers come back. */
static void refill(int own)
{
    csn_auto(fd) int leaf = openat(own, CSN_CGROUP_ENGINE, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int r = 1;

    if (leaf < 0 || read_enabled(own))
        return;
    for (int i = 0; r > 0 && i < PREPARE_ROUNDS; i++)
        r = move_all(leaf, own);
    (void) unlinkat(own, CSN_CGROUP_ENGINE, AT_REMOVEDIR); /* somebody came in meanwhile: it stays */
}

void csn_cg_v2_restore(int own, uint32_t bits)
{
    for (size_t i = 0; i < CSN_COUNT(controllers); i++)
        if (bits & controllers[i].bit && !has_user(own, &controllers[i]))
            (void) switch_one(own, '-', controllers[i].name); /* EBUSY: used further down */
    refill(own);
}
