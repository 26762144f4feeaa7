/* Which sandbox an execute runs in: the one that is there, one found again, or a new one. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <caisson/files.h>
#include <caisson/image.h>
#include <caisson/volume.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/time.h"
#include "interp.h"

enum { MAX_LABELS = 64 };

/* ---- one program at a time -------------------------------------------------------------------------------------- */

int csn_session_in_use(csn_error *err)
{
    return csn_fail(err, CSN_E_BUSY, "another program has used this session for %d seconds",
                    CSN_LOCK_WAIT_MS / 1000);
}

/* Elsewhere the interpreter itself takes one program at a time: they need not be on one machine. */
int csn_session_lock(csn_interp *i, csn_error *err)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    int64_t deadline = csn_deadline_in_ms(CSN_LOCK_WAIT_MS);

    if (!i->o.is_kept || i->lock_fd >= 0 || csn_engine_is_remote(i->engine))
        return CSN_OK;
    csn_buf_printf(&path, "%s/sessions", csn_engine_state_dir(i->engine));
    if (path.error < 0 || (mkdir(path.data, 0700) < 0 && errno != EEXIST))
        return csn_fail_sys(err, path.error < 0 ? path.error : -errno, "make '%s'", path.data);
    csn_buf_printf(&path, "/%s.lock", csn_sandbox_id(i->box));
    i->lock_fd = open(path.data, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (i->lock_fd < 0)
        return csn_fail_sys(err, -errno, "open '%s'", path.data);
    while (flock(i->lock_fd, LOCK_EX | LOCK_NB) < 0) {
        if (csn_deadline_passed(deadline)) {
            csn_close(&i->lock_fd);
            return csn_session_in_use(err);
        }
        (void) poll(NULL, 0, 20); /* flock has no deadline of its own */
    }
    return CSN_OK;
}

static void forget_lock_file(csn_interp *i)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;

    if (i->lock_fd < 0 || !i->box)
        return;
    csn_buf_printf(&path, "%s/sessions/%s.lock", csn_engine_state_dir(i->engine),
                   csn_sandbox_id(i->box));
    (void) unlink(path.data); /* the session it was for is gone */
}

/* ---- letting go ------------------------------------------------------------------------------------------------- */

void csn_session_drop(csn_interp *i, bool delete_box)
{
    csn_calls_abandon(i);
    if (i->borrows_box)
        csn_worker_kill(i);
    csn_worker_drop(i);
    if (i->box && delete_box && !i->borrows_box) {
        (void) csn_sandbox_delete(i->box, NULL); /* the sweep takes what stays */
        forget_lock_file(i);
    }
    i->box = csn_sandbox_free(i->box);
    i->borrows_box = false;
    csn_slot_give_back(i);
    csn_close(&i->lock_fd);
    if (delete_box)
        csn_sources_done(&i->in_place);
    free(i->workspace);
    i->workspace = NULL;
    i->expires_ns = CSN_NO_DEADLINE;
}

static void remember(csn_interp *i, bool with_process)
{
    free(i->remembered_box);
    free(i->remembered_workspace);
    free(i->remembered_volume);
    i->remembered_box = i->box ? csn_strdup(csn_sandbox_id(i->box)) : NULL;
    i->remembered_workspace = i->workspace ? csn_strdup(i->workspace) : NULL;
    i->remembered_volume = i->in_place.volume_name ? csn_strdup(i->in_place.volume_name) : NULL;
    i->remembered_process = with_process ? csn_worker_number(i) : 0;
}

static void forget(csn_interp *i)
{
    free(i->remembered_box);
    free(i->remembered_workspace);
    free(i->remembered_volume);
    i->remembered_box = i->remembered_workspace = i->remembered_volume = NULL;
    i->remembered_process = 0;
}

static void end_running(csn_interp *i)
{
    csn_jobs_cancel_queued(i);
    if (!i->running)
        return;
    csn_interp_cancel(i);
    while (i->running && csn_interp_turn(i, CSN_NO_DEADLINE) >= 0)
        continue;
}

/* Kills the interpreter process and sees it end, so that nobody takes it for alive. */
static void end_process(csn_interp *i)
{
    int64_t deadline = csn_deadline_in_ms(CSN_GRACE_MS);

    csn_worker_kill(i);
    while (csn_worker_is_there(i) && !csn_deadline_passed(deadline) &&
           csn_interp_turn(i, deadline) >= 0)
        continue;
}

