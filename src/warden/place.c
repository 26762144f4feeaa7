/* SPDX-License-Identifier: Apache-2.0 */
/* The server's directory, one server at a time in it, and who the front is. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "base/time.h"
#include "kern/way.h"
#include "warden/warden.h"

enum { LOCK_WAIT_MS = 5000, LOCK_LOOK_MS = 10 };

/* Whose the front's files are already, when root left the choice to us. */
static const struct passwd *find_owner(const char *state)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    struct stat st;

    csn_buf_printf(&path, "%s/front", state);
    if (path.error < 0 || lstat(path.data, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid == 0)
        return NULL;
    return getpwuid(st.st_uid);
}

/* The root of a user namespace with one id is alone there. */
static bool can_change_user(void)
{
    csn_owner owner;

    if (geteuid() != 0)
        return false;
    return csn_way_find() == CSN_WAY_PRIVILEGED || csn_way_owner(&owner) || owner.is_other;
}

int csn_front_user_find(const csn_warden_options *o, csn_front_user *ret_user, csn_error *err)
{
    const char *const names[] = { "caisson", "nobody" };
    const char *wished = o->user;
    const struct passwd *pw = NULL;
    csn_owner owner;

    if (!can_change_user()) {
        pw = getpwuid(geteuid());
        if (wished && (!pw || !csn_streq(pw->pw_name, wished)))
            return csn_fail(err, CSN_E_DENIED,
                            "run the front as '%.32s': only root can choose its user", wished);
        *ret_user = (csn_front_user){ .uid = geteuid(), .gid = getegid() };
        return CSN_OK;
    }
    pw = wished ? getpwnam(wished) : find_owner(o->state);
    for (size_t i = 0; !wished && !pw && i < CSN_COUNT(names); i++)
        pw = getpwnam(names[i]);
    if (!pw)
        return csn_fail(err, CSN_E_NOT_FOUND, "there is no user '%.32s' to run the front as",
                        wished ? wished : "nobody");
    if (pw->pw_uid == 0)
        return csn_fail(err, CSN_E_INVALID, "the front must not run as root: name another --user");
    if (!wished && !csn_way_has_ids(pw->pw_uid, pw->pw_gid) && !csn_way_owner(&owner) &&
        owner.is_other) {
        *ret_user = (csn_front_user){ .uid = owner.uid, .gid = owner.gid, .is_other = true };
        (void) snprintf(ret_user->name, sizeof(ret_user->name), "uid %u",
                        (unsigned) owner.uid); /* fits */
        return CSN_OK;
    }
    *ret_user = (csn_front_user){ .uid = pw->pw_uid, .gid = pw->pw_gid, .is_other = true };
    (void) snprintf(ret_user->name, sizeof(ret_user->name), "%s", pw->pw_name);
    return CSN_OK;
}

