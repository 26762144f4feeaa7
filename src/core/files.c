/* File verbs: arguments checked here, done inside by the backend, answers bounded. */
#include <caisson/files.h>

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "core/files.h"

enum { ENTRIES_DEFAULT = 100000, RESULTS_DEFAULT = 100000 };

static int check_path(const char *path, csn_error *err)
{
    if (!path || !path[0])
        return csn_fail(err, CSN_E_INVALID, "no path was given");
    if (strlen(path) >= 4096)
        return csn_fail(err, CSN_E_INVALID, "the path has more than 4095 bytes: '%.100s…'", path);
    return CSN_OK;
}

int csn_files_call(csn_sandbox *sandbox, const csn_file_call *call, csn_call_done_fn *done,
                   void *user, csn_error *err)
{
    int r = csn_sandbox_check(sandbox, err);

    if (r < 0 || (r = check_path(call->path, err)) < 0)
        return r;
    return sandbox->box->ops->file(sandbox->box, call, done, user, err);
}

static void drop_fd(csn_waiter *w)
{
    csn_close(&w->fd);
}

static void on_called(const csn_file_result *ret, int result, const csn_error *err, void *user)
{
    csn_waiter *w = user;

    w->fd = ret->fd;
    w->n = ret->value;
    w->is_cut = ret->is_cut;
    csn_waiter_finish(w, result, err);
}

int csn_files_call_wait(csn_sandbox *sandbox, const csn_file_call *call, csn_waiter *ret,
                        csn_error *err)
{
    csn_waiter *w = csn_waiter_new(drop_fd, err);
    int r;

    if (!w)
        return CSN_E_NO_MEMORY;
    r = csn_files_call(sandbox, call, on_called, w, err);
    if (r < 0) {
        free(w);
        return r;
    }
    return csn_waiter_wait(w, sandbox->engine, ret, err);
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

/* --- started ------------------------------------------------------------------------------------------------------ */

typedef struct file_promise {
    csn_sandbox *sandbox; /* counted */
    csn_file_request req; /* strings were copied by the backend */
    entry_list list;
    csn_file_done_fn done;
    csn_fd_done_fn done_fd;
    void *user;
} file_promise;

static int too_many(csn_error *err, uint32_t max)
{
    return csn_fail(err, CSN_E_TOO_LARGE, "there are more than %u results", max);
}

static void on_request_done(const csn_file_result *ret, int result, const csn_error *err, void *user)
{
    file_promise *p = user;
    csn_error own = { 0 };

    if (result >= 0 && p->list.is_short) {
        result = csn_fail(&own, CSN_E_NO_MEMORY, "list a directory");
        err = &own;
    } else if (result >= 0 && ret->is_cut) {
        result = too_many(&own, p->req.max_results);
        err = &own;
    }
    if (result >= 0 || result == CSN_E_TOO_LARGE)
        show_entries(&p->list, p->req.on_file, p->req.user_data);
    if (p->done)
        p->done(ret->value, result, err, p->user);
    else
        p->done_fd(result < 0 ? -1 : ret->fd, result, err, p->user);
    free_entries(&p->list);
    csn_sandbox_free(p->sandbox);
    free(p);
}

static const struct {
    bool needs_arg;
} verbs[] = {
    [CSN_FILE_STAT] = { 0 },
    [CSN_FILE_LIST] = { 0 },
    [CSN_FILE_MKDIR] = { 0 },
    [CSN_FILE_MOVE] = { .needs_arg = true },
    [CSN_FILE_DELETE] = { 0 },
    [CSN_FILE_CHMOD] = { 0 },
    [CSN_FILE_FIND] = { .needs_arg = true },
    [CSN_FILE_SEARCH] = { .needs_arg = true },
    [CSN_FILE_REPLACE] = { .needs_arg = true },
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

static int start_promise(csn_sandbox *sandbox, file_promise *p, csn_file_call *call, csn_error *err)
{
    int r = csn_sandbox_check(sandbox, err);

    if (r >= 0) {
        p->sandbox = csn_sandbox_ref(sandbox);
        r = csn_files_call(sandbox, call, on_request_done, p, err);
        if (r < 0)
            csn_sandbox_free(sandbox);
    }
    if (r < 0)
        free(p);
    return r;
}

int csn_file_request_start(csn_sandbox *sandbox, const csn_file_request *request,
                           csn_file_done_fn done, void *user, csn_error *err)
{
    csn_file_request req;
    int r = csn_options_read(&req, sizeof(req), request, "csn_file_request", err);

    if (r < 0 || (r = check_request(&req, err)) < 0)
        return r;
    file_promise *p = csn_calloc(1, sizeof(*p));
    if (!p)
        return csn_fail(err, CSN_E_NO_MEMORY, "'%.100s'", req.path ? req.path : "");
    *p = (file_promise){ .req = req, .done = done, .user = user };
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
                           .owner = user,
                           .user = is_list ? (void *) &p->list : req.user_data };
    return start_promise(sandbox, p, &call, err);
}

void csn_file_cancel(csn_sandbox *sandbox, const void *user)
{
    if (csn_sandbox_check(sandbox, NULL) < 0)
        return;
    sandbox->box->ops->file_cancel(sandbox->box, user);
    csn_content_cancel(sandbox->engine->backend, user);
}

int csn_file_open_start(csn_sandbox *sandbox, const char *path, int flags, uint32_t mode,
                        csn_fd_done_fn done, void *user, csn_error *err)
{
    csn_file_call call = { .verb = CSN_FILE_OPEN,
                           .flags = (uint32_t) flags,
                           .mode = (int32_t) mode,
                           .path = path };
    file_promise *p;

    if (!(flags & (CSN_OPEN_READ | CSN_OPEN_WRITE)) || (flags & ~63))
        return csn_fail(err, CSN_E_INVALID, "open a file: neither for reading nor for writing");
    if (!(p = csn_calloc(1, sizeof(*p))))
        return csn_fail(err, CSN_E_NO_MEMORY, "open a file");
    *p = (file_promise){ .done_fd = done, .user = user };
    return start_promise(sandbox, p, &call, err);
}

/* --- blocking ----------------------------------------------------------------------------------------------------- */

static void on_n(int64_t n, int result, const csn_error *err, void *user)
{
    csn_waiter *w = user;

    w->n = n;
    csn_waiter_finish(w, result, err);
}

static int ask(csn_sandbox *sandbox, csn_file_request *req, int64_t *ret_n, csn_error *err)
{
    csn_waiter got, *w = csn_waiter_new(NULL, err);
    int r;

    if (!w)
        return CSN_E_NO_MEMORY;
    req->size = sizeof(*req);
    r = csn_file_request_start(sandbox, req, on_n, w, err);
    if (r < 0) {
        free(w);
        return r;
    }
    r = csn_waiter_wait(w, sandbox->engine, &got, err);
    if (r >= 0 && ret_n)
        *ret_n = got.n;
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
