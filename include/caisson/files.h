/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAISSON_FILES_H
#define CAISSON_FILES_H

#include <caisson/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Paths are the sandbox's own, resolved inside it with its user's rights; relative ones start at its home directory.
 * Bytes are exact, names are any bytes but NUL and '/'. Errors of all verbs: CSN_E_NOT_FOUND, CSN_E_EXISTS, CSN_E_DENIED,
 * CSN_E_NOT_REGULAR (fifo, socket, device, directory where content is asked), CSN_E_TOO_LARGE, CSN_E_LIMIT (disk full),
 * CSN_E_STATE (not started), CSN_E_LOST. */

enum {
    CSN_OPEN_READ = 1,
    CSN_OPEN_WRITE = 2,  /* an existing regular file */
    CSN_OPEN_CREATE = 4, /* with WRITE: made when absent, parents too */
    CSN_OPEN_TRUNCATE = 8,
    CSN_OPEN_APPEND = 16,
    CSN_OPEN_EXCLUSIVE = 32
};

/* Opens a regular file inside and hands out a descriptor of it, yours to close. Never blocks on a FIFO. */
CSN_API int csn_file_open(csn_sandbox *sandbox, const char *path, int flags, uint32_t mode,
                          int *ret_fd, csn_error *err);
typedef void (*csn_fd_done_fn)(int fd, int result, const csn_error *err,
                               void *user); /* fd is yours */
CSN_API csn_op *csn_file_open_async(csn_sandbox *sandbox, const char *path, int flags,
                                    uint32_t mode, csn_fd_done_fn done, void *user, csn_error *err);

/* Whole contents. get: *ret_data is malloc()ed and NUL-terminated; max_bytes 0: 64 MiB. put: written beside and renamed. */
CSN_API int csn_file_get(csn_sandbox *sandbox, const char *path, size_t max_bytes, char **ret_data,
                         size_t *ret_len, csn_error *err);
CSN_API int csn_file_put(csn_sandbox *sandbox, const char *path, const void *data, size_t len,
                         uint32_t mode, csn_error *err);
/* Streams between a host descriptor and a file inside, any size. */
CSN_API int csn_file_get_fd(csn_sandbox *sandbox, const char *path, int to_fd, int64_t *ret_n,
                            csn_error *err);
CSN_API int csn_file_put_fd(csn_sandbox *sandbox, const char *path, int from_fd, uint32_t mode,
                            int64_t *ret_n, csn_error *err);

/* Whole contents without blocking: in pieces, a turn of the loop each, so that others get theirs. */
typedef struct csn_file_source {
    size_t size;
    const void *data; /* borrowed until `done` */
    size_t len;
    int is_fd; /* 1: everything that `fd` still gives instead of `data`; it is the library's to read until `done` */
    int fd;
    int in_place; /* 1: written where it is, not beside and renamed: for a file that nobody reads yet */
} csn_file_source;
typedef struct csn_file_sink {
    size_t size;
    int is_fd; /* 1: into `fd`; 0: into memory */
    int fd;
    size_t max_bytes; /* larger: CSN_E_TOO_LARGE. 0: 64 MiB in memory, no bound for a descriptor */
} csn_file_sink;
/* data: malloc()ed, NUL-terminated and yours; NULL for put, for a descriptor and on failure. n: how many bytes; on
 * CSN_E_TOO_LARGE how many there are, -1: unknown. */
typedef void (*csn_file_content_fn)(char *data, int64_t n, int result, const csn_error *err,
                                    void *user);
CSN_API csn_op *csn_file_put_async(csn_sandbox *sandbox, const char *path,
                                   const csn_file_source *from, uint32_t mode,
                                   csn_file_content_fn done, void *user, csn_error *err);
CSN_API csn_op *csn_file_get_async(csn_sandbox *sandbox, const char *path, const csn_file_sink *to,
                                   csn_file_content_fn done, void *user, csn_error *err);

typedef enum csn_file_kind {
    CSN_FILE_REGULAR = 1,
    CSN_FILE_DIRECTORY,
    CSN_FILE_SYMLINK,
    CSN_FILE_FIFO,
    CSN_FILE_SOCKET,
    CSN_FILE_DEVICE
} csn_file_kind;

typedef struct csn_file_info {
    /* as found: list gives the bare name (below its own level: a path from there), find the full path;
     * borrowed, valid during the callback */
    const char *path;
    csn_file_kind kind;
    uint32_t mode;             /* permission bits */
    uint32_t uid, gid;         /* inside ids */
    const char *owner, *group; /* names inside, or the number as text */
    int64_t size_bytes;
    int64_t mtime_ns;
    const char *target; /* of a symlink, else NULL */
} csn_file_info;
typedef void (*csn_file_fn)(const csn_file_info *info, void *user);

CSN_API int csn_file_stat(csn_sandbox *sandbox, const char *path, int follow, csn_file_fn fn,
                          void *user, csn_error *err);
