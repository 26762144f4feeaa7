/* SPDX-License-Identifier: Apache-2.0 */
/* A file worker: one request, executed with the user's rights, answered on the channel, then it is gone. */
#include "init/worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/child.h"
#include "init/init.h"
#include "init/sys.h"

static char rest_buf[CSN_FRAME_MAX - sizeof(csn_frame) - sizeof(csn_file_entry)];

static int tell(uint32_t type, const void *fixed, size_t fixed_len, const csn_pack *rest)
{
    csn_out out = { .type = type, .fixed = fixed, .fixed_len = fixed_len };

    if (rest) {
        if (rest->error < 0)
            return rest->error;
        out.rest = rest->data;
        out.rest_len = rest->len;
    }
    return csn_frame_send(CSN_CHANNEL_FD, &out);
}

int csn_tell_fd(int fd, int64_t size)
{
    csn_file_done done = { .value = size };

    return csn_frame_send(CSN_CHANNEL_FD, &(csn_out){ .type = CSN_FRAME_FILE_FD,
                                                      .fixed = &done,
                                                      .fixed_len = sizeof(done),
                                                      .fds = &fd,
                                                      .n_fds = 1 });
}

static uint32_t kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return CSN_FILE_REGULAR;
    case S_IFDIR:
        return CSN_FILE_DIRECTORY;
    case S_IFLNK:
        return CSN_FILE_SYMLINK;
    case S_IFIFO:
        return CSN_FILE_FIFO;
    case S_IFSOCK:
        return CSN_FILE_SOCKET;
    default:
        return CSN_FILE_DEVICE;
    }
}

int csn_tell_entry(const char *path, const struct stat *st, const char *target)
{
    csn_pack p = { .data = rest_buf, .cap = sizeof(rest_buf) };
    csn_file_entry entry = {
        .kind = kind_of(st->st_mode),
        .mode = st->st_mode & 07777,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .size_bytes = st->st_size,
        .mtime_ns = (int64_t) st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
    };

    csn_pack_str(&p, path);
    csn_pack_str(&p, target);
    csn_pack_str(&p, csn_user_name(st->st_uid));
    csn_pack_str(&p, csn_group_name(st->st_gid));
    return tell(CSN_FRAME_FILE_ENTRY, &entry, sizeof(entry), &p);
}

int csn_tell_match(const char *path, int64_t line, const char *text, size_t len)
{
    csn_pack p = { .data = rest_buf, .cap = sizeof(rest_buf) };
    csn_file_hit hit = { .line = line };

    csn_pack_str(&p, path);
    csn_pack_bytes(&p, text, len);
    return tell(CSN_FRAME_FILE_MATCH, &hit, sizeof(hit), &p);
}

int csn_is_heard(void)
{
    struct pollfd channel = { .fd = CSN_CHANNEL_FD };

    return poll(&channel, 1, 0) == 0;
}

static csn_verb *const verbs[] = {
    [CSN_FILE_STAT] = csn_verb_stat,       [CSN_FILE_LIST] = csn_verb_list,
    [CSN_FILE_MKDIR] = csn_verb_mkdir,     [CSN_FILE_MOVE] = csn_verb_move,
    [CSN_FILE_DELETE] = csn_verb_delete,   [CSN_FILE_CHMOD] = csn_verb_chmod,
    [CSN_FILE_FIND] = csn_verb_find,       [CSN_FILE_SEARCH] = csn_verb_search,
    [CSN_FILE_REPLACE] = csn_verb_replace, [CSN_FILEREQ_OPEN] = csn_verb_open,
    [CSN_FILEREQ_CONNECT] = csn_verb_connect,
};

/* Only the channel stays: this process holds nothing else worth having. */
static int settle(const csn_init_spawn *request, int channel)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };

    if (dup2(channel, CSN_CHANNEL_FD) < 0)
        return -errno;
    (void) csn_sys_close_range(CSN_CHANNEL_FD + 1); /* what stays open closes when we end */
    (void) sigaction(SIGXFSZ, &ignore, NULL);       /* a file too large is an error, not our end */
    umask(0);                                       /* modes are what was asked for */
    if (request->uid != geteuid() || request->gid != getegid())
        return csn_sys_become(request->uid, request->gid);
    return 0;
}

static int is_relative(const csn_filereq *req)
{
    if (req->verb == CSN_FILEREQ_CONNECT)
        return 0; /* a port is no path */
    return req->path[0] != '/' || (req->verb == CSN_FILE_MOVE && req->arg[0] != '/');
}

_Noreturn void csn_worker_run(const csn_init_spawn *request, csn_msg *msg)
{
    csn_unpack rest = csn_msg_rest(msg, sizeof(*request));
    csn_file_done done = { 0 };
    csn_filereq req;
    int r = settle(request, msg->fds[0]);

    if (r == 0)
        r = csn_filereq_unpack(&rest, &req);
    if (r == 0 && chdir(csn_home_of(request->uid)) < 0 && is_relative(&req))
        r = -errno;
    if (r == 0)
        r = verbs[req.verb](&req, &done);
    done.sys_errno = -r;
    (void) tell(CSN_FRAME_FILE_DONE, &done, sizeof(done), NULL); /* the client may be gone */
    _exit(0);
}
