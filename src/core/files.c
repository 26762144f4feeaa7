/* File verbs: arguments checked here, done inside by the backend, answers bounded. */
#include <caisson/files.h>

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "core/files.h"

enum { ENTRIES_DEFAULT = 100000, RESULTS_DEFAULT = 100000 };

int csn_files_check_path(const char *path, csn_error *err)
{
    if (!path || !path[0])
        return csn_fail(err, CSN_E_INVALID, "no path was given");
    if (strlen(path) >= 4096)
        return csn_fail(err, CSN_E_INVALID, "the path has more than 4095 bytes: '%.100s…'", path);
    return CSN_OK;
}

/* --- descriptors -------------------------------------------------------------------------------------------------- */

static void deliver_fd(csn_op *op, const csn_error *err)
{
    op->done.fd(op->result < 0 ? -1 : op->value.file.fd, op->result, err, op->user);
}

static bool undo_fd(csn_op *op)
{
    csn_close(&op->value.file.fd);
    return false;
}

csn_op *csn_files_open(csn_sandbox *sandbox, const csn_file_call *call, csn_fd_done_fn done,
                       void *user, csn_error *err)
{
    static const csn_op_kind kind = { .deliver = deliver_fd, .undo = undo_fd };
    csn_op *op;

    if (csn_sandbox_need(sandbox, file, "open a file or a connection", err) < 0 ||
        csn_files_check_path(call->path, err) < 0 ||
        !(op = csn_op_new(sandbox->engine, sizeof(*op), &kind, user, err)))
        return NULL;
    op->done.fd = done;
    return csn_op_begun(op, sandbox->box->ops->file(sandbox->box, call, op, err));
}

int csn_files_open_wait(csn_op *op, int *ret_fd, csn_error *err)
{
    csn_op_value value;
    int r = csn_op_wait(op, &value, err);

    if (r >= 0)
        *ret_fd = value.file.fd;
    return r;
}

csn_op *csn_file_open_async(csn_sandbox *sandbox, const char *path, int flags, uint32_t mode,
                            csn_fd_done_fn done, void *user, csn_error *err)
{
    csn_file_call call = {
        .verb = CSN_FILE_OPEN, .flags = (uint32_t) flags, .mode = (int32_t) mode, .path = path
    };

    if (!(flags & (CSN_OPEN_READ | CSN_OPEN_WRITE)) || (flags & ~63)) {
        (void) csn_fail(err, CSN_E_INVALID, "open a file: neither for reading nor for writing");
        return NULL;
    }
    return csn_files_open(sandbox, &call, done, user, err);
}

int csn_file_open(csn_sandbox *sandbox, const char *path, int flags, uint32_t mode, int *ret_fd,
                  csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_files_open_wait(csn_file_open_async(sandbox, path, flags, mode, NULL, NULL, err),
                               ret_fd, err);
}

/* --- lists, sorted ------------------------------------------------------------------------------------------------ */

/* Entries are kept until all have come: callers get them by name, whatever order the guest's disk has. */
typedef struct entry {
    csn_file_info info;
    char text[]; /* path, owner, group, target */
} entry;

typedef struct entry_list {
    entry **entries;
    size_t n, cap;
    bool is_short; /* of memory */
} entry_list;

static const char *put(char **at, const char *text)
{
    size_t len = strlen(text) + 1;
    char *put_at = *at;

    memcpy(put_at, text, len);
    *at += len;
    return put_at;
}

static entry *copy_entry(const csn_file_info *info)
{
    const char *target = info->target ? info->target : "";
    entry *e = csn_malloc(sizeof(*e) + strlen(info->path) + strlen(info->owner) +
                          strlen(info->group) + strlen(target) + 4);
    char *at;

    if (!e)
        return NULL;
    at = e->text;
    e->info = *info;
    e->info.path = put(&at, info->path);
    e->info.owner = put(&at, info->owner);
    e->info.group = put(&at, info->group);
    e->info.target = put(&at, target);
    if (!info->target)
        e->info.target = NULL;
    return e;
}

