/* Whole trees on disk: remove, count. Single names below an open directory, no symlink is ever followed. */
#ifndef CSN_IMAGE_TREE_H
#define CSN_IMAGE_TREE_H

#include <stdint.h>
#include <sys/types.h>

/* Opens the directory `name` at `dirfd`, made with this mode if it isn't there. The descriptor or -errno. */
int csn_tree_open_dir(int dirfd, const char *name, mode_t mode);

/* renameat() that says so: 0 or -errno, -EEXIST where a directory with entries is in the way. */
int csn_tree_rename(int from_dirfd, const char *from, int to_dirfd, const char *to);

/* Removes `name` and all below it, however deep. 0 (also if it isn't there) or the first -errno; goes on after one. */
int csn_tree_remove(int dirfd, const char *name);

/* Gives `name`, a directory that nobody else changes meanwhile, and all below it to this user and group. */
int csn_tree_give(int dirfd, const char *name, uid_t uid, gid_t gid);

typedef struct csn_tree_count {
    int64_t bytes; /* as allocated on disk; a file with several names counts for each */
    int64_t n_files;
} csn_tree_count;

/* Adds up what lies below `name`, the directory itself included. What can't be read is left out. */
int csn_tree_measure(int dirfd, const char *name, csn_tree_count *ret);

#endif
