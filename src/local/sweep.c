/* What killed keepers and clients left behind. The rules are at the head of local.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"
#include "image/image.h"
#include "image/tree.h"
#include "kern/cgroup.h"
#include "local/helper.h"
#include "local/local.h"

enum { LOCK_WAIT_MS = 5000, LOCK_STEP_MS = 1 };

int csn_box_lock(int dir_fd)
{
    struct stat st;

    while (flock(dir_fd, LOCK_EX | LOCK_NB) < 0)
        if (errno != EINTR)
            return -errno;
    if (fstat(dir_fd, &st) == 0 && st.st_nlink > 0)
        return 0;
    csn_box_unlock(dir_fd);
    return -ENOENT;
}

/* Waits in steps and not in the kernel: the holder may be a request of this very thread. */
int csn_box_lock_now(int dir_fd)
{
    const int64_t deadline = csn_deadline_in_ms(LOCK_WAIT_MS);
    int r;

    while ((r = csn_box_lock(dir_fd)) == -EWOULDBLOCK && !csn_deadline_passed(deadline))
        (void) poll(NULL, 0, LOCK_STEP_MS); /* a pause, nothing is polled */
    return r;
}

void csn_box_unlock(int dir_fd)
{
    (void) flock(dir_fd, LOCK_UN); /* can't fail on a descriptor that was locked */
}

bool csn_box_is_removed(int dir_fd)
{
    struct stat st;

    return fstat(dir_fd, &st) < 0 || st.st_nlink == 0;
}

/* Asked only with the directory's lock (shared will do): taking the keeper's lock for a moment must not get in the way
 * of a keeper that starts, and keepers start only under that lock. */
