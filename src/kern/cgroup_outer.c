/* SPDX-License-Identifier: Apache-2.0 */
/* The groups around ours: what they allow, and how to find ours in them again. */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "cgroup_impl.h"
#include "lines.h"

enum { NOTE_MAX = CSN_CG_N * (CSN_CGROUP_PATH_MAX + 32) };

/* ---- limits on the way up ---- */

static void lower(int64_t *least, int64_t value)
{
    if (value > 0 && (*least == 0 || value < *least))
        *least = value;
}

static int64_t read_number(int dir, const char *file)
{
    uint64_t value;

    return csn_small_read_u64(dir, file, &value) == 0 && value < INT64_MAX ? (int64_t) value : -1;
}

/* v1 says "no limit" with the largest number of pages there is. */
static int64_t read_memory(int dir, enum csn_cgroup_rung rung)
{
    int64_t bytes =
        read_number(dir, rung == CSN_CGROUP_V2 ? "memory.max" : "memory.limit_in_bytes");

    return bytes < INT64_C(1) << 62 ? bytes : -1;
}

/* Rounded down: a group may not have more than the one around it, not by a microsecond. */
static int64_t milli_of(int64_t quota, int64_t period)
{
    return quota > 0 && period > 0 && quota < INT64_MAX / 1000 ? quota * 1000 / period : -1;
}

static int64_t read_cpu(int dir, enum csn_cgroup_rung rung)
{
    char text[64];
    uint64_t quota, period;
    int n;

    if (rung != CSN_CGROUP_V2) /* -1 is no number: no limit */
        return milli_of(read_number(dir, "cpu.cfs_quota_us"),
                        read_number(dir, "cpu.cfs_period_us"));
    n = csn_small_read(dir, "cpu.max", text, sizeof(text));
    csn_str rest = csn_str_trim(csn_str_n(text, n > 0 ? (size_t) n : 0));
    if (csn_parse_u64(csn_lines_field(&rest, ' '), &quota) < 0 ||
        csn_parse_u64(csn_lines_field(&rest, ' '), &period) < 0)
        return -1;
    return milli_of((int64_t) quota, (int64_t) period);
}

static void read_group(int dir, enum csn_cgroup_rung rung, uint32_t controllers,
                       csn_cgroup_outer *outer)
{
    if (controllers & CSN_CG_MEMORY)
        lower(&outer->memory_bytes, read_memory(dir, rung));
    if (controllers & CSN_CG_PIDS)
        lower(&outer->n_processes, read_number(dir, "pids.max"));
    if (controllers & CSN_CG_CPU)
        lower(&outer->cpu_milli, read_cpu(dir, rung));
}

static void read_way_up(const csn_cgroup_hierarchy *h, enum csn_cgroup_rung rung,
                        csn_cgroup_outer *outer)
{
    char path[CSN_CGROUP_PATH_MAX];
    char *slash;

    lower(&outer->n_processes, h->left_pids);
    memcpy(path, h->path, sizeof(path));
    do {
        csn_auto(fd) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0 || faccessat(dir, "cgroup.procs", F_OK, 0) < 0) /* above the hierarchy */
            return;
        read_group(dir, rung, h->controllers, outer);
        slash = strrchr(path, '/');
        if (slash)
            *slash = '\0';
    } while (slash && slash != path);
}

void csn_cgroup_outer_read(const csn_cgroup_host *host, csn_cgroup_outer *ret_outer)
{
    *ret_outer = (csn_cgroup_outer){ 0 };
    for (uint32_t i = 0; i < host->n_hierarchies && i < CSN_CG_N; i++)
        if (host->hierarchies[i].controllers &
            CSN_CG_LIMITS) /* a container's top is somebody's group as well */
            read_way_up(&host->hierarchies[i], host->rung, ret_outer);
}

/* ---- where they are, for somebody in another group ---- */

int csn_cgroup_host_write(const csn_cgroup_host *host, int dirfd, const char *name)
{
    char text[NOTE_MAX];
    size_t len = 0;

    for (uint32_t i = 0; i < host->n_hierarchies && i < CSN_CG_N; i++) {
        const csn_cgroup_hierarchy *h = &host->hierarchies[i];
        len += (size_t) snprintf(text + len, sizeof(text) - len, "%u %u %u %s\n",
                                 (unsigned) host->rung, (unsigned) h->controllers,
                                 h->is_top ? 1u : 0u, h->path); /* fits */
    }
    csn_auto(fd) int fd =
        openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : csn_write_all(fd, text, len);
}

static bool is_cgroup(const char *path)
{
    struct statfs fs;

    return statfs(path, &fs) == 0 &&
           (fs.f_type == CGROUP_SUPER_MAGIC || fs.f_type == CGROUP2_SUPER_MAGIC);
}

/* A line as written above. One whose group is gone, and ours with it, is passed over. */
static int take_line(csn_cgroup_host *host, csn_str line)
{
    csn_cgroup_hierarchy *h = &host->hierarchies[host->n_hierarchies];
    uint64_t rung, controllers, is_top;

    if (host->n_hierarchies == CSN_CG_N || csn_parse_u64(csn_lines_field(&line, ' '), &rung) < 0 ||
        csn_parse_u64(csn_lines_field(&line, ' '), &controllers) < 0 ||
        csn_parse_u64(csn_lines_field(&line, ' '), &is_top) < 0 ||
        (rung != CSN_CGROUP_V1 && rung != CSN_CGROUP_V2) ||
        csn_str_copy(h->path, sizeof(h->path), csn_lines_field(&line, ' ')) < 0 ||
        h->path[0] != '/' || strstr(h->path, "/.."))
        return -EBADMSG;
    if (access(h->path, F_OK) < 0)
        return 0;
    if (!is_cgroup(h->path))
        return -EBADMSG;
    host->rung = (enum csn_cgroup_rung) rung;
    h->controllers = (uint32_t) controllers & ((1u << CSN_CG_N) - 1);
    h->is_top = is_top != 0;
    host->controllers |= h->controllers;
    host->n_hierarchies++;
    return 0;
}

int csn_cgroup_host_read(int dirfd, const char *name, csn_cgroup_host *ret_host)
{
    csn_lines lines;
    csn_str line;
    int r = csn_lines_open(&lines, dirfd, name, NOTE_MAX), bad = 0;

    if (r < 0)
        return r;
    memset(ret_host, 0, sizeof(*ret_host));
    while (bad == 0 && (r = csn_lines_next(&lines, &line)) > 0)
        bad = take_line(ret_host, line);
    csn_lines_done(&lines);
    return bad < 0 ? bad : r;
}
