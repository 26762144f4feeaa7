/* Puts entries below one directory, whatever their names are. No path is ever given to the kernel: parents are opened part
 * by part without following links, so an entry lands below the root or not at all. */
#ifndef CSN_UNPACK_WRITER_H
#define CSN_UNPACK_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <time.h>

#include "budget.h"
#include "entry_path.h"
#include "kern/way.h"

typedef struct csn_meta {
    mode_t mode; /* permission bits; setuid never, setgid only on directories */
    int64_t uid, gid;
    struct timespec mtime;
} csn_meta;

/* Whose the files of a layer are. */
typedef struct csn_layer_ids {
    bool is_kept;    /* with privilege: ids up to 65535 as they are, others become nobody's */
    csn_owner owner; /* else: all are its */
} csn_layer_ids;

/* To be asked before the walls are up. */
int csn_layer_ids_find(csn_layer_ids *ret_ids, csn_error *err);

struct csn_late_dir;

typedef struct csn_writer {
    int root_fd;        /* borrowed */
    csn_budget *budget; /* borrowed */
    bool has_whiteouts; /* names with ".wh." mean what image layers mean by them */
    csn_layer_ids ids;
    char parent[CSN_ENTRY_PATH_MAX]; /* of the entry before: often the same */
    int parent_fd;
    /* directories get mode and time last, when nothing is put into them any more */
    struct csn_late_dir *late;
    size_t n_late, cap_late;
} csn_writer;

void csn_writer_init(csn_writer *w, int root_fd, csn_budget *budget, csn_layer_ids ids,
                     bool has_whiteouts);
void csn_writer_done(csn_writer *w);

/* All take the entry's name as it came. CSN_OK, or CSN_E_INVALID (a name or place that isn't allowed), CSN_E_LIMIT,
 * CSN_E_SYSTEM. An entry that is there already is replaced, as a later one in an archive is meant to. */
int csn_writer_dir(csn_writer *w, const char *name, const csn_meta *meta, csn_error *err);
int csn_writer_symlink(csn_writer *w, const char *name, const char *target, const csn_meta *meta,
                       csn_error *err);
int csn_writer_hardlink(csn_writer *w, const char *name, const char *target, csn_error *err);

/* Opens a new file of `size` bytes (charged here), to be written and then closed by csn_writer_end_file(), which takes it
 * in any case. For a whiteout *ret_fd is -1: nothing is to be written. */
int csn_writer_begin_file(csn_writer *w, const char *name, int64_t size, int *ret_fd,
                          csn_error *err);
int csn_writer_end_file(csn_writer *w, int fd, const char *name, int64_t size, const csn_meta *meta,
                        csn_error *err);

/* An extended attribute of a file or directory that was just made. Only user.* and not overlay's own; others are left
 * out. A file system without them is no mistake. */
int csn_writer_xattr(int fd, const char *name, const void *value, size_t len);

/* Opens a directory of the tree, "" is the root itself; for its attributes. The descriptor or -errno. */
int csn_writer_open_dir(csn_writer *w, const char *name);

/* Modes and times of directories. */
int csn_writer_finish(csn_writer *w, csn_error *err);

#endif