int csn_interp_shutdown(csn_interp *i, csn_error *err)
{
    (void) err;
    end_running(i);
    i->is_expired = false;
    if (!i->box)
        return CSN_OK;
    csn_history_save(i);
    if (!i->o.is_kept) {
        csn_session_drop(i, true);
        forget(i);
        return CSN_OK;
    }
    remember(i, !i->o.deletes_context);
    if (i->o.deletes_context)
        end_process(i);
    csn_session_drop(i, false);
    return CSN_OK;
}

/* ---- creating --------------------------------------------------------------------------------------------------- */

static void see_image(const csn_image_info *info, void *user)
{
    (void) info;
    *(bool *) user = true;
}

static const char *choose_image(csn_interp *i)
{
    bool has_base = false;

    if (i->o.image)
        return i->o.image;
    if (i->o.snapshot)
        return i->o.snapshot;
    if (csn_image_inspect(i->engine, "fleet-rlm-base", see_image, &has_base, NULL) == CSN_OK &&
        has_base)
        return "fleet-rlm-base";
    return NULL;
}

static void choose_name(csn_interp *i, int tries, char *out, size_t size)
{
    time_t now = time(NULL);
    struct tm tm;
    char suffix[8] = "", when[32];

    if (tries)
        (void) csn_id_hex(suffix, 2);
    (void) strftime(when, sizeof(when), "%Y%m%d-%H%M%S", gmtime_r(&now, &tm));
    (void) snprintf(out, size, "%s%s%s", i->o.name ? i->o.name : "fleet-rlm-",
                    i->o.name ? "" : when, "");
    if (tries && !i->o.name)
        (void) snprintf(out + strlen(out), size - strlen(out), "-%s", suffix);
}

static int create_box(csn_interp *i, csn_error *err)
{
    const char *labels[MAX_LABELS + 2] = { "managed-by=fleet-rlm" };
    csn_mount mount = { i->sources.volume_name, CSN_MEMORY_ROOT, i->o.volume_subpath, 0 };
    csn_sandbox_options o = {
        .size = sizeof(o), .image = choose_image(i), .env = i->o.env, .labels = labels
    };
    char name[80];
    size_t n = 1;
    int r = CSN_E_EXISTS;

    for (const char *const *l = i->o.labels; *l && n <= MAX_LABELS; l++) {
        const char *eq = strchr(*l, '=');

        if (eq && eq != *l && eq[1]) /* blank keys and values are dropped */
            labels[n++] = *l;
    }
    o.mounts = mount.volume ? &mount : NULL;
    o.n_mounts = mount.volume ? 1 : 0;
    o.network = i->o.has_network ? CSN_NET_OUTBOUND : CSN_NET_NONE;
    o.is_detached = i->o.is_kept;
    o.is_ephemeral = !i->o.is_kept;
    o.is_shared = !i->o.is_kept; /* children come in through the same door */
    o.memory_bytes = i->o.memory_bytes;
    o.cpu_milli = i->o.cpu_milli;
    o.disk_bytes = i->o.disk_bytes;
    o.ttl_ms = i->o.timeout_s > 0 ? i->o.timeout_s * 1000 + (i->o.is_kept ? 0 : 5000) : 0;
    if (csn_engine_is_remote(i->engine))
        o.idle_stop_ms = o.ttl_ms; /* a stop would end the process that remembers */
    o.name = name;
    for (int tries = 0; r == CSN_E_EXISTS && tries < 8; tries++) {
        choose_name(i, tries, name, sizeof(name));
        r = csn_sandbox_create(i->engine, &o, &i->box, err);
        if (i->o.name)
            break;
    }
    return r;
}

static int make_volume(csn_interp *i, csn_error *err)
{
    csn_error why = { 0 };
    int r = i->sources.volume_name ? csn_volume_create(i->engine, i->sources.volume_name, &why)
                                   : CSN_OK;

    if (r < 0 && r != CSN_E_EXISTS)
        return csn_fail(err, r, "Volume mount failed: %s", why.message);
    return CSN_OK;
}

static int take_sources(csn_interp *i, csn_error *err)
{
    int r = csn_sources_set(&i->in_place, i->sources.repo_url, i->sources.repo_ref,
                            (const char *const *) i->sources.context_paths, i->sources.volume_name);

    free(i->workspace);
    i->workspace = csn_workspace_of(i->sources.repo_url);
    return r < 0 || !i->workspace ? csn_fail_sys(err, -ENOMEM, "remember the sources") : CSN_OK;
}

/* Milliseconds since *t, which moves on. */
static int64_t since(int64_t *t)
{
    int64_t now = csn_now_ns(), ms = (now - *t) / CSN_NS_PER_MS;

    *t = now;
    return ms;
}

