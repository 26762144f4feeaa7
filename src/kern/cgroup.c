/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "cgroup_impl.h"

#define NAME_SIZE (sizeof(CSN_CGROUP_PREFIX) + CSN_CGROUP_ID_MAX)

void csn_cgroup_init(csn_cgroup *cg)
{
    *cg = (csn_cgroup){ .rung = CSN_CGROUP_NONE };
    for (size_t i = 0; i < CSN_COUNT(cg->in); i++)
        cg->in[i].parent_fd = cg->in[i].dir_fd = cg->in[i].tasks_fd = -1;
}

void csn_cgroup_close_tasks(csn_cgroup *cg)
{
    for (size_t i = 0; i < CSN_COUNT(cg->in); i++)
        csn_close(&cg->in[i].tasks_fd);
}

void csn_cgroup_done(csn_cgroup *cg)
{
    csn_cgroup_close_tasks(cg);
    for (size_t i = 0; i < CSN_COUNT(cg->in); i++) {
        csn_close(&cg->in[i].dir_fd);
        csn_close(&cg->in[i].parent_fd);
    }
    csn_cgroup_init(cg);
}

int csn_cg_write(int dir_fd, const char *file, const char *value)
{
    int r = csn_fault_as("cgroup_write", EIO);

    return r < 0 ? r : csn_write_file(dir_fd, file, value, strlen(value));
}

int csn_cg_write_i64(int dir_fd, const char *file, int64_t value)
{
    char text[24];

    (void) snprintf(text, sizeof(text), "%lld", (long long) value); /* always fits */
    return csn_cg_write(dir_fd, file, text);
}

int csn_cg_dir(const csn_cgroup *cg, uint32_t controller)
{
    for (uint32_t i = 0; i < cg->n; i++)
        if (cg->in[i].controllers & controller)
            return cg->in[i].dir_fd;
    return -1;
}

/* It becomes a directory name. */
static int check_id(const char *id)
{
    size_t len = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-");

    return len == 0 || len > CSN_CGROUP_ID_MAX || id[len] != '\0' ? -EINVAL : 0;
}

static void group_name(const char *id, char out[NAME_SIZE])
{
    (void) snprintf(out, NAME_SIZE, CSN_CGROUP_PREFIX "%s", id); /* checked before: fits */
}