static void keep_entry(const csn_file_info *info, void *user)
{
    entry_list *list = user;

    if (list->n == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 64;
        entry **grown = csn_realloc_array(list->entries, cap, sizeof(void *));
        if (!grown) {
            list->is_short = true;
            return;
        }
        list->entries = grown;
        list->cap = cap;
    }
    list->entries[list->n] = copy_entry(info);
    if (list->entries[list->n])
        list->n++;
    else
        list->is_short = true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(entry *const *) a)->info.path, (*(entry *const *) b)->info.path);
}

static void show_entries(entry_list *list, csn_file_fn fn, void *user)
{
    if (list->n > 1)
        qsort(list->entries, list->n, sizeof(void *), by_name);
    for (size_t i = 0; fn && i < list->n; i++)
        fn(&list->entries[i]->info, user);
}

static void free_entries(entry_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->entries[i]);
    free(list->entries);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

typedef struct request_op {
    csn_op base;
    csn_file_request req; /* its strings were copied by the backend */
    entry_list list;
} request_op;

/* Entries are shown by name, once all have come. */
static void complete_request(csn_op *op)
{
    request_op *q = csn_container_of(op, request_op, base);

    if (op->result >= 0 && q->list.is_short)
        op->result = csn_fail(&op->err, CSN_E_NO_MEMORY, "list a directory");
    else if (op->result >= 0 && op->value.file.is_cut)
        op->result = csn_fail(&op->err, CSN_E_TOO_LARGE, "there are more than %u results",
                              q->req.max_results);
    if (op->result >= 0 || op->result == CSN_E_TOO_LARGE)
        show_entries(&q->list, q->req.on_file, q->req.user_data);
}

static void deliver_request(csn_op *op, const csn_error *err)
{
    op->done.count(op->value.file.n, op->result, err, op->user);
}

static void free_request(csn_op *op)
{
    free_entries(&csn_container_of(op, request_op, base)->list);
}

static const struct {
    const char *what;
    bool needs_arg;
} verbs[] = {
    [CSN_FILE_STAT] = { .what = "look at a file" },
    [CSN_FILE_LIST] = { .what = "list a directory" },
    [CSN_FILE_MKDIR] = { .what = "make a directory" },
    [CSN_FILE_MOVE] = { .what = "move a file", .needs_arg = true },
    [CSN_FILE_DELETE] = { .what = "delete a file" },
    [CSN_FILE_CHMOD] = { .what = "change a file's mode" },
    [CSN_FILE_FIND] = { .what = "find files", .needs_arg = true },
    [CSN_FILE_SEARCH] = { .what = "search in files", .needs_arg = true },
    [CSN_FILE_REPLACE] = { .what = "replace text in files", .needs_arg = true },
};

static int check_request(csn_file_request *req, csn_error *err)
{
    if (req->verb < CSN_FILE_STAT || req->verb > CSN_FILE_REPLACE)
        return csn_fail(err, CSN_E_INVALID, "there is no file verb %d", (int) req->verb);
    if (verbs[req->verb].needs_arg && (!req->arg || !req->arg[0]))
        return csn_fail(err, CSN_E_INVALID, "'%.100s': the second argument is missing",
                        req->path ? req->path : "");
    if (req->max_results == 0)
        req->max_results = req->verb == CSN_FILE_LIST ? ENTRIES_DEFAULT : RESULTS_DEFAULT;
    return CSN_OK;
}

csn_op *csn_file_request_async(csn_sandbox *sandbox, const csn_file_request *request,
                               csn_count_done_fn done, void *user, csn_error *err)
{
    static const csn_op_kind kind = { .complete = complete_request,
                                      .deliver = deliver_request,
                                      .free = free_request };
    csn_file_request req;
    request_op *q;

    if (csn_sandbox_check(sandbox, err) < 0 ||
        csn_options_read(&req, sizeof(req), request, "csn_file_request", err) < 0 ||
        check_request(&req, err) < 0 ||
        csn_sandbox_need(sandbox, file, verbs[req.verb].what, err) < 0 || csn_files_check_path(req.path, err) < 0 ||
        !(q = csn_op_new(sandbox->engine, sizeof(*q), &kind, user, err)))
        return NULL;
    q->base.done.count = done;
    q->req = req;
    bool is_list = req.verb == CSN_FILE_LIST;
    csn_file_call call = { .verb = req.verb,
                           .flags = (uint32_t) req.flag & 3,
                           .mode = req.mode,
                           .max_results = req.max_results,
                           .path = req.path,
                           .arg = req.arg,
                           .arg2 = req.arg2,
                           .on_file = is_list ? keep_entry : req.on_file,
                           .on_match = req.on_match,
                           .user = is_list ? (void *) &q->list : req.user_data };
    return csn_op_begun(&q->base, sandbox->box->ops->file(sandbox->box, &call, &q->base, err));
}

