/* run/: where ephemeral sandboxes have their directories. A link of the private state directory to a directory in memory
 * that is ours alone; the name is random, so nobody can have been there before us, and the link is the only way to it.
 * The last engine to close takes an empty directory away and leaves the link, which points into nothing then, as it does
 * after a restart of the machine; the next engine, or the next create of one that was open meanwhile, makes it again.
 * In it a link `state` names the state directory, so that one whose state directory was removed under a killed program is
 * found when the next such directory is made, and by gc.
 * Without a file system in memory run/ is an ordinary directory, which is slower and nothing else. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "local/local.h"

enum { PATH_SIZE = 256, WORD_LEN = 16, MEMORY_DIRS = 3 };

static bool is_in_memory(const char *dir)
{
    struct statfs fs;

    return statfs(dir, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC) &&
           access(dir, W_OK | X_OK) == 0;
}

static bool is_ours(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

/* ---- left-overs ---- */

/* Empty, and its state directory is gone or leads elsewhere by now. What has a box in it stays: its keeper may live. */
static bool is_abandoned(int dir_fd, const char *path)
{
    char state[4096], link[4096 + 8], back[PATH_SIZE];
    ssize_t n = readlinkat(dir_fd, "state", state, sizeof(state) - 1);

    if (n <= 0)
        return false; /* made by an older version, or not ours to judge */
    state[n] = '\0';
    (void) snprintf(link, sizeof(link), "%s/run", state); /* fits */
    n = readlink(link, back, sizeof(back) - 1);
    if (n < 0)
        return errno == ENOENT || errno == ENOTDIR;
    back[n] = '\0';
    return strcmp(back, path) != 0;
}

static void remove_abandoned(int parent_fd, const char *dir, const char *name)
{
    csn_auto(fd) int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    char path[2 * PATH_SIZE];

    (void) snprintf(path, sizeof(path), "%s/%s", dir, name); /* fits */
    if (fd < 0 || !is_ours(fd) || !is_abandoned(fd, path))
        return;
    if ((unlinkat(fd, "boxes", AT_REMOVEDIR) < 0 && errno != ENOENT) ||
        (unlinkat(fd, "ids", AT_REMOVEDIR) < 0 && errno != ENOENT))
        return; /* something is in it */
    (void) unlinkat(fd, "state", 0);
    (void) unlinkat(parent_fd, name, AT_REMOVEDIR); /* what is in it keeps it */
}

static void sweep_dir(const char *dir)
{
    DIR *d = opendir(dir);

    for (struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, "caisson-", 8) == 0 && strlen(e->d_name) == 8 + WORD_LEN &&
            csn_is_hex(e->d_name + 8, WORD_LEN))
            remove_abandoned(dirfd(d), dir, e->d_name);
    if (d)
        (void) closedir(d); /* only read from */
}

static const char *memory_dir(size_t i)
{
    const char *const dirs[] = { secure_getenv("XDG_RUNTIME_DIR"), "/run", "/dev/shm" };
    const char *dir = i < CSN_COUNT(dirs) ? dirs[i] : NULL;

    return dir && dir[0] == '/' && strlen(dir) <= PATH_SIZE / 2 && is_in_memory(dir) ? dir : NULL;
}

void csn_run_sweep(void)
{
    for (size_t i = 0; i < MEMORY_DIRS; i++) {
        const char *dir = memory_dir(i); /* asked once: what is mounted there may change meanwhile */
        if (dir)
            sweep_dir(dir);
    }
}

/* ---- making it ---- */

/* A new directory below one of the places where systems keep memory, or an empty path. */
static int make_in_memory(char path[PATH_SIZE])
{
    char word[24];
    int r = csn_id_hex(word, 8);

    path[0] = '\0';
    for (size_t i = 0; r == 0 && i < MEMORY_DIRS; i++) {
        const char *dir = memory_dir(i);
        if (!dir)
            continue;
        (void) snprintf(path, PATH_SIZE, "%s/caisson-%s", dir, word); /* fits */
        if (mkdir(path, 0700) == 0)
            return 0;
        path[0] = '\0';
    }
    return r;
}

