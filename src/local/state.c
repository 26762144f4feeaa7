/* The state directory: where it is, that it is ours alone, and the directories in it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "core/libexec.h"
#include "local/local.h"

static const char *const parts[] = { "boxes", "names", "ids", "images", "layers", "volumes" };

/* The root of a user namespace may find that the machine's directories are somebody else's. */
static bool may_write(const char *place, const char *parent)
{
    int r = access(place, W_OK);

    if (r < 0 && errno == ENOENT)
        r = access(parent, W_OK);
    return r == 0 || errno != EACCES; /* anything else is told when it is made */
}

static int default_place(csn_buf *out)
{
    const char *state = secure_getenv("CAISSON_STATE"), *xdg = secure_getenv("XDG_STATE_HOME"),
               *home = secure_getenv("HOME");

    if (state && state[0])
        return csn_buf_puts(out, state);
    if (geteuid() == 0 && may_write("/var/lib/caisson", "/var/lib"))
        return csn_buf_puts(out, "/var/lib/caisson");
    if (xdg && xdg[0] == '/')
        return csn_buf_printf(out, "%s/caisson", xdg);
    if (home && home[0] == '/')
        return csn_buf_printf(out, "%s/.local/state/caisson", home);
    return -ENOENT;
}

/* Keepers get it as an absolute path. */
static int absolute_place(const char *wished, csn_buf *out)
{
    char cwd[4096];

    if (wished && wished[0] != '/') {
        if (!getcwd(cwd, sizeof(cwd)))
            return -errno;
        return csn_buf_printf(out, "%s/%s", cwd, wished);
    }
    if (wished)
        return csn_buf_puts(out, wished);
    int r = default_place(out);
    if (r == 0 && out->data[0] != '/' && getcwd(cwd, sizeof(cwd))) { /* CAISSON_STATE=state */
        csn_auto(buf) csn_buf rel = *out;
        *out = (csn_buf) CSN_BUF_INIT;
        r = csn_buf_printf(out, "%s/%s", cwd, rel.data);
    }
    return r;
}

static int make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int r = mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
        *slash = '/';
        if (r < 0)
            return r;
    }
    return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static int open_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* Whoever else could write here could have our keepers run as they like. */
static int check_owner(int fd, const char *path, csn_error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return csn_fail_sys(err, -errno, "look at the state directory '%s'", path);
    if (st.st_uid != geteuid())
        return csn_fail(err, CSN_E_DENIED, "the state directory '%s' belongs to uid %u, not to you",
                        path, (unsigned) st.st_uid);
    if ((st.st_mode & 077) != 0)
        return csn_fail(err, CSN_E_DENIED,
                        "the state directory '%s' is open to others (mode %03o): chmod 700 it",
                        path, (unsigned) (st.st_mode & 0777));
    return CSN_OK;
}

static int open_part(int state_fd, const char *name)
{
    int fd = openat(state_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

static int make_parts(int state_fd)
{
    for (size_t i = CSN_COUNT(parts); i-- > 0;) /* boxes last: it stands for all */
        if (mkdirat(state_fd, parts[i], 0700) < 0 && errno != EEXIST)
            return -errno;
    return 0;
}

static int open_place(csn_place *place, int state_fd, const char *boxes, const char *ids)
{
    place->boxes_fd = open_part(state_fd, boxes);
    if (place->boxes_fd < 0)
        return place->boxes_fd;
    place->ids_fd = open_part(state_fd, ids);
    return place->ids_fd < 0 ? place->ids_fd : 0;
}

static int open_parts(csn_local *local)
{
    const int state_fd = local->state_fd;
    int r = open_place(&local->places[CSN_PLACE_DISK], state_fd, "boxes", "ids");

    if (r == -ENOENT && (r = make_parts(state_fd)) == 0)
        r = open_place(&local->places[CSN_PLACE_DISK], state_fd, "boxes", "ids");
    if (r < 0)
        return r;
    local->names_fd = open_part(state_fd, "names");
    if (local->names_fd < 0)
        return local->names_fd;
    return csn_state_open_run(local);
}

int csn_state_open_run(csn_local *local)
{
    csn_place *place = &local->places[CSN_PLACE_RUN];
    int r = -ENOENT;

    for (int i = 0; r == -ENOENT && i < 8; i++) { /* the last of other engines may close between the two steps */
        csn_close(&place->boxes_fd);
        csn_close(&place->ids_fd);
        if (i > 0 && (r = csn_run_prepare(local->state_fd)) < 0)
            return r;
        r = open_place(place, local->state_fd, "run/boxes", "run/ids");
    }
    return r;
}

int csn_state_open(csn_local *local, const char *state_dir, csn_error *err)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    int r = absolute_place(state_dir, &path);

    if (r < 0)
        return csn_fail_sys(err, r, "find a place for the state directory (set CAISSON_STATE)");
    local->state_fd = open_dir(path.data);
    if (local->state_fd == -ENOENT) {
        r = make_parents(path.data);
        if (r < 0)
            return csn_fail_sys(
                err, r, "make the state directory '%s' (CAISSON_STATE names another)", path.data);
        local->state_fd = open_dir(path.data);
    }
    if (local->state_fd < 0)
        return csn_fail_sys(err, local->state_fd,
                            "open the state directory '%s' (CAISSON_STATE names another)",
                            path.data);
    if ((r = check_owner(local->state_fd, path.data, err)) < 0)
        return r;
    r = open_parts(local);
    if (r < 0)
        return csn_fail_sys(
            err, r, "prepare the state directory '%s' (CAISSON_STATE names another)", path.data);
    local->state_dir = csn_buf_take(&path, NULL);
    return local->state_dir ? CSN_OK : csn_fail(err, CSN_E_NO_MEMORY, "open the state directory");
}

/* A disk that is full or read-only is somebody's to find: which one? What was attempted comes first. */
int csn_state_blame(const csn_local *local, int r, csn_error *err)
{
    csn_error why = { 0 };

    if (r >= 0 || !err ||
        (err->sys_errno != EROFS && err->sys_errno != ENOSPC && err->sys_errno != EDQUOT))
        return r;
    why = *err;
    (void) csn_fail(err, r, "%s (in the state directory '%s'; CAISSON_STATE names another)",
                    why.message, local->state_dir);
    err->sys_errno = why.sys_errno;
    return r;
}

int csn_state_find_libexec(const char *wished, char **ret_dir, csn_error *err)
{
    return csn_libexec_find(wished, "caisson-keeper", ret_dir, err);
}