static int stage(csn_interp *i, csn_error *err)
{
    int r = take_sources(i, err);
    int64_t t = csn_now_ns();

    if (r >= 0)
        r = csn_stage_repo(i, err);
    i->ms_clone = since(&t);
    if (r >= 0)
        r = csn_stage_context(i, err);
    i->ms_context = since(&t);
    return r;
}

static int create(csn_interp *i, const char *transition, csn_error *err)
{
    int64_t t = csn_now_ns();
    int r = make_volume(i, err);

    if (r >= 0)
        r = csn_slot_take(i, err);
    if (r >= 0)
        r = create_box(i, err);
    i->ms_create = since(&t);
    if (r < 0) {
        csn_slot_give_back(i);
        csn_note_failure(i, "sandbox_create_clone_error", "sandbox_create");
        return csn_fail_in(err, r, "sandbox creation failed");
    }
    i->expires_ns =
        i->o.timeout_s > 0 ? csn_deadline_in_ms(i->o.timeout_s * 1000) : CSN_NO_DEADLINE;
    r = csn_session_lock(i, err);
    if (r >= 0)
        r = stage(i, err);
    t = csn_now_ns();
    if (r >= 0)
        r = csn_worker_start(i, err);
    i->ms_driver = since(&t);
    if (r < 0) {
        csn_session_drop(i, true);
        return r;
    }
    i->transition = transition;
    csn_history_load(i);
    return CSN_OK;
}

int csn_session_take(csn_interp *i, const csn_interp *from, csn_error *err)
{
    int r = csn_sources_set(&i->in_place, from->in_place.repo_url, from->in_place.repo_ref,
                            (const char *const *) from->in_place.context_paths,
                            from->in_place.volume_name);

    free(i->workspace);
    i->workspace = from->workspace ? csn_strdup(from->workspace) : csn_workspace_of(NULL);
    csn_buf_clear(&i->context_json);
    if (r == 0)
        r = csn_buf_append(&i->context_json, from->context_json.data, from->context_json.len);
    return r < 0 || !i->workspace ? csn_fail_sys(err, -ENOMEM, "take over a sandbox") : CSN_OK;
}

int csn_session_adopt(csn_interp *i, csn_sandbox *box, csn_error *err)
{
    i->box = box;
    i->expires_ns =
        i->o.timeout_s > 0 ? csn_deadline_in_ms(i->o.timeout_s * 1000) : CSN_NO_DEADLINE;
    i->transition = "created";
    return csn_worker_start(i, err);
}

/* ---- finding again ---------------------------------------------------------------------------------------------- */

static int wake_box(csn_interp *i, bool *ret_was_running, csn_error *err)
{
    csn_sandbox_info info;
    int64_t left;
    int r = csn_sandbox_inspect(i->box, &info, err);

    if (r < 0)
        return r;
    *ret_was_running = info.state == CSN_STATE_STARTED;
    left = info.created_ms + info.ttl_ms - csn_wall_ms();
    i->expires_ns = info.ttl_ms > 0 ? csn_deadline_in_ms(left > 0 ? left : 0) : CSN_NO_DEADLINE;
    if (info.state == CSN_STATE_DELETED || info.state == CSN_STATE_DELETING)
        return csn_fail(err, CSN_E_NOT_FOUND, "the sandbox was deleted");
    return *ret_was_running ? CSN_OK : csn_sandbox_start(i->box, err);
}

/* The process that is remembered, or a new one in its place. */
static int find_worker(csn_interp *i, bool was_running, csn_error *err)
{
    csn_error why = { 0 };
    int r = was_running && i->remembered_process > 0
                ? csn_worker_attach(i, (uint32_t) i->remembered_process, &why)
                : CSN_E_NOT_FOUND;

    if (r >= 0)
        return r;
    if (r == CSN_E_BUSY) {
        if (err)
            *err = why;
        return r;
    }
    i->was_lost = true;
    return csn_worker_start(i, err);
}

static int resume(csn_interp *i, csn_error *err)
{
    bool was_running = false;
    int r = csn_sandbox_open(i->engine, i->remembered_box, &i->box, err);

    if (r >= 0)
        r = csn_session_lock(i, err);
    if (r >= 0)
        r = wake_box(i, &was_running, err);
    if (r >= 0 && !i->in_place.context_paths)
        r = take_sources(i, err);
    if (r >= 0) {
        free(i->workspace);
        i->workspace = i->remembered_workspace ? csn_strdup(i->remembered_workspace)
                                               : csn_workspace_of(i->in_place.repo_url);
    }
    if (r >= 0)
        r = find_worker(i, was_running, err);
    if (r < 0) {
        csn_session_drop(i, false);
        return r;
    }
    i->transition = "resumed";
    csn_history_load(i);
    return r;
}

