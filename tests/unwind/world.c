/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
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
        prctl(PR_SET_CHILD_SUBREAPER, 1); /* what a killed client leaves is still known as ours */
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

/* Lines that name our state directory, or where its run/ leads to: the machine's other mounts come and go by themselves. */
static int count_mounts(void)
{
    char line[4096], link[300], run[256];
    int n = 0;
    snprintf(link, sizeof(link), "%s/run", state_dir);
    ssize_t len = readlink(link, run, sizeof(run) - 1);
    run[len > 0 ? len : 0] = '\0';
    FILE *f = fopen("/proc/self/mountinfo", "re");
    while (f && fgets(line, sizeof(line), f))
        n += strstr(line, state_dir) || (run[0] && strstr(line, run));
    if (f)
        fclose(f);
    return n;
}

/* --- processes: what descends from us. Whoever lost its parent does, too, since we are its subreaper. ----------------- */

static pid_t parent_of(pid_t pid, char *ret_state)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    const char *end = strrchr(text, ')'); /* a name may hold anything */
    if (!end || strlen(end) < 5)
        return 0;
    *ret_state = end[2]; /* ") S 123 …" */
    return (pid_t) strtol(end + 3, NULL, 10);
}

static int is_ours(pid_t pid)
{
    char state = 0;
    for (int depth = 0; pid > 1 && depth < 64; depth++) {
        pid = parent_of(pid, &state);
        if (pid == getpid())
            return 1;
    }
    return 0;
}

static int count_processes(void)
{
    DIR *dir = opendir("/proc");
    struct dirent *d;
    int n = 0;
    while (dir && (d = readdir(dir))) {
        pid_t pid = isdigit((unsigned char) d->d_name[0]) ? (pid_t) strtol(d->d_name, NULL, 10) : 0;
        char state = 0;
        n += pid > 0 && parent_of(pid, &state) > 0 && state != 'Z' && is_ours(pid);
    }
    if (dir)
        closedir(dir);
    return n;
}

/* --- cgroups: others on this machine make and remove theirs, so names are compared, not numbers -------------------------- */

static int is_box_id(const char *name)
{
    size_t n = 0;
    while (isxdigit((unsigned char) name[n]))
        n++;
    return n == WORLD_ID_LEN && name[n] == '\0';
}

static int has_foreign_process(const char *group)
{
    char path[600], line[32];
    int found = 0;
    snprintf(path, sizeof(path), "%s/cgroup.procs", group);
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof(line), f))
        found = !is_ours((pid_t) strtol(line, NULL, 10));
    if (f)
        fclose(f);
    return found;
}

static world *fills; /* nftw() takes no argument */

static int see_cgroup(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void) st;
    if (type != FTW_D || !is_box_id(path + at->base) || fills->n_cgroups == WORLD_CGROUPS_MAX)
        return 0;
    int i = 0;
    while (i < fills->n_cgroups && strcmp(fills->cgroups[i].id, path + at->base) != 0)
        i++;
    world_cgroup *group = &fills->cgroups[i];
    if (i == fills->n_cgroups) {
        fills->n_cgroups++;
        memcpy(group->id, path + at->base, WORLD_ID_LEN + 1);
        group->is_foreign = 0;
    }
    group->is_foreign |= (char) has_foreign_process(path);
    return 0;
}

static const world_cgroup *find_cgroup(const world *w, const char *id)
{
    for (int i = 0; i < w->n_cgroups; i++)
        if (strcmp(w->cgroups[i].id, id) == 0)
            return &w->cgroups[i];
    return NULL;
}

/* New since `before`, there at every look since the first one, and never seen with somebody else's process in it. */
static void keep_left(world *left, const world *before, const world *now, int is_first)
{
    world seen = *left;
    left->n_cgroups = 0;
    for (int i = 0; i < now->n_cgroups; i++) {
        const world_cgroup *group = &now->cgroups[i];
        if (!group->is_foreign && !find_cgroup(before, group->id) &&
            (is_first || find_cgroup(&seen, group->id)))
            left->cgroups[left->n_cgroups++] = *group;
    }
}

static int count_loops(void)
{
    int n = 0;
    for (int i = 0; i < 256; i++) {
        char path[64], file[512] = "";
        snprintf(path, sizeof(path), "/sys/block/loop%d/loop/backing_file", i);
        FILE *f = fopen(path, "re");
        n += f && fgets(file, sizeof(file), f) && strncmp(file, state_dir, strlen(state_dir)) == 0;
        if (f)
            fclose(f);
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
    while (waitpid(-1, NULL, WNOHANG) > 0) /* those we got by being the subreaper */
        ;
    w->n_state = count_state();
    w->n_fds = count_entries("/proc/self/fd");
    w->n_mounts = count_mounts();
    w->n_processes = count_processes();
    w->n_loops = count_loops();
    w->n_cgroups = 0;
    fills = w;
    nftw("/sys/fs/cgroup", see_cgroup, 32, FTW_PHYS);
}

static int differs(const char *what, int before, int after, int is_said)
{
    if (before == after)
        return 0;
    if (is_said)
        csn_test_note("%s: %d before, %d after", what, before, after);
    return 1;
}

static int compare(const world *a, const world *b, const world *left, int is_said)
{
    return differs("descriptors", a->n_fds, b->n_fds, is_said) +
           differs("our mounts", a->n_mounts, b->n_mounts, is_said) +
           differs("our processes", a->n_processes, b->n_processes, is_said) +
           differs("our cgroups", 0, left->n_cgroups, is_said) +
           differs("our loop devices", a->n_loops, b->n_loops, is_said) +
           differs("entries of the state directory", a->n_state, b->n_state, is_said);
}

int world_is_again(const world *before, int deadline_ms)
{
    static world now, left;
    for (int waited = 0;; waited += 5) { /* the kernel ends PID namespaces and removes cgroups in its own time */
        world_take(&now);
        keep_left(&left, before, &now, waited == 0);
        if (compare(before, &now, &left, 0) == 0)
            return 1;
        if (waited >= deadline_ms)
            break;
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    compare(before, &now, &left, 1);
    return 0;
}
