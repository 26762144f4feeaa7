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

#define CREATE_TRIES 100 /* each loss is somebody else's tidying between two of our calls */

void csn_cgroup_init(csn_cgroup *cg)
{
    *cg = (csn_cgroup){ .rung = CSN_CGROUP_NONE };
    for (size_t i = 0; i < CSN_COUNT(cg->in); i++)
        cg->in[i].own_fd = cg->in[i].parent_fd = cg->in[i].dir_fd = cg->in[i].tasks_fd = -1;
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
        csn_close(&cg->in[i].own_fd);
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

/* `caisson` in our own group, made when `make`; *ret_own is -1 where it stays. */
static int open_parent(const csn_cgroup_hierarchy *h, bool make, int *ret_fd, int *ret_own)
{
    csn_auto(fd) int own = csn_fault("cgroup_open");
    const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;

    if (own < 0)
        return own;
    own = open(h->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (own < 0)
        return -errno;
    int fd = openat(own, CSN_CGROUP_PARENT, flags);
    if (fd < 0 && errno == ENOENT && make) {
        if (mkdirat(own, CSN_CGROUP_PARENT, 0755) < 0 && errno != EEXIST)
            return -errno;
        fd = openat(own, CSN_CGROUP_PARENT, flags);
    }
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    *ret_own = h->is_top ? -1 : csn_take_fd(&own);
    return 0;
}

static int open_group(csn_cgroup *cg, uint32_t i)
{
    cg->in[i].dir_fd =
        openat(cg->in[i].parent_fd, cg->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return cg->in[i].dir_fd < 0 ? -errno : 0;
}

/* One hierarchy: directory, limits, and on v1 the file to join by. What was made stands in cg even on
 * failure, so that the caller can undo it. */
static int make_group(csn_cgroup *cg, uint32_t i, const csn_cgroup_limits *limits)
{
    int r = csn_fault("cgroup_mkdir");

    if (r == 0 && mkdirat(cg->in[i].parent_fd, cg->id, 0755) < 0)
        r = -errno;
    if (r < 0) {
        csn_close(&cg->in[i].parent_fd); /* nothing of ours to remove */
        return r;
    }
    r = open_group(cg, i);
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
static int choose(const csn_cgroup_host *host, const char *id, uint32_t wanted, bool make,
                  csn_cgroup *cg)
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
        r = open_parent(&host->hierarchies[i], make, &cg->in[cg->n].parent_fd,
                        &cg->in[cg->n].own_fd);
        if (r == 0 && cg->rung == CSN_CGROUP_V2 && cg->in[cg->n].own_fd >= 0 &&
            csn_cg_v2_has_divided(cg->in[cg->n].own_fd))
            csn_close(
                &cg->in[cg->n]
                     .own_fd); /* more than a directory is to be taken back: csn_cgroup_tidy() */
        if (r == -ENOENT && !make)
            r = 0;
        else if (r == 0)
            cg->n++;
    }
    if (r < 0)
        csn_cgroup_done(cg);
    return r;
}

static int try_create(const csn_cgroup_host *host, const char *id, uint32_t wanted,
                      const csn_cgroup_limits *limits, csn_cgroup *cg)
{
    int r = host->rung == CSN_CGROUP_V2 ? csn_cg_v2_prepare(&host->hierarchies[0]) : 0;

    csn_cgroup_init(cg);
    if (r == 0)
        r = choose(host, id, wanted, true, cg);
    for (uint32_t i = 0; r == 0 && i < cg->n; i++) {
        r = make_group(cg, i, limits);
        if (r < 0) /* those behind it don't exist yet */
            for (uint32_t k = i + 1; k < cg->n; k++)
                csn_close(&cg->in[k].parent_fd);
    }
    if (r < 0) {
        (void) csn_cgroup_remove(cg); /* just made and empty; the first error is the story */
        csn_cgroup_done(cg);
    }
    return r;
}

int csn_cgroup_create(const csn_cgroup_host *host, const char *id, const csn_cgroup_limits *limits,
                      csn_cgroup *ret_cg)
{
    uint32_t wanted = limits->controllers ? limits->controllers : CSN_CG_LIMITS;
    csn_cgroup cg;
    int r = -ENOENT;

    if (host->rung == CSN_CGROUP_NONE || (host->controllers & wanted) != wanted)
        return -ENOTSUP;
    for (int i = 0; r == -ENOENT && i < CREATE_TRIES; i++)
        r = try_create(host, id, wanted, limits, &cg); /* somebody may have tidied meanwhile */
    if (r == 0)
        *ret_cg = cg;
    return r;
}

int csn_cgroup_open(const csn_cgroup_host *host, const char *id, csn_cgroup *ret_cg)
{
    csn_cgroup cg;
    bool found = false;
    int r = choose(host, id, ~0u, false, &cg);

    for (uint32_t i = 0; r == 0 && i < cg.n; i++) {
        r = open_group(&cg, i);
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

int csn_cgroup_open_joins(const csn_cgroup *cg, uint32_t controllers, int *fds, size_t *ret_n)
{
    const char *file = cg->rung == CSN_CGROUP_V2 ? "cgroup.procs" : "tasks";
    size_t n = 0;

    for (uint32_t i = 0; i < cg->n; i++) {
        if (!(cg->in[i].controllers & controllers))
            continue;
        fds[n] = openat(cg->in[i].dir_fd, file, O_WRONLY | O_CLOEXEC);
        if (fds[n] < 0) {
            int r = -errno;
            csn_close_many(fds, n);
            return r;
        }
        n++;
    }
    *ret_n = n;
    return 0;
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
