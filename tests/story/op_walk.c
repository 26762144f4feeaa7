#include "story/op_walk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "story/story.h"

enum { STEPS_MAX = 100000 };

/* ---- what the verbs tell ---- */

static void tell(op_world *w, int result)
{
    w->n_done++;
    w->result = result;
}

static void on_done(int result, const csn_error *err, void *user)
{
    CHECK((result < 0) == (err != NULL));
    tell(user, result);
}

static void on_count(int64_t n, int result, const csn_error *err, void *user)
{
    (void) n, (void) err;
    tell(user, result);
}

static void on_sandbox(csn_sandbox *box, int result, const csn_error *err, void *user)
{
    op_world *w = user;

    (void) err;
    CHECK((box != NULL) == (result >= 0));
    if (box && box != w->box) {
        csn_op *gone = csn_sandbox_delete_async(box, NULL, NULL, NULL);

        CHECK(gone);
        csn_sandbox_free(box);
    }
    tell(w, result);
}

static void on_opened(csn_sandbox *box, int result, const csn_error *err, void *user)
{
    (void) err;
    csn_sandbox_free(box);
    tell(user, result);
}

static void on_info(const csn_sandbox_info *info, int result, const csn_error *err, void *user)
{
    (void) err;
    CHECK((info != NULL) == (result >= 0));
    tell(user, result);
}

static void on_receipt(const csn_receipt *receipt, int result, const csn_error *err, void *user)
{
    (void) err;
    CHECK((receipt != NULL) == (result >= 0));
    tell(user, result);
}

static void on_usage(const csn_usage *usage, int result, const csn_error *err, void *user)
{
    (void) err;
    CHECK((usage != NULL) == (result >= 0));
    tell(user, result);
}

static void on_process(csn_process *process, int result, const csn_error *err, void *user)
{
    (void) err;
    if (process && csn_process_id(process) > 0)
        (void) csn_process_signal_async(process, 9, 1, NULL, NULL, NULL); /* it may have ended */
    csn_process_free(process);
    tell(user, result);
}

static void on_fd(int fd, int result, const csn_error *err, void *user)
{
    (void) err;
    CHECK((fd >= 0) == (result >= 0));
    if (fd >= 0)
        close(fd);
    tell(user, result);
}

static void on_content(char *data, int64_t n, int result, const csn_error *err, void *user)
{
    (void) n, (void) err;
    free(data);
    tell(user, result);
}

static void ignore_box(const csn_sandbox_info *info, void *user)
{
    (void) info, (void) user;
}

static void ignore_process(const csn_process_info *info, void *user)
{
    (void) info, (void) user;
}

static void ignore_image(const csn_image_info *info, void *user)
{
    (void) info, (void) user;
}

static void ignore_volume(const csn_volume_info *info, void *user)
{
    (void) info, (void) user;
}

static void ignore_file(const csn_file_info *info, void *user)
{
    (void) info, (void) user;
}

/* ---- the verbs ---- */

static csn_op *create(op_world *w, csn_error *err)
{
    return csn_sandbox_create_async(w->engine, NULL, on_sandbox, w, err);
}

static csn_op *create_detached(op_world *w, csn_error *err)
{
    csn_sandbox_options o = { .size = sizeof(o), .is_detached = 1, .name = "walked" };

    return csn_sandbox_create_async(w->engine, &o, on_sandbox, w, err);
}

static csn_op *create_ephemeral(op_world *w, csn_error *err)
{
    csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1 };

    return csn_sandbox_create_async(w->engine, &o, on_sandbox, w, err);
}

static void on_once(csn_process *process, int is_made, int result, const csn_error *err, void *user)
{
    (void) err;
    CHECK((process != NULL) == (result >= 0));
    if (process) {
        CHECK(is_made);
        CHECK(csn_sandbox_delete_async(csn_process_sandbox(process), NULL, NULL, NULL));
    }
    csn_process_free(process);
    tell(user, result);
}

static csn_op *run_once(op_world *w, csn_error *err)
{
    static const csn_process_options o = { .size = sizeof(o), .shell = "sleep 60" };

    return csn_run_once_async(w->engine, NULL, &o, NULL, on_once, w, err);
}