bool csn_box_has_keeper(int dir_fd)
{
    csn_auto(fd) int fd = openat(dir_fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* The groups of a keeper that was killed, in whatever group it was: a job can't be removed while they are there. */
static bool sweep_noted(const char *id, int dir_fd)
{
    csn_cgroup_host host;

    if (csn_cgroup_host_read(dir_fd, CSN_BOX_CGROUPS, &host) < 0)
        return false;
    if (csn_cgroup_sweep(&host, id) < 0)
        return true; /* what can't go now goes next time */
    (void) csn_cgroup_tidy(&host);
    (void) unlinkat(dir_fd, CSN_BOX_CGROUPS, 0);
    return true;
}

static void sweep_cgroups(const char *id, int dir_fd)
{
    csn_cgroup_host host;

    if (!sweep_noted(id, dir_fd) && csn_cgroup_probe(&host) == 0 && host.rung != CSN_CGROUP_NONE)
        (void) csn_cgroup_sweep(&host, id); /* what can't go now goes next time */
}

/* The keeper gave up the right to remove what is above its own group. */
void csn_local_tidy_cgroups(const csn_local *local)
{
    csn_cgroup_host host;

    if (local->has_ended_some && csn_cgroup_probe(&host) == 0 && host.rung != CSN_CGROUP_NONE)
        (void) csn_cgroup_tidy(&host); /* in use: whoever ends the last one does it */
}

static int remove_files(csn_local *local, const csn_wish *wish, csn_error *err)
{
    const char *id = wish->id;

    local->has_ended_some = true;
    int boxes_fd = csn_place_of(local, wish)->boxes_fd, r = csn_tree_remove(boxes_fd, id);

    if (r == -EACCES || r == -EPERM) { /* files of ids we may not touch ourselves */
        if ((r = csn_helper_remove(local, id, err)) < 0)
            return r;
        r = csn_tree_remove(boxes_fd, id);
    }
    return r < 0 ? csn_fail_sys(err, r, "remove the files of sandbox '%s'", id) : CSN_OK;
}

int csn_box_remove(csn_local *local, const csn_wish *wish, int dir_fd, csn_error *err)
{
    /* From here on a crash must not leave it as a stopped sandbox with half of its files. */
    if (wish->image && !wish->is_ephemeral && wish->phase == CSN_PHASE_KEPT) {
        csn_wish mark = *wish;
        mark.phase = CSN_PHASE_DELETING;
        int r = csn_record_write(dir_fd, &mark, true, err);
        if (r < 0)
            return r;
    }
    sweep_cgroups(wish->id, dir_fd);
    csn_claim_release(local, wish);
    return remove_files(local, wish, err);
}

static bool is_expired(const csn_wish *wish)
{
    return wish->ttl_ms > 0 && csn_wall_ms() - wish->created_ms > wish->ttl_ms;
}

/* 1: removed. An unreadable record is left alone: nothing is removed on a guess. */
static int sweep_locked(csn_local *local, csn_place *place, const char *id, int dir_fd,
                        csn_error *err)
{
    csn_auto(wish) csn_wish wish = { .id_index = -1 };
    const bool is_in_run = place == &local->places[CSN_PLACE_RUN];
    csn_error why = { 0 };
    int r;

    if (csn_box_has_keeper(dir_fd))
        return 0;
    (void) sweep_noted(id, dir_fd);
    r = csn_record_read(dir_fd, &wish, &why);
    if (r == CSN_E_NOT_FOUND)
        memcpy(wish.id, id, CSN_ID_SIZE);
    else if (r < 0 || (wish.phase == CSN_PHASE_KEPT && !wish.is_ephemeral && !is_expired(&wish) &&
                       csn_lease_of(dir_fd) != CSN_LEASE_GONE))
        return 0;
    wish.is_ephemeral = is_in_run; /* also of a box whose record was never written */
    r = csn_box_remove(local, &wish, dir_fd, err);
    return r < 0 ? r : 1;
}

static int sweep_box(csn_local *local, csn_place *place, const char *id, csn_error *err)
{
    csn_auto(fd) int fd = -1;
    csn_local_box *known = csn_local_box_known(local, id);

    if (known && (known->is_busy || csn_conn_is_open(&known->conn)))
        return 0;
    fd = openat(place->boxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || csn_box_lock(fd) < 0)
        return 0;
    int r = sweep_locked(local, place, id, fd, err);
    csn_box_unlock(fd);
    return r;
}

typedef int entry_fn(csn_local *local, csn_place *place, int dir_fd, const char *name,
                     csn_error *err);

/* Goes on after a failure; the first one is reported. */
static int each_entry(csn_local *local, csn_place *place, int part_fd, entry_fn *fn, uint32_t *n,
                      csn_error *err)
{
    int fd = openat(part_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    csn_error why = { 0 };
    int first = CSN_OK;

    if (!dir) {
        int r = -errno;
        csn_close(&fd);
        if (r == -ENOENT) /* run/, empty and taken away */
            return CSN_OK;
        return csn_fail_sys(err, r, "look through the state directory");
    }
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        int r = fn(local, place, fd, e->d_name, &why);
        if (r > 0)
            ++*n;
        if (r < 0 && first == CSN_OK) {
            first = r;
            if (err)
                *err = why;
        }
    }
    (void) closedir(dir); /* only read from */
    return first;
}

static int visit_box(csn_local *local, csn_place *place, int dir_fd, const char *name,
                     csn_error *err)
{
    (void) dir_fd;
    return csn_is_hex(name, 32) ? sweep_box(local, place, name, err) : 0;
}

/* A name or an id range whose box is gone. Its maker makes the box first, so what points into nothing is old. */
static int visit_link(csn_local *local, csn_place *place, int dir_fd, const char *name,
                      csn_error *err)
{
    char id[CSN_ID_SIZE];
    ssize_t n = readlinkat(dir_fd, name, id, sizeof(id));

    (void) place;
    (void) err;
    if (n != CSN_ID_SIZE - 1)
        return 0;
    id[n] = '\0';
    if (!csn_is_hex(id, 32))
        return 0;
    csn_auto(fd) int box = csn_claim_open(local, id);
    if (box != -ENOENT)
        return 0;
    return unlinkat(dir_fd, name, 0) == 0;
}

int csn_local_sweep(csn_local *local, bool is_thorough, uint32_t *ret_n, csn_error *err)
{
    uint32_t n = 0, n_layers = 0;
    int r = CSN_OK;

    for (csn_place *place = local->places; r >= 0 && place < local->places + CSN_PLACES; place++) {
        r = each_entry(local, place, place->boxes_fd, visit_box, &n, err);
        if (is_thorough && r >= 0)
            r = each_entry(local, place, place->ids_fd, visit_link, &n, err);
    }
    if (is_thorough && r >= 0)
        r = each_entry(local, NULL, local->names_fd, visit_link, &n, err);
    if (is_thorough)
        csn_run_sweep();
    if (is_thorough && r >= 0)
        r = csn_layer_sweep(local->state_fd, NULL, NULL, &n_layers, err);
    if (ret_n)
        *ret_n = n + n_layers;
    return r;
}