static int make_dirs(const char *path)
{
    csn_auto(mem) char *copy = strdup(path);

    if (!copy)
        return -ENOMEM;
    for (char *p = strchr(copy + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (mkdir(copy, 0755) < 0 && errno != EEXIST)
            return -errno;
        *p = '/';
    }
    return 0; /* NOLINT(clang-analyzer-unix.Malloc): csn_auto frees it */
}

/* DIR is passed through by the front, but not read; what belongs to each lies below. */
static int open_dir(const char *path, int *ret_fd, csn_error *err)
{
    csn_auto(fd) int fd = -1;
    struct stat st;
    int r = make_dirs(path);

    if (r == 0 && mkdir(path, 0711) < 0 && errno != EEXIST)
        r = -errno;
    if (r < 0)
        return csn_fail_sys(err, r, "make '%.128s'", path);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return csn_fail_sys(err, -errno, "open '%.128s'", path);
    if (st.st_uid != geteuid())
        return csn_fail(err, CSN_E_DENIED, "'%.128s' belongs to another user", path);
    if (fchmod(fd, geteuid() == 0 ? 0711 : 0700) < 0)
        return csn_fail_sys(err, -errno, "change the mode of '%.128s'", path);
    *ret_fd = csn_take_fd(&fd);
    return CSN_OK;
}

/* The front's own files too when it ran as another user before: who owned the directory owned them. */
static int give_front(int dir_fd, const csn_front_user *user, int *ret_fd, csn_error *err)
{
    csn_auto(fd) int fd = -1;
    struct stat st;

    if (mkdirat(dir_fd, "front", 0700) < 0 && errno != EEXIST)
        return csn_fail_sys(err, -errno, "make the front's directory");
    fd = openat(dir_fd, "front", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0)
        return csn_fail_sys(err, -errno, "open the front's directory");
    if (st.st_uid != user->uid && st.st_uid != geteuid())
        return csn_fail(
            err, CSN_E_DENIED,
            "the front's directory belongs to uid %u: run it as that user (--user), or chown "
            "it with all in it",
            (unsigned) st.st_uid);
    if (st.st_uid != user->uid && fchown(fd, user->uid, user->gid) < 0)
        return csn_fail_sys(err, -errno, "give the front its directory");
    *ret_fd = csn_take_fd(&fd);
    return CSN_OK;
}

/* A lock of the warden and one that only the front holds: both are free when both processes of an earlier server are gone;
 * after a kill that takes a moment. Two, since whoever shares a lock can let it go. */
static int take_lock(int dir_fd, const char *name, int *ret_fd, csn_error *err)
{
    csn_auto(fd) int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int64_t deadline = csn_deadline_in_ms(LOCK_WAIT_MS);

    if (fd < 0)
        return csn_fail_sys(err, -errno, "open the lock");
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return csn_fail_sys(err, -errno, "take the lock");
        if (csn_deadline_passed(deadline))
            return csn_fail(err, CSN_E_BUSY, "another server runs here");
        (void) poll(NULL, 0, LOCK_LOOK_MS); /* flock has no deadline of its own */
    }
    *ret_fd = csn_take_fd(&fd);
    return CSN_OK;
}

int csn_place_open(const csn_warden_options *o, const csn_front_user *user, int *ret_lock_fd,
                   int *ret_front_lock_fd, int *ret_front_fd, csn_error *err)
{
    csn_auto(fd) int dir_fd = -1;
    int r = open_dir(o->state, &dir_fd, err);

    if (r < 0)
        return r;
    if (ret_lock_fd)
        r = take_lock(dir_fd, "lock", ret_lock_fd, err);
    if (r == CSN_OK && ret_front_lock_fd)
        r = take_lock(dir_fd, "front.lock", ret_front_lock_fd, err);
    if (r == CSN_OK)
        r = give_front(dir_fd, user, ret_front_fd, err);
    return r < 0 ? csn_fail_in(err, r, "use '%.64s'", o->state) : CSN_OK;
}

/* Sandboxes of a server are called by their uuid. */
static unsigned count_sandboxes(const char *state)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    unsigned n = 0;
    DIR *dir;

    csn_buf_printf(&path, "%s/engine/names", state);
    dir = path.error < 0 ? NULL : opendir(path.data);
    for (struct dirent *e; dir && (e = readdir(dir));)
        n += csn_is_uuid(e->d_name);
    if (dir)
        (void) closedir(dir); /* only read from */
    return n;
}

/* What has no row is deleted when a server starts. So a database that is gone or empty is not begun anew as long as there is
 * something to lose. */
int csn_place_check(const csn_warden_options *o, int front_fd, csn_error *err)
{
    struct stat st;
    unsigned n;

    if (fstatat(front_fd, "caisson.db", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0)
        return CSN_OK;
    n = count_sandboxes(o->state);
    if (n == 0)
        return CSN_OK;
    return csn_fail(
        err, CSN_E_STATE,
        "'%.64s/front/caisson.db' is gone or empty, but %u sandbox%s in '%.64s/engine': put a copy of "
        "it in its place, or remove them (caisson --state %.64s/engine rm --all)",
        o->state, n, n == 1 ? " is" : "es are", o->state, o->state);
}
