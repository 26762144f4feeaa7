/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "csn_test.h"

static char state_dir[256];

const char *world_state_dir(void)
{
    if (!state_dir[0]) {
        snprintf(state_dir, sizeof(state_dir), "%s/state", csn_test_dir());
        mkdir(state_dir, 0700);
        setenv("CAISSON_STATE", state_dir, 1);
    }
    return state_dir;
}

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *d;
    int n = 0;
    while (dir && (d = readdir(dir)))
        n += strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
    if (dir)
        closedir(dir);
    return n;
}

static int count_lines(const char *path)
{
    char line[4096];
    int n = 0;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        n++;
    if (f)
        fclose(f);
    return n;
}

static int is_box_id(const char *name)
{
    size_t n = 0;
    while (isxdigit((unsigned char) name[n]))
        n++;
    return n == 32 && name[n] == '\0';
}

static int cgroups_seen;

static int see_cgroup(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void) st;
    cgroups_seen += type == FTW_D && is_box_id(path + at->base);
    return 0;
}

static int count_cgroups(void)
{
    cgroups_seen = 0;
    nftw("/sys/fs/cgroup", see_cgroup, 32, FTW_PHYS);
    return cgroups_seen;
}

/* A keeper holds descriptors below its state directory; an init or helper is a child of a keeper. */
static int belongs_to_us(const char *pid)
{
    char path[320], target[512], comm[64] = "";
    snprintf(path, sizeof(path), "/proc/%s/comm", pid);
    FILE *f = fopen(path, "re");
    if (!f || !fgets(comm, sizeof(comm), f))
        comm[0] = '\0';
    if (f)
        fclose(f);
    if (strncmp(comm, "caisson", 7) != 0 && strncmp(comm, "slirp4netns", 11) != 0)
        return 0;
    if (strncmp(comm, "caisson-keeper", 14) != 0)
        return 1;
    snprintf(path, sizeof(path), "/proc/%s/fd", pid);
    DIR *dir = opendir(path);
    struct dirent *d;
    int is_ours = 0;
    while (dir && (d = readdir(dir))) {
        char link[600];
        snprintf(link, sizeof(link), "%s/%s", path, d->d_name);
        ssize_t n = readlink(link, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        is_ours |= strncmp(target, state_dir, strlen(state_dir)) == 0;
    }
    if (dir)
        closedir(dir);
    return is_ours;
}

static int count_processes(void)
{
    DIR *dir = opendir("/proc");
    struct dirent *d;
    int n = 0;
    while (dir && (d = readdir(dir)))
        if (isdigit((unsigned char) d->d_name[0]))
            n += belongs_to_us(d->d_name);
    if (dir)
        closedir(dir);
    return n;
}

static int count_loops(void)
{
    int n = 0;
    for (int i = 0; i < 64; i++) {
        char path[64];
        snprintf(path, sizeof(path), "/sys/block/loop%d/loop/backing_file", i);
        n += access(path, F_OK) == 0;
    }
    return n;
}

static int count_state(void)
{
    static const char *const dirs[] = { "boxes", "names", "ids", "run/boxes", "run/ids" };
    char path[512];
    int n = 0;
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", world_state_dir(), dirs[i]);
        n += count_entries(path);
    }
    return n;
}

void world_take(world *w)
{
    w->n_state = count_state();
    w->n_fds = count_entries("/proc/self/fd");
    w->n_mounts = count_lines("/proc/self/mountinfo");
    w->n_processes = count_processes();
    w->n_cgroups = count_cgroups();
    w->n_loops = count_loops();
}

static int differs(const char *what, int before, int after, int is_said)
{
    if (before == after)
        return 0;
    if (is_said)
        csn_test_note("%s: %d before, %d after", what, before, after);
    return 1;
}

static int compare(const world *a, const world *b, int is_said)
{
    return differs("descriptors", a->n_fds, b->n_fds, is_said) + differs("mounts", a->n_mounts, b->n_mounts, is_said) +
           differs("processes", a->n_processes, b->n_processes, is_said) +
           differs("cgroups", a->n_cgroups, b->n_cgroups, is_said) +
           differs("loop devices", a->n_loops, b->n_loops, is_said) +
           differs("entries of the state directory", a->n_state, b->n_state, is_said);
}

int world_is_again(const world *before, int deadline_ms)
{
    world now;
    for (int waited = 0;; waited += 5) { /* the kernel ends PID namespaces and removes cgroups in its own time */
        world_take(&now);
        if (compare(before, &now, 0) == 0)
            return 1;
        if (waited >= deadline_ms)
            break;
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    compare(before, &now, 1);
    return 0;
}
