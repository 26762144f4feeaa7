/* Directories, names and id ranges: each is claimed by making something that can be made only once. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "local/local.h"

enum { TRIES = 16, PREFIX_MIN = 4 };

/* 1: ours and locked; 0: a sweeper took it away; -errno. */
static int try_box(int boxes_fd, const char *id, int *ret_fd)
{
    csn_auto(fd) int fd = -1;
    int r;

    if ((r = csn_fault_as("mkdir", ENOSPC)) < 0)
        return r;
    if (mkdirat(boxes_fd, id, 0700) < 0)
        return errno == EEXIST ? 0 : -errno;
    fd = openat(boxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        r = errno == ENOENT ? 0 : -errno;
    else
        r = csn_box_lock(fd);
    if (r == -ENOENT || (r == 0 && fd < 0))
        return 0;
    if (r < 0) {
        (void) unlinkat(boxes_fd, id, AT_REMOVEDIR); /* else the sweep finds it empty */
        return r == -EWOULDBLOCK ? 0 : r;            /* a sweeper is at it */
    }
    *ret_fd = csn_take_fd(&fd);
    return 1;
}

int csn_claim_box(csn_local *local, csn_wish *wish, int *ret_dir_fd, csn_error *err)
{
    for (int i = 0; i < TRIES; i++) {
        int r = csn_id_hex(wish->id, 16);
        if (r == 0)
            r = try_box(csn_place_of(local, wish)->boxes_fd, wish->id, ret_dir_fd);
        if (r == -ENOENT && csn_is_in_memory(local, wish))
            r = csn_state_open_run(local); /* then another try */
        if (r < 0)
            return csn_fail_sys(err, r, "make a directory for the sandbox");
        if (r == 1)
            return CSN_OK;
    }
    return csn_fail(err, CSN_E_BUSY, "make a directory for the sandbox: it was taken away %d times",
                    TRIES);
}

/* The id a link names, or -errno. */
static int read_link(int dir_fd, const char *name, char ret_id[CSN_ID_SIZE])
{
    ssize_t n = readlinkat(dir_fd, name, ret_id, CSN_ID_SIZE);

    if (n < 0)
        return -errno;
    if (n != CSN_ID_SIZE - 1)
        return -EBADMSG;
    ret_id[n] = '\0';
    return csn_is_hex(ret_id, CSN_ID_SIZE - 1) ? 0 : -EBADMSG;
}

static bool box_exists(csn_local *local, const char *id)
{
    for (size_t i = 0; i < CSN_PLACES; i++)
        if (faccessat(local->places[i].boxes_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    return false;
}

int csn_claim_open(csn_local *local, const char *id)
{
    int fd = -1;

    for (size_t i = 0; i < CSN_PLACES && fd < 0; i++) {
        fd = openat(local->places[i].boxes_fd, id,
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT)
            break;
    }
    return fd < 0 ? -errno : fd;
}

/* A link into nothing is left when a deletion was cut short after its directory went. Only one may replace it at a
 * time, or the second would remove what the first has just made. */
static int replace_stale_name(csn_local *local, const char *name, const char *id)
{
    char other[CSN_ID_SIZE];
    int r;

    if (flock(local->names_fd, LOCK_EX) < 0)
        return -errno;
    r = read_link(local->names_fd, name, other);
    if (r == 0 && box_exists(local, other))
        r = -EEXIST;
    else if ((r == 0 || r == -EBADMSG) && unlinkat(local->names_fd, name, 0) < 0)
        r = -errno;
    if (r == 0 || r == -ENOENT || r == -EBADMSG)
        r = symlinkat(id, local->names_fd, name) < 0 ? -errno : 0;
    (void) flock(local->names_fd, LOCK_UN); /* closing would do it, too */
    return r;
}

int csn_claim_name(csn_local *local, const char *name, const char *id, csn_error *err)
{
    int r = csn_fault_as("symlink", ENOSPC);

    if (r == 0 && symlinkat(id, local->names_fd, name) < 0)
        r = errno == EEXIST ? replace_stale_name(local, name, id) : -errno;
    if (r == -EEXIST)
        return csn_fail(err, CSN_E_EXISTS, "the name '%s' is taken by another sandbox", name);
    return r < 0 ? csn_fail_sys(err, r, "claim the name '%s'", name) : CSN_OK;
}

int csn_claim_range(csn_local *local, csn_wish *wish, csn_error *err)
{
    const uint32_t n_here = CSN_RANGES / CSN_PLACES, first = csn_is_in_memory(local, wish) ? n_here : 0;
    char name[16];
    int r = csn_fault_as("symlink", ENOSPC);

    if (r == 0 && local->next_range == 0)
        r = csn_random(&local->next_range, sizeof(local->next_range));
    for (uint32_t i = 0; r == 0 && i < n_here; i++) {
        uint32_t n = first + local->next_range++ % n_here;
        (void) snprintf(name, sizeof(name), "%u", n); /* fits */
        if (symlinkat(wish->id, csn_place_of(local, wish)->ids_fd, name) == 0) {
            wish->id_index = n;
            return CSN_OK;
        }
        r = errno == EEXIST ? 0 : -errno;
    }
    if (r == 0)
        return csn_fail(err, CSN_E_LIMIT, "all %u ranges of host ids are in use", n_here);
    return csn_fail_sys(err, r, "claim a range of host ids");
}

static void release(int dir_fd, const char *name, const char *id)
{
    char owner[CSN_ID_SIZE];

    if (read_link(dir_fd, name, owner) == 0 && strcmp(owner, id) == 0)
        (void) unlinkat(dir_fd, name, 0); /* only its owner removes it, and that is us */
}

void csn_claim_release(csn_local *local, const csn_wish *wish)
{
    char number[24];

    if (wish->name && wish->name[0])
        release(local->names_fd, wish->name, wish->id);
    if (wish->id_index < 0)
        return;
    (void) snprintf(number, sizeof(number), "%lld", (long long) wish->id_index); /* fits */
    release(csn_place_of(local, wish)->ids_fd, number, wish->id);
}

static bool is_hex_text(const char *s)
{
    return s[strspn(s, "0123456789abcdef")] == '\0';
}

/* How many ids begin with key, or -errno; ret_id is the first. */
static int count_prefix(int boxes_fd, const char *key, unsigned *n_found, char ret_id[CSN_ID_SIZE])
{
    int fd = openat(boxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        int r = errno == ENOENT ? 0 : -errno; /* run/, empty and taken away */
        csn_close(&fd);
        return r;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        if (!csn_is_hex(e->d_name, 32) || !csn_starts_with(e->d_name, key))
            continue;
        if ((*n_found)++ == 0)
            memcpy(ret_id, e->d_name, CSN_ID_SIZE);
    }
    (void) closedir(dir); /* only read from */
    return 0;
}

static int find_prefix(csn_local *local, const char *key, char ret_id[CSN_ID_SIZE], csn_error *err)
{
    unsigned n_found = 0;

    for (size_t i = 0; i < CSN_PLACES; i++) {
        int r = count_prefix(local->places[i].boxes_fd, key, &n_found, ret_id);
        if (r < 0)
            return csn_fail_sys(err, r, "list the sandboxes");
    }
    if (n_found > 1)
        return csn_fail(err, CSN_E_INVALID, "'%s' is the beginning of %u ids: give more of it", key,
                        n_found);
    return n_found == 1 ? CSN_OK : csn_fail(err, CSN_E_NOT_FOUND, "no sandbox '%s'", key);
}

int csn_claim_find(csn_local *local, const char *key, char ret_id[CSN_ID_SIZE], csn_error *err)
{
    size_t len = strlen(key);

    if (csn_is_hex(key, 32) && box_exists(local, key)) {
        memcpy(ret_id, key, CSN_ID_SIZE);
        return CSN_OK;
    }
    if (csn_is_name(key) && read_link(local->names_fd, key, ret_id) == 0)
        return CSN_OK;
    if (len >= PREFIX_MIN && len < 32 && is_hex_text(key))
        return find_prefix(local, key, ret_id, err);
    return csn_fail(err, CSN_E_NOT_FOUND, "no sandbox '%.64s'", key);
}