/* The directory the link names, once more; an empty path when the name is taken or there is no link. */
static void make_again(int state_fd, char path[PATH_SIZE])
{
    ssize_t n = readlinkat(state_fd, "run", path, PATH_SIZE - 1);

    path[n > 0 ? n : 0] = '\0';
    if (n <= 0 || path[0] != '/' || mkdir(path, 0700) < 0)
        path[0] = '\0';
}

/* 1: run/ leads to a directory of ours. */
static int is_there(int state_fd)
{
    csn_auto(fd) int fd = openat(state_fd, "run", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd >= 0 && is_ours(fd);
}

static int point_to(int state_fd, const char *path)
{
    if (unlinkat(state_fd, "run", 0) < 0 && errno != ENOENT)
        return -errno;
    if (path[0] == '\0')
        return mkdirat(state_fd, "run", 0700) < 0 ? -errno : 0;
    return symlinkat(path, state_fd, "run") < 0 ? -errno : 0;
}

/* Where it belongs, for who finds it later. Without it nothing is found, and nothing else is wrong. */
static void name_state(int state_fd, const char *path)
{
    char self[64], state[4096], link[PATH_SIZE + 8];
    ssize_t n;

    (void) snprintf(self, sizeof(self), "/proc/self/fd/%d", state_fd); /* fits */
    n = readlink(self, state, sizeof(state) - 1);
    if (n <= 0)
        return;
    state[n] = '\0';
    (void) snprintf(link, sizeof(link), "%s/state", path); /* fits */
    if (symlink(state, link) < 0)
        return; /* as said above */
}

static void remove_dir(const char *path)
{
    char link[PATH_SIZE + 8];

    (void) snprintf(link, sizeof(link), "%s/state", path); /* fits */
    (void) unlink(link);
    (void) rmdir(path); /* what is in it keeps it */
}

static int make_run(int state_fd)
{
    char path[PATH_SIZE];
    int r = csn_fault_as("mkdir", ENOSPC);

    if (r < 0)
        return r;
    make_again(state_fd, path);
    if (path[0]) {
        name_state(state_fd, path);
        return 0;
    }
    csn_run_sweep(); /* seldom enough: a new state directory */
    if ((r = make_in_memory(path)) < 0)
        return r;
    r = point_to(state_fd, path);
    if (r == 0 && path[0])
        name_state(state_fd,
                   path); /* last: what names a state directory is judged by its link back */
    if (r < 0 && path[0])
        remove_dir(path); /* just made, and empty */
    return r;
}

/* Only one engine may do this at a time, or one would lose its boxes to the other's link. */
int csn_run_prepare(int state_fd)
{
    int r = flock(state_fd, LOCK_EX) < 0 ? -errno : 0;

    if (r == 0 && !is_there(state_fd))
        r = make_run(state_fd);
    if (r == 0 && mkdirat(state_fd, "run/ids", 0700) < 0 && errno != EEXIST)
        r = -errno;
    if (r == 0 && mkdirat(state_fd, "run/boxes", 0700) < 0 && errno != EEXIST)
        r = -errno;
    (void) flock(state_fd, LOCK_UN); /* closing would do it, too */
    return r;
}

void csn_run_tidy(int state_fd)
{
    char path[PATH_SIZE];
    ssize_t n = readlinkat(state_fd, "run", path, sizeof(path) - 1);

    if (n <= 0 || flock(state_fd, LOCK_EX | LOCK_NB) < 0)
        return;
    path[n] = '\0';
    if (unlinkat(state_fd, "run/boxes", AT_REMOVEDIR) == 0) { /* empty, or it fails */
        if (unlinkat(state_fd, "run/ids", AT_REMOVEDIR) == 0)
            remove_dir(path);
        else
            (void) mkdirat(state_fd, "run/boxes", 0700); /* else the next create does */
    }
    (void) flock(state_fd, LOCK_UN); /* closing would do it, too */
}