/* --- blocking ----------------------------------------------------------------------------------------------------- */

static int ask(csn_sandbox *sandbox, csn_file_request *req, int64_t *ret_n, csn_error *err)
{
    csn_op_value value;
    int r;

    req->size = sizeof(*req);
    err = CSN_OP_ERR(err);
    r = csn_op_wait(csn_file_request_async(sandbox, req, NULL, NULL, err), &value, err);
    if (r >= 0 && ret_n)
        *ret_n = value.file.n;
    return r;
}

int csn_file_stat(csn_sandbox *sandbox, const char *path, int follow, csn_file_fn fn, void *user,
                  csn_error *err)
{
    csn_file_request req = {
        .verb = CSN_FILE_STAT, .path = path, .flag = follow != 0, .on_file = fn, .user_data = user
    };

    return ask(sandbox, &req, NULL, err);
}

int csn_file_list(csn_sandbox *sandbox, const char *path, uint32_t max_entries, csn_file_fn fn,
                  void *user, csn_error *err)
{
    csn_file_request req = { .verb = CSN_FILE_LIST,
                             .path = path,
                             .max_results = max_entries,
                             .on_file = fn,
                             .user_data = user };

    return ask(sandbox, &req, NULL, err);
}

int csn_file_mkdir(csn_sandbox *sandbox, const char *path, uint32_t mode, csn_error *err)
{
    csn_file_request req = { .verb = CSN_FILE_MKDIR, .path = path, .mode = (int) mode };

    return ask(sandbox, &req, NULL, err);
}

int csn_file_move(csn_sandbox *sandbox, const char *from, const char *to, csn_error *err)
{
    csn_file_request req = { .verb = CSN_FILE_MOVE, .path = from, .arg = to };

    return ask(sandbox, &req, NULL, err);
}

int csn_file_delete(csn_sandbox *sandbox, const char *path, int recursive, csn_error *err)
{
    csn_file_request req = { .verb = CSN_FILE_DELETE, .path = path, .flag = recursive != 0 };

    return ask(sandbox, &req, NULL, err);
}

int csn_file_chmod(csn_sandbox *sandbox, const char *path, int mode, const char *owner,
                   const char *group, csn_error *err)
{
    csn_file_request req = {
        .verb = CSN_FILE_CHMOD, .path = path, .mode = mode, .arg = owner, .arg2 = group
    };

    return ask(sandbox, &req, NULL, err);
}

int csn_file_find(csn_sandbox *sandbox, const char *path, const char *pattern, uint32_t max_results,
                  csn_file_fn fn, void *user, csn_error *err)
{
    csn_file_request req = { .verb = CSN_FILE_FIND,
                             .path = path,
                             .arg = pattern,
                             .max_results = max_results,
                             .on_file = fn,
                             .user_data = user };

    return ask(sandbox, &req, NULL, err);
}

int csn_file_search(csn_sandbox *sandbox, const char *path, const char *needle,
                    uint32_t max_results, csn_match_fn fn, void *user, csn_error *err)
{
    csn_file_request req = { .verb = CSN_FILE_SEARCH,
                             .path = path,
                             .arg = needle,
                             .max_results = max_results,
                             .on_match = fn,
                             .user_data = user };

    return ask(sandbox, &req, NULL, err);
}

int csn_file_replace(csn_sandbox *sandbox, const char *path, const char *from, const char *to,
                     int64_t *ret_n, csn_error *err)
{
    csn_file_request req = { .verb = CSN_FILE_REPLACE, .path = path, .arg = from, .arg2 = to };

    return ask(sandbox, &req, ret_n, err);
}