static int open_parent(const csn_cgroup_hierarchy *h, int *ret_fd)
{
    int r = csn_fault("cgroup_open");

    if (r < 0)
        return r;
    int fd = open(h->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

static int open_group(csn_cgroup *cg, uint32_t i, const char *name)
{
    cg->in[i].dir_fd =
        openat(cg->in[i].parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return cg->in[i].dir_fd < 0 ? -errno : 0;
}

/* One hierarchy: directory, limits, and on v1 the file to join by. What was made stands in cg even on
 * failure, so that the caller can undo it. */
static int make_group(csn_cgroup *cg, uint32_t i, const csn_cgroup_limits *limits)
{
    char name[NAME_SIZE];
    int r = csn_fault("cgroup_mkdir");

    group_name(cg->id, name);
    if (r == 0 && mkdirat(cg->in[i].parent_fd, name, 0755) < 0)
        r = -errno;
    if (r < 0) {
        csn_close(&cg->in[i].parent_fd); /* nothing of ours to remove */
        return r;
    }
    r = open_group(cg, i, name);
    if (r < 0)
        return r;
    if (cg->rung == CSN_CGROUP_V2)
        return csn_cg_v2_limit(cg->in[i].dir_fd, cg->in[i].controllers, limits);
    r = csn_cg_v1_limit(cg->in[i].dir_fd, cg->in[i].controllers, limits);
    if (r < 0)
        return r;
    cg->in[i].tasks_fd = openat(cg->in[i].dir_fd, "tasks", O_WRONLY | O_CLOEXEC);
    return cg->in[i].tasks_fd < 0 ? -errno : 0;
}

/* The hierarchies that hold what is wanted; all controllers of one come along. */
static int choose(const csn_cgroup_host *host, const char *id, uint32_t wanted, csn_cgroup *cg)
{
    int r = check_id(id);

    csn_cgroup_init(cg);
    if (r < 0)
        return r;
    cg->rung = host->rung;
    memcpy(cg->id, id, strlen(id) + 1);
    for (uint32_t i = 0; r == 0 && i < host->n_hierarchies && i < CSN_CG_N; i++) {
        if (!(host->hierarchies[i].controllers & wanted))
            continue;
        cg->in[cg->n].controllers = host->hierarchies[i].controllers;
        r = open_parent(&host->hierarchies[i], &cg->in[cg->n].parent_fd);
        cg->n += r == 0;
    }
    return r;
}

int csn_cgroup_create(const csn_cgroup_host *host, const char *id, const csn_cgroup_limits *limits,
                      csn_cgroup *ret_cg)
{
    uint32_t wanted = limits->controllers ? limits->controllers : CSN_CG_LIMITS;
    csn_cgroup cg;

    if (host->rung == CSN_CGROUP_NONE || (host->controllers & wanted) != wanted)
        return -ENOTSUP;
    int r = choose(host, id, wanted, &cg);
    for (uint32_t i = 0; r == 0 && i < cg.n; i++) {
        r = make_group(&cg, i, limits);
        if (r < 0) /* those behind it don't exist yet */
            for (uint32_t k = i + 1; k < cg.n; k++)
                csn_close(&cg.in[k].parent_fd);
    }
    if (r < 0) {
        (void) csn_cgroup_remove(&cg); /* just made and empty; the first error is the story */
        csn_cgroup_done(&cg);
        return r;
    }
    *ret_cg = cg;
    return 0;
}

int csn_cgroup_open(const csn_cgroup_host *host, const char *id, csn_cgroup *ret_cg)
{
    char name[NAME_SIZE];
    csn_cgroup cg;
    bool found = false;
    int r = choose(host, id, ~0u, &cg);

    for (uint32_t i = 0; r == 0 && i < cg.n; i++) {
        group_name(id, name);
        r = open_group(&cg, i, name);
        if (r == -ENOENT) {
            csn_close(&cg.in[i].parent_fd);
            cg.in[i].controllers = 0;
            r = 0;
        } else {
            found = true;
        }
    }
    if (r == 0 && !found)
        r = -ENOENT;
    if (r < 0)
        csn_cgroup_done(&cg);
    else
        *ret_cg = cg;
    return r;
}

int csn_cgroup_finish(const csn_cgroup *cg, const csn_cgroup_limits *limits)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < cg->n; i++)
        r = cg->rung == CSN_CGROUP_V2
                ? csn_cg_v2_finish(cg->in[i].dir_fd, cg->in[i].controllers, limits)
                : csn_cg_v1_finish(cg->in[i].dir_fd, cg->in[i].controllers, limits);
    return r;
}

int csn_cgroup_update(const csn_cgroup *cg, const csn_cgroup_limits *limits)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < cg->n; i++)
        r = cg->rung == CSN_CGROUP_V2
                ? csn_cg_v2_limit(cg->in[i].dir_fd, cg->in[i].controllers, limits)
                : csn_cg_v1_limit(cg->in[i].dir_fd, cg->in[i].controllers, limits);
    return r < 0 ? r : csn_cgroup_finish(cg, limits);
}

int csn_cgroup_clone_fd(const csn_cgroup *cg)
{
    return cg->rung == CSN_CGROUP_V2 && cg->n ? cg->in[0].dir_fd : -1;
}

int csn_cgroup_join(const csn_cgroup *cg)
{
    int r = csn_fault("cgroup_join");

    for (uint32_t i = 0; r == 0 && i < cg->n; i++)
        if (cg->in[i].tasks_fd >= 0)
            r = csn_write_all(cg->in[i].tasks_fd, "0", 1);
    return r;
}

int csn_cgroup_attach(const csn_cgroup *cg, int pid)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < cg->n; i++)
        r = csn_cg_write_i64(cg->in[i].dir_fd, "cgroup.procs", pid);
    return r;
}

int csn_cgroup_usage_read(const csn_cgroup *cg, csn_cgroup_usage *ret_usage)
{
    csn_cgroup_usage usage;
    int r = -ENOTSUP;

    memset(&usage, 0, sizeof(usage));
    if (cg->rung == CSN_CGROUP_V2 && cg->n)
        r = csn_cg_v2_usage(cg->in[0].dir_fd, &usage);
    else if (cg->rung == CSN_CGROUP_V1)
        r = csn_cg_v1_usage(cg, &usage);
    if (r == 0)
        *ret_usage = usage;
    return r;
}

int csn_cgroup_freeze(const csn_cgroup *cg)
{
    int dir = csn_cg_dir(cg, CSN_CG_FREEZER);

    if (dir < 0)
        return -ENOTSUP;
    return cg->rung == CSN_CGROUP_V2 ? csn_cg_v2_freeze(dir, true) : csn_cg_v1_freeze(dir, true);
}

int csn_cgroup_thaw(const csn_cgroup *cg)
{
    int dir = csn_cg_dir(cg, CSN_CG_FREEZER);

    if (dir < 0)
        return -ENOTSUP;
    return cg->rung == CSN_CGROUP_V2 ? csn_cg_v2_freeze(dir, false) : csn_cg_v1_freeze(dir, false);
}