/* One call per entry, sorted by name; more than max_entries (0: 100,000) is CSN_E_TOO_LARGE after that many. */
CSN_API int csn_file_list(csn_sandbox *sandbox, const char *path, uint32_t max_entries,
                          csn_file_fn fn, void *user, csn_error *err);
CSN_API int csn_file_mkdir(csn_sandbox *sandbox, const char *path, uint32_t mode,
                           csn_error *err); /* with parents */
CSN_API int csn_file_move(csn_sandbox *sandbox, const char *from, const char *to, csn_error *err);
CSN_API int csn_file_delete(csn_sandbox *sandbox, const char *path, int recursive, csn_error *err);
/* mode -1: unchanged; owner, group NULL: unchanged (need the profile "root inside"). */
CSN_API int csn_file_chmod(csn_sandbox *sandbox, const char *path, int mode, const char *owner,
                           const char *group, csn_error *err);

/* Names below `path` that match a shell pattern ('*', '?', '[…]' on the last component). */
CSN_API int csn_file_find(csn_sandbox *sandbox, const char *path, const char *pattern,
                          uint32_t max_results, csn_file_fn fn, void *user, csn_error *err);

typedef struct csn_file_match {
    const char *path;
    int64_t line;     /* from 1 */
    const char *text; /* the line, cut to 4096 bytes, without its end */
    size_t text_len;
} csn_file_match;
typedef void (*csn_match_fn)(const csn_file_match *match, void *user);
/* Lines below `path` (a file or a directory) that contain `needle`, literally; binary files are passed over, and a file
 * counts as far as its first zero byte. */
CSN_API int csn_file_search(csn_sandbox *sandbox, const char *path, const char *needle,
                            uint32_t max_results, csn_match_fn fn, void *user, csn_error *err);
/* Replaces every `from` by `to` in one regular file of at most 1 GiB, atomically; *ret_n replacements. */
CSN_API int csn_file_replace(csn_sandbox *sandbox, const char *path, const char *from,
                             const char *to, int64_t *ret_n, csn_error *err);

/* The verbs above without blocking. Entries and matches arrive through the callback before `done`. */
typedef enum csn_file_verb {
    CSN_FILE_STAT = 1,
    CSN_FILE_LIST,
    CSN_FILE_MKDIR,
    CSN_FILE_MOVE,
    CSN_FILE_DELETE,
    CSN_FILE_CHMOD,
    CSN_FILE_FIND,
    CSN_FILE_SEARCH,
    CSN_FILE_REPLACE
} csn_file_verb;

enum {
    CSN_STAT_FOLLOW = 1,
    CSN_LIST_FOLLOW = 1, /* a symlink is told as what it leads to, or passed over; paths go down through none */
    CSN_MOVE_NO_REPLACE = 1, /* CSN_E_EXISTS when there is something at the new place */
    CSN_MOVE_FOLLOW = 2,     /* a symlink at the new place is followed rather than replaced */
    CSN_DELETE_RECURSIVE = 1,
    CSN_DELETE_NO_DIRECTORY = 2 /* CSN_E_NOT_REGULAR for a directory, be it empty */
};

typedef struct csn_file_request {
    size_t size;
    csn_file_verb verb;
    const char *path;
    /* MOVE: to; FIND: pattern; SEARCH: needle; REPLACE: from; CHMOD: owner or NULL */
    const char *arg;
    const char *arg2; /* REPLACE: to; CHMOD: group or NULL */
    int mode;         /* MKDIR, CHMOD; LIST: how many levels, 0 and 1 are its own entries alone */
    int flag;         /* CSN_STAT_…, CSN_LIST_…, CSN_MOVE_…, CSN_DELETE_… */
    uint32_t max_results;
    csn_file_fn on_file;
    csn_match_fn on_match;
    void *user_data; /* of both callbacks */
} csn_file_request;
/* n: replacements. A cancelled one ends inside in the state it is in. */
CSN_API csn_op *csn_file_request_async(csn_sandbox *sandbox, const csn_file_request *request,
                                       csn_count_done_fn done, void *user, csn_error *err);

/* Connects, from inside, to a TCP port that something in the sandbox listens on at 127.0.0.1 or ::1, and hands out the
 * connected socket, yours to close; also of a sandbox without a network. The descriptor is close-on-exec and does not block.
 * Who is at the other end is anybody's guess: what comes from there is said by the sandbox. CSN_E_NOT_FOUND: nobody
 * listens; CSN_E_TIMEOUT: nobody accepted within two seconds. */
CSN_API int csn_port_connect(csn_sandbox *sandbox, uint32_t port, int *ret_fd, csn_error *err);
CSN_API csn_op *csn_port_connect_async(csn_sandbox *sandbox, uint32_t port, csn_fd_done_fn done,
                                       void *user, csn_error *err);

#ifdef __cplusplus
}
#endif
#endif
