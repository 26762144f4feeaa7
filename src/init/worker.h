/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_INIT_WORKER_H
#define CSN_INIT_WORKER_H

/* What the file verbs share. They run in a worker: a short-lived process with the rights of the sandbox's user, so a
 * path that tricks them tricks its own sandbox only. Still they decide on descriptors, refuse magic links and hang on
 * nothing (R34, R35). */

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "wire/filereq.h"
#include "wire/wire.h"

enum {
    CSN_CHANNEL_FD = 3,
    CSN_PATH_BYTES = 32 * 1024, /* of a path that is told; more than one call can name */
    CSN_TEXT_BYTES = 4096,      /* of a line that is told */
    CSN_RESULTS_DEFAULT = 100000
};

/* Each verb fills done->value and is_cut as it pleases and returns 0 or -errno. */
typedef int csn_verb(const csn_filereq *req, csn_file_done *done);
csn_verb csn_verb_open, csn_verb_stat, csn_verb_list, csn_verb_mkdir, csn_verb_move,
    csn_verb_delete, csn_verb_chmod, csn_verb_find, csn_verb_search, csn_verb_replace,
    csn_verb_connect;

/* worker.c: what is told to the client. 0 or -errno; -EPIPE: nobody listens any more. */
int csn_tell_fd(int fd, int64_t size);
int csn_tell_entry(const char *path, const struct stat *st, const char *target);
/* The same with a symlink's target looked up: `name` in dirfd, or dirfd itself when it is "". In list.c. */
int csn_tell_stat(int dirfd, const char *name, const char *path, const struct stat *st);
int csn_tell_match(const char *path, int64_t line, const char *text, size_t len);
int csn_is_heard(void); /* 0: the client is gone, stop working */

/* resolve.c */
int csn_open_at(int dirfd, const char *path, int flags,
                unsigned mode); /* without magic links; fd or -errno */
/* The directory that holds the last component, and that component in `name` (256 bytes). "/" and what ends in "." or
 * ".." has none: -EINVAL. */
int csn_open_parent(int dirfd, const char *path, char *name, int *ret_fd);
/* The same, but a symlink in the last place is followed to where it leads. */
int csn_open_real_parent(const char *path, char *name, int *ret_fd);
int csn_make_dirs(const char *path, unsigned mode); /* -p; mode: of the last one */
int csn_make_parents(const char *path);
int csn_chmod_fd(int path_fd, unsigned mode); /* O_PATH is enough */
int csn_check_regular(const struct stat *st); /* 0, -EISDIR, or -ENXIO for what has no contents */
int csn_temp_file(int dirfd, char *name,
                  int *ret_fd); /* a new one, mode 0600; `name` is 32 bytes */

/* names.c: of the sandbox's /etc/passwd and /etc/group. */
const char *csn_user_name(uid_t uid); /* "": none */
const char *csn_group_name(gid_t gid);
int csn_user_id(const char *name, uid_t *ret); /* a name or a number; 0 or -EINVAL */
int csn_group_id(const char *name, gid_t *ret);

/* walk.c: everything below a directory, parents before children, symlinks not followed, in no order. */
typedef struct csn_walk csn_walk;
typedef struct csn_found {
    int dirfd;        /* of the directory it is in */
    const char *name; /* in it */
    const char *path; /* the walk's start and all components */
    size_t depth;     /* 1: right below the start */
    struct stat st;
} csn_found;
/* Called for each; 0: on, CSN_WALK_STAY: on, but not down into it, < 0: ends the walk with this. */
enum { CSN_WALK_STAY = 1 };
typedef int csn_walk_fn(const csn_found *found, void *user);
int csn_walk_tree(const char *path, csn_walk_fn *fn, void *user, int *ret_is_cut);

/* remove.c */
int csn_remove_tree(int dirfd, const char *name);

/* copy.c: a file, symlink or directory to a place on another file system, then the source is removed. `how` is
 * renameat2()'s. */
int csn_move_by_copy(int from_dir, const char *from, int to_dir, const char *to, unsigned how);

typedef struct csn_dirent { /* struct linux_dirent64 */
    uint64_t ino;
    int64_t off;
    uint16_t size;
    uint8_t type;
    char name[];
} csn_dirent;

int csn_is_dots(const char *name);

#endif