/* ---- deciding --------------------------------------------------------------------------------------------------- */

static int expired(csn_interp *i, csn_error *err)
{
    i->is_expired = true;
    csn_session_drop(i, true);
    forget(i);
    csn_note_failure(i, "sandbox_expired", "execute");
    return csn_fail(err, CSN_E_TIMEOUT, "Sandbox lifetime of %lld seconds exceeded",
                    (long long) i->o.timeout_s);
}

static int recreate(csn_interp *i, bool is_degraded, csn_error *err)
{
    csn_session_drop(i, true);
    forget(i);
    i->is_degraded |= is_degraded;
    i->used_fallback |= is_degraded;
    i->was_lost = true;
    return create(i, "recreated", err);
}

static int use_live(csn_interp *i, csn_error *err)
{
    int r = CSN_OK;

    if (!csn_streq(i->sources.volume_name, i->in_place.volume_name))
        return recreate(i, false, err);
    if (!csn_sources_equal(&i->sources, &i->in_place)) {
        r = stage(i, err);
        if (r >= 0 && csn_worker_is_there(i))
            r = csn_worker_hello(i, true, err);
        i->is_reconfigured = r >= 0;
        if (r == CSN_E_CANCELLED)
            return r;
        if (r < 0) {
            csn_note_failure(i, "sandbox_resume_error", "reconcile");
            return recreate(i, true, err);
        }
    }
    if (!csn_worker_is_there(i)) {
        r = csn_worker_start(i, err);
        if (r < 0 && r != CSN_E_CANCELLED) /* the sandbox itself may be gone */
            return recreate(i, true, err);
    } else if (i->tools_changed) {
        r = csn_worker_hello(i, false, err);
    }
    if (r >= 0)
        i->transition = "reused";
    return r;
}

static int use_remembered(csn_interp *i, csn_error *err)
{
    csn_error why = { 0 };
    int r;

    if (!csn_streq(i->sources.volume_name, i->remembered_volume))
        return recreate(i, false, err);
    r = resume(i, &why);
    if (r >= 0 && !csn_sources_equal(&i->sources, &i->in_place))
        return use_live(i, err);
    if (r >= 0 || r == CSN_E_CANCELLED || r == CSN_E_BUSY) {
        if (r < 0 && err)
            *err = why;
        return r;
    }
    csn_note_failure(i, "sandbox_resume_error", "resume");
    return recreate(i, true, err);
}

static int ensure(csn_interp *i, csn_error *err)
{
    if (i->is_expired || (i->box && csn_deadline_passed(i->expires_ns)))
        return expired(i, err);
    if (i->running)
        return CSN_OK; /* in use: nothing to decide */
    if (i->box)
        return use_live(i, err);
    if (i->remembered_box)
        return use_remembered(i, err);
    return create(i, "created", err);
}

int csn_session_ensure(csn_interp *i, csn_error *err)
{
    bool was_ensuring = i->is_ensuring;
    int r;

    i->is_ensuring = true; /* starting turns the loop, and must not begin anew there */
    r = ensure(i, err);
    i->is_ensuring = was_ensuring;
    return r;
}

int csn_interp_start(csn_interp *i, csn_error *err)
{
    return csn_session_ensure(i, err);
}

int csn_interp_configure_workspace(csn_interp *i, const char *repo_url, const char *repo_ref,
                                   const char *const *context_paths, const char *volume_name,
                                   int force_new_session, csn_error *err)
{
    int r = csn_sources_set(&i->sources, repo_url, repo_ref, context_paths, volume_name);

    if (r < 0)
        return csn_fail_sys(err, r, "remember the sources");
    if (force_new_session) {
        end_running(i);
        csn_session_drop(i, true);
        forget(i);
    }
    return CSN_OK;
}

int csn_interp_write_file(csn_interp *i, const char *path, const void *data, size_t len,
                          csn_error *err)
{
    csn_auto(buf) csn_buf full = CSN_BUF_INIT;
    int r = csn_session_ensure(i, err);

    if (r < 0)
        return r;
    csn_buf_printf(&full, "%s%s%s", path[0] == '/' ? "" : i->workspace, path[0] == '/' ? "" : "/",
                   path);
    if (full.error < 0)
        return csn_fail_sys(err, full.error, "write '%s'", path);
    csn_event_write(i, "durable_write_started", full.data, len, 0);
    r = csn_file_put(i->box, full.data, data, len, 0644, err);
    if (r >= 0)
        csn_event_write(i, "durable_write_completed", full.data, len, len);
    return r;
}
