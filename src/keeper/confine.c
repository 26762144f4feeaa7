/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper's own walls. It keeps: its sockets (serving), pidfds and waitid (ends), its box's directory (logs, removal),
 * its cgroups (limits, kill), the names and id ranges it gives back. It gives up: capabilities, every other file, exec,
 * network. What it still can do to the sandbox it can because it made its user namespace. */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "kern/affinity.h"
#include "kern/caps.h"
#include "kern/landlock.h"
#include "kern/seccomp.h"
#include "setup.h"

#ifdef __SANITIZE_ADDRESS__
/* The leak checker traces its own process, which these walls are there to prevent. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

static int allow_below(csn_landlock *rs, int dirfd, const char *name, unsigned rights)
{
    csn_auto(fd) int fd = openat(dirfd, name, O_PATH | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    return csn_landlock_allow(rs, fd, rights);
}

static int fence(csn_keeper *k)
{
    csn_landlock rs = CSN_LANDLOCK_INIT;
    int r = csn_landlock_begin(&rs, 0);

    if (r == 0)
        r = csn_landlock_allow(&rs, k->box_fd, CSN_LANDLOCK_READ | CSN_LANDLOCK_WRITE);
    if (r == 0)
        r = allow_below(&rs, k->place_fd, "boxes", CSN_LANDLOCK_RMDIR);
    if (r == 0)
        r = allow_below(&rs, k->state_fd, "names", CSN_LANDLOCK_WRITE);
    if (r == 0)
        r = allow_below(&rs, k->place_fd, "ids", CSN_LANDLOCK_WRITE);
    for (uint32_t i = 0; r == 0 && i < k->cgroup.n; i++) {
        r = csn_landlock_allow(&rs, k->cgroup.in[i].dir_fd, CSN_LANDLOCK_READ | CSN_LANDLOCK_WFILE);
        if (r == 0)
            r = csn_landlock_allow(&rs, k->cgroup.in[i].parent_fd, CSN_LANDLOCK_RMDIR);
        if (r == 0 && k->cgroup.in[i].own_fd >= 0) /* somebody's: the empty `caisson` goes, too */
            r = csn_landlock_allow(&rs, k->cgroup.in[i].own_fd, CSN_LANDLOCK_RMDIR);
    }
    if (r == 0 && k->proc_fd >= 0)
        r = csn_landlock_allow(&rs, k->proc_fd, CSN_LANDLOCK_READ);
    if (r == 0)
        r = allow_below(&rs, AT_FDCWD, CSN_WATCH_MACHINE, CSN_LANDLOCK_READ);
    if (r == 0)
        r = csn_landlock_restrict(&rs);
    csn_landlock_done(&rs);
    return r;
}

static int drop_caps(csn_keeper *k)
{
    return k->is_privileged ? csn_caps_drop_all() : csn_caps_clear();
}

static int no_new_privs(csn_keeper *k)
{
    (void) k;
    return csn_no_new_privs();
}

static int hide(csn_keeper *k)
{
    (void) k;
    return csn_dumpable_set(false);
}

static int filter(csn_keeper *k)
{
    (void) k;
    return csn_seccomp_install(CSN_SECCOMP_KEEPER, 0);
}

static const struct {
    const char *name;
    int (*run)(csn_keeper *k);
} walls[] = {
    { "drop capabilities", drop_caps },
    { "set no_new_privs", no_new_privs },
    { "become undumpable", hide },
    { "apply landlock", fence },
    { "install the system call filter", filter },
};

bool csn_needs_proc(const csn_keeper *k)
{
    const uint32_t counted = CSN_LIMIT_MEMORY | CSN_LIMIT_PIDS;

    return (k->limits_kernel & counted) != counted;
}

int csn_confine(csn_keeper *k, csn_error *err)
{
    if (k->is_confined || (csn_needs_proc(k) && k->proc_fd < 0))
        return CSN_OK;
    k->is_confined = true;
    k->n_processors = csn_affinity_count();
    if (csn_walls_off(k) & CSN_WALL_KEEPER) {
        k->walls_missing |= CSN_WALL_KEEPER;
        return CSN_OK;
    }
    for (size_t i = 0; i < CSN_COUNT(walls); i++) {
        int r = walls[i].run(k);
        if (r < 0 && !(k->plan.optional_walls & CSN_WALL_KEEPER))
            return csn_fail_sys(err, r, "confine the keeper: %s", walls[i].name);
        if (r < 0)
            k->walls_missing |= CSN_WALL_KEEPER;
    }
    return CSN_OK;
}