static csn_op *run_file_once(op_world *w, csn_error *err)
{
    static const csn_process_options o = { .size = sizeof(o), .shell = "sleep 60" };
    static const csn_file_source from = { .size = sizeof(from), .data = "text", .len = 4 };
    static const csn_once_file file = { .path = "/home/daytona/walked", .from = &from };

    return csn_run_once_async(w->engine, NULL, &o, &file, on_once, w, err);
}

static csn_op *open_box(op_world *w, csn_error *err)
{
    return csn_sandbox_open_async(w->engine, csn_sandbox_id(w->box), on_opened, w, err);
}

static csn_op *inspect(op_world *w, csn_error *err)
{
    return csn_sandbox_inspect_async(w->box, on_info, w, err);
}

static csn_op *list(op_world *w, csn_error *err)
{
    return csn_sandbox_list_async(w->engine, ignore_box, on_done, w, err);
}

static csn_op *gc(op_world *w, csn_error *err)
{
    return csn_engine_gc_async(w->engine, on_count, w, err);
}

static csn_op *set_labels(op_world *w, csn_error *err)
{
    return csn_sandbox_set_labels_async(w->box, (const char *const[]){ "a=b", NULL }, on_done, w,
                                        err);
}

static csn_op *set_timers(op_world *w, csn_error *err)
{
    return csn_sandbox_set_timers_async(w->box, 0, 600000, on_done, w, err);
}

static csn_op *resize(op_world *w, csn_error *err)
{
    /* A service gives a started one more, never less. */
    int64_t memory = csn_engine_is_remote(w->engine) ? (int64_t) 2 << 30 : (int64_t) 512 << 20;

    return csn_sandbox_resize_async(w->box, memory, 0, 0, on_done, w, err);
}

static csn_op *stop(op_world *w, csn_error *err)
{
    return csn_sandbox_stop_async(w->box, -1, on_done, w, err);
}

static csn_op *start(op_world *w, csn_error *err)
{
    if (csn_sandbox_stop(w->box, -1, err) < 0)
        return NULL;
    return csn_sandbox_start_async(w->box, on_done, w, err);
}

static csn_op *delete_box(op_world *w, csn_error *err)
{
    return csn_sandbox_delete_async(w->box, on_done, w, err);
}

static csn_op *receipt(op_world *w, csn_error *err)
{
    return csn_sandbox_receipt_async(w->box, on_receipt, w, err);
}

static csn_op *usage(op_world *w, csn_error *err)
{
    return csn_sandbox_usage_async(w->box, on_usage, w, err);
}

static csn_op *snapshot(op_world *w, csn_error *err)
{
    return csn_sandbox_snapshot_async(w->box, "walked", on_done, w, err);
}

static csn_op *fork_box(op_world *w, csn_error *err)
{
    return csn_sandbox_fork_async(w->box, NULL, on_sandbox, w, err);
}

static csn_op *run_attached(op_world *w, csn_error *err)
{
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 60" };

    return csn_process_start_async(w->box, &o, on_process, w, err);
}

static csn_op *run_background(op_world *w, csn_error *err)
{
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 60", .is_background = 1 };

    return csn_process_start_async(w->box, &o, on_process, w, err);
}

static csn_op *run_short(op_world *w, csn_error *err)
{
    csn_process_options o = { .size = sizeof(o), .shell = "echo short" };

    return csn_process_start_async(w->box, &o, on_process, w, err);
}

static csn_op *open_process(op_world *w, csn_error *err)
{
    return csn_process_open_async(w->box, csn_process_id(w->process), on_process, w, err);
}

static csn_op *wait_end(op_world *w, csn_error *err)
{
    if (csn_process_signal(w->process, 9, 1, err) < 0)
        return NULL;
    return csn_process_wait_async(w->process, on_receipt, w, err);
}

static csn_op *wait_log(op_world *w, csn_error *err)
{
    if (csn_process_signal(w->process, 9, 1, err) < 0)
        return NULL;
    return csn_process_wait_log_async(w->process, INT64_MAX, on_done, w, err);
}

static csn_op *send_signal(op_world *w, csn_error *err)
{
    return csn_process_signal_async(w->process, 18, 0, on_done, w, err);
}

static csn_op *list_processes(op_world *w, csn_error *err)
{
    return csn_process_list_async(w->box, ignore_process, on_done, w, err);
}

static csn_op *open_file(op_world *w, csn_error *err)
{
    return csn_file_open_async(w->box, "walked", CSN_OPEN_WRITE | CSN_OPEN_CREATE, 0600, on_fd, w,
                               err);
}

static csn_op *put_memory(op_world *w, csn_error *err)
{
    static const char text[3 << 20] = "text";
    csn_file_source from = { .size = sizeof(from), .data = text, .len = sizeof(text) };

    return csn_file_put_async(w->box, "walked", &from, 0644, on_content, w, err);
}

static csn_op *put_fd(op_world *w, csn_error *err)
{
    csn_file_source from = { .size = sizeof(from), .is_fd = 1, .in_place = 1 };

    from.fd = w->fd = memfd_create("walked", MFD_CLOEXEC);
    CHECK(w->fd >= 0 && ftruncate(w->fd, 3 << 20) == 0);
    return csn_file_put_async(w->box, "walked", &from, 0644, on_content, w, err);
}

static csn_op *get_memory(op_world *w, csn_error *err)
{
    csn_file_sink to = { .size = sizeof(to) };

    return csn_file_get_async(w->box, "/etc/passwd", &to, on_content, w, err);
}

static csn_op *get_fd(op_world *w, csn_error *err)
{
    csn_file_sink to = { .size = sizeof(to), .is_fd = 1 };

    to.fd = w->fd = memfd_create("walked", MFD_CLOEXEC);
    CHECK(w->fd >= 0);
    return csn_file_get_async(w->box, "/etc/passwd", &to, on_content, w, err);
}

static csn_op *request(op_world *w, csn_file_request req, csn_error *err)
{
    req.size = sizeof(req);
    req.on_file = ignore_file;
    return csn_file_request_async(w->box, &req, on_count, w, err);
}

static csn_op *stat_file(op_world *w, csn_error *err)
{
    return request(w, (csn_file_request){ .verb = CSN_FILE_STAT, .path = "/etc" }, err);
}

static csn_op *list_files(op_world *w, csn_error *err)
{
    return request(w, (csn_file_request){ .verb = CSN_FILE_LIST, .path = "/usr/bin" }, err);
}

static csn_op *make_directory(op_world *w, csn_error *err)
{
    return request(w, (csn_file_request){ .verb = CSN_FILE_MKDIR, .path = "d", .mode = 0755 }, err);
}

static csn_op *find_files(op_world *w, csn_error *err)
{
    return request(w, (csn_file_request){ .verb = CSN_FILE_FIND, .path = "/etc", .arg = "*" }, err);
}

static csn_op *delete_file(op_world *w, csn_error *err)
{
    return request(w, (csn_file_request){ .verb = CSN_FILE_DELETE, .path = ".profile" }, err);
}

static csn_op *connect_port(op_world *w, csn_error *err)
{
    return csn_port_connect_async(w->box, 4999, on_fd, w, err); /* nobody listens */
}

static csn_op *list_images(op_world *w, csn_error *err)
{
    return csn_image_list_async(w->engine, ignore_image, on_done, w, err);
}

static csn_op *inspect_image(op_world *w, csn_error *err)
{
    return csn_image_inspect_async(w->engine, "host", ignore_image, on_done, w, err);
}

static csn_op *import_image(op_world *w, csn_error *err)
{
    static int n; /* a name of its own each time: who comes to the end has an image */
    char name[32];

    (void) snprintf(name, sizeof(name), "walked%d", n++);
    return csn_image_import_async(w->engine, name, "/etc/apt", on_done, w, err);
}

static csn_op *create_volume(op_world *w, csn_error *err)
{
    (void) csn_volume_remove(w->engine, "walked", NULL); /* of the round before */
    return csn_volume_create_async(w->engine, "walked", on_done, w, err);
}

static csn_op *list_volumes(op_world *w, csn_error *err)
{
    return csn_volume_list_async(w->engine, ignore_volume, on_done, w, err);
}

static csn_op *remove_volume(op_world *w, csn_error *err)
{
    (void) csn_volume_create(w->engine, "removed", NULL); /* may be there */
    return csn_volume_remove_async(w->engine, "removed", on_done, w, err);
}

const op_verb op_verbs[] = {
    { OP_SANDBOX, "create", .no_box = true, .is_made = true, .begin = create },
    { OP_SANDBOX, "create detached", .no_box = true, .is_made = true, .begin = create_detached },
    { OP_SANDBOX, "create ephemeral", .no_box = true, .is_made = true, .begin = create_ephemeral },
    { OP_SANDBOX, "run once", .no_box = true, .is_made = true, .begin = run_once },
    { OP_SANDBOX, "run a file once", .no_box = true, .is_made = true, .begin = run_file_once },
    { OP_SANDBOX, "open", .begin = open_box },
    { OP_SANDBOX, "inspect", .begin = inspect },
    { OP_SANDBOX, "list", .begin = list },
    { OP_SANDBOX, "gc", .no_box = true, .begin = gc },
    { OP_SANDBOX, "set labels", .begin = set_labels },
    { OP_SANDBOX, "set timers", .begin = set_timers },
    { OP_SANDBOX, "resize", .begin = resize },
    { OP_SANDBOX, "stop", .begin = stop },
    { OP_SANDBOX, "start", .begin = start },
    { OP_SANDBOX, "delete", .begin = delete_box },
    { OP_SANDBOX, "receipt", .begin = receipt },
    { OP_SANDBOX, "usage", .begin = usage },
    { OP_SANDBOX, "snapshot", .is_local = true, .is_made = true, .begin = snapshot },
    { OP_SANDBOX, "fork", .is_made = true, .begin = fork_box },
    { OP_COMMAND, "run", .is_local = true, .is_made = true, .begin = run_attached },
    { OP_COMMAND, "run in the background", .is_local = true, .is_made = true,
      .begin = run_background },
    { OP_COMMAND, "run something short", .is_made = true, .begin = run_short },
    { OP_COMMAND, "open a command", .is_local = true, .background = 1, .begin = open_process },
    { OP_COMMAND, "wait", .is_local = true, .background = 1, .begin = wait_end },
    { OP_COMMAND, "wait for a log", .is_local = true, .background = 1, .begin = wait_log },
    { OP_COMMAND, "signal", .is_local = true, .background = 1, .begin = send_signal },
    { OP_COMMAND, "list commands", .is_local = true, .begin = list_processes },
    { OP_FILE, "open a file", .is_local = true, .begin = open_file },
    { OP_FILE, "put from memory", .is_made = true, .begin = put_memory },
    { OP_FILE, "put from a descriptor", .begin = put_fd },
    { OP_FILE, "get into memory", .begin = get_memory },
    { OP_FILE, "get into a descriptor", .begin = get_fd },
    { OP_FILE, "look at a file", .is_local = true, .begin = stat_file },
    { OP_FILE, "list a directory", .is_local = true, .begin = list_files },
    { OP_FILE, "make a directory", .is_local = true, .begin = make_directory },
    { OP_FILE, "find files", .is_local = true, .begin = find_files },
    { OP_FILE, "delete a file", .is_local = true, .begin = delete_file },
    { OP_FILE, "connect", .is_local = true, .begin = connect_port },
    { OP_IMAGE, "list images", .is_local = true, .no_box = true, .begin = list_images },
    { OP_IMAGE, "inspect an image", .is_local = true, .no_box = true, .begin = inspect_image },
    { OP_IMAGE, "import an image", .is_local = true, .no_box = true, .begin = import_image },
    { OP_IMAGE, "create a volume", .is_local = true, .no_box = true, .begin = create_volume },
    { OP_IMAGE, "list volumes", .is_local = true, .no_box = true, .begin = list_volumes },
    { OP_IMAGE, "remove a volume", .is_local = true, .no_box = true, .begin = remove_volume },
};
const size_t n_op_verbs = CSN_COUNT(op_verbs);

/* ---- what is left ---- */

/* One step: something happens, or nothing for a while. */
static void turn(csn_engine *engine, int wait_ms)
{
    OK(csn_engine_dispatch(engine, wait_ms, err));
}

static void count_image(const csn_image_info *info, void *user)
{
    if (strcmp(info->name, "walked") == 0)
        ++*(int *) user;
}

static void count_running(const csn_process_info *info, void *user)
{
    if (info->is_running)
        ++*(int *) user;
}

/* 0: nothing. On this machine commands, too, can be counted; of a service only sandboxes. */
static int count_left(op_world *w, int n_boxes_before)
{
    int n = count_sandboxes(w->engine) - n_boxes_before;

    if (csn_engine_is_remote(w->engine))
        return n;
    OK(csn_image_list(w->engine, count_image, &n, err));
    if (w->box && !w->process)
        (void) csn_process_list(w->box, count_running, &n, NULL); /* or it is stopped */
    return n;
}

/* What was given up goes soon, and so does what our `done` deletes: waited for, with a limit. */
static void check_nothing_left(op_world *w, const op_verb *verb, int n_boxes, const char *how,
                               int at)
{
    int left = 0;

    for (int i = 0; i < 500; i++) {
        left = count_left(w, n_boxes);
        if (left <= 0)
            return;
        turn(w->engine, 20);
    }
    FAIL("%s, %s after %d turns: %d are left", verb->name, how, at, left);
}

/* A file written beside must not stay either; it goes soon. */
static void check_files(op_world *w, const op_verb *verb, const char *how, int at)
{
    csn_process_options o = { .size = sizeof(o), .shell = "ls -A | grep '^\\.caisson-'" };
    size_t left = 1;

    for (int i = 0; w->box && left > 0; i++) {
        csn_run_result result;

        if (csn_run(w->box, &o, &result, NULL) < 0)
            return; /* it is stopped or gone */
        left = result.out_len;
        if (left > 0 && i == 100)
            FAIL("%s, %s after %d turns: left '%s'", verb->name, how, at, result.out);
        csn_run_result_done(&result);
    }
}

/* ---- the walk ---- */

static void open_world(op_world *w, csn_engine *engine, const op_verb *verb)
{
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 60", .is_background = 1 };

    *w = (op_world){ .engine = engine, .fd = -1 };
    if (!verb->no_box)
        OK(csn_sandbox_create(engine, NULL, &w->box, err));
    if (verb->background)
        OK(csn_process_start(w->box, &o, &w->process, err));
}

static void close_world(op_world *w)
{
    w->process = csn_process_free(w->process);
    if (w->box)
        OK(csn_sandbox_delete(w->box, err));
    w->box = csn_sandbox_free(w->box);
    if (!csn_engine_is_remote(w->engine))
        (void) csn_image_remove(w->engine, "walked", NULL); /* of a round that came to its end */
    if (w->fd >= 0)
        close(w->fd);
}

typedef enum way { CANCEL, DROP, LATE, OWNER, WAYS } way;

static const char *const way_names[] = { "cancelled", "dropped", "late", "dropped by its owner" };

/* True: it was over by itself before its step came. */
static bool walk_step(csn_engine *engine, const op_verb *verb, way how, int at)
{
    op_world w;
    csn_op_owner owner = { NULL };
    csn_op *op;
    int n_boxes;
    bool is_over;

    open_world(&w, engine, verb);
    n_boxes = count_sandboxes(engine);
    op = BEGUN(verb->begin(&w, err));
    csn_op_set_owner(op, &owner);
    for (int i = 0; i < at && !w.n_done; i++)
        turn(engine, 1000);
    is_over = w.n_done > 0;
    if (is_over) {
        CHECK(!owner.first); /* it has left its owner */
    } else if (how == CANCEL) {
        csn_op_cancel(op);
        csn_op_cancel(op); /* once more does nothing */
    } else if (how == DROP) {
        csn_op_drop(op);
    } else if (how == LATE) {
        OK(csn_op_set_timeout(op, 1, err));
    } else {
        csn_op_owner_drop(&owner);
        CHECK(!owner.first);
    }
    if (!is_over)
        CHECK_INT(w.n_done, 0); /* never from inside the call */
    for (int i = 0; !is_over && (how == CANCEL || how == LATE) && !w.n_done && i < 1000; i++)
        turn(engine, 1000);
    if (is_over || how == CANCEL || how == LATE) {
        if (w.n_done != 1)
            FAIL("%s, %s after %d turns: done ran %d times", verb->name, way_names[how], at,
                 w.n_done);
    }
    if (!is_over && how == CANCEL)
        CHECK_STR(csn_error_name(w.result), csn_error_name(CSN_E_CANCELLED));
    if (verb->is_made && (w.n_done == 0 || w.result < 0 || verb->begin != snapshot))
        check_nothing_left(&w, verb, n_boxes, way_names[how], at);
    check_files(&w, verb, way_names[how], at);
    int n_done = w.n_done;
    close_world(&w);
    turn(engine, 0);
    CHECK_INT(w.n_done, n_done); /* and not later either */
    return is_over;
}

void walk_op(csn_engine *engine, const op_verb *verb)
{
    for (way how = CANCEL; how < WAYS; how++)
        /* The first steps one by one; of a long listing then fewer and fewer. */
        for (int at = 0; !walk_step(engine, verb, how, at); at += at < 32 ? 1 : at / 4)
            CHECK(at < STEPS_MAX);
}
