/* SPDX-License-Identifier: Apache-2.0 */
/* A front for tests: started by a real caisson-warden in caisson-serve's place, it drives a real engine through every verb
 * and prints TAP. Its stdout is the warden's. `--bad` sends a message no sound front sends, `--die` ends at once, `--wait`
 * says "ready" and stays until it is told to quit. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <caisson/files.h>
#include <caisson/process.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/loop.h"
#include "base/str.h"
#include "base/time.h"
#include "kern/caps.h"
#include "server/warden.h"

enum { LINK_FD = 3, LISTEN_FD = 4, WAIT_MS = 30000 };

static csn_loop *loop;
static csn_warden *warden;
static csn_engine *engine;
static int n_tests, n_failed;

static bool is_done, was_quit;
static int got_result, got_fd = -1, n_seen;
static csn_error got_err;
static csn_box_seen seen[64];
static char images[256];

static void on_done(int result, const csn_error *err, void *user)
{
    (void) user;
    is_done = true;
    got_result = result;
    got_err = err ? *err : (csn_error){ 0 };
}

static void on_fd(int fd, int result, const csn_error *err, void *user)
{
    got_fd = fd;
    on_done(result, err, user);
}

static void on_seen(const csn_box_seen *box, void *user)
{
    (void) user;
    if (n_seen < (int) CSN_COUNT(seen))
        seen[n_seen++] = *box;
}

static void on_image(const char *name, int64_t size_bytes, void *user)
{
    size_t len = strlen(images);

    (void) user;
    (void) snprintf(images + len, sizeof(images) - len, " %s%s", name, size_bytes < 0 ? "?" : "");
}

/* Waits for what `r` started: its result. */
static int wait_for(int r)
{
    int64_t deadline = csn_deadline_in_ms(WAIT_MS);

    is_done = false;
    if (r < 0)
        return r;
    while (!is_done && !csn_deadline_passed(deadline))
        if (csn_loop_run_once(loop, deadline) < 0)
            break;
    return is_done ? got_result : CSN_E_TIMEOUT;
}

static void check(const char *what, bool is_true)
{
    n_tests++;
    n_failed += !is_true;
    printf("%sok %d - %s\n", is_true ? "" : "not ", n_tests, what);
    if (!is_true)
        printf("# result %d: %s\n", got_result, got_err.message);
    (void) fflush(stdout);
}

static csn_box_spec a_spec(void)
{
    csn_box_spec spec = { .image = "host", .user = "daytona", .memory_bytes = 256 << 20 };

    if (csn_id_uuid(spec.id) < 0)
        abort();
    return spec;
}

static csn_state state_of(const char *id)
{
    n_seen = 0;
    if (wait_for(csn_warden_list(warden, on_seen, on_done, NULL)) < 0)
        return CSN_STATE_DELETING;
    for (int i = 0; i < n_seen; i++)
        if (strcmp(seen[i].id, id) == 0)
            return seen[i].state;
    return CSN_STATE_DELETED;
}

/* What `sh -c script` prints in the sandbox, by a borrowed line. */
static const char *output_of(const char *id, const char *script)
{
    static char text[512];
    const char *const argv[] = { "sh", "-c", script, NULL };
    csn_sandbox_options bo = { .size = sizeof(bo), .user = "daytona" };
    csn_process_options po = { .size = sizeof(po), .argv = argv };
    csn_sandbox *box = NULL;
    csn_run_result result = { 0 };
    csn_error err = { 0 };

    (void) snprintf(text, sizeof(text), "failed");
    if (wait_for(csn_warden_lend(warden, id, on_fd, NULL)) < 0)
        return text;
    if (csn_sandbox_borrow(engine, "test", &bo, got_fd, &box, &err) < 0) {
        csn_close(&got_fd);
        (void) snprintf(text, sizeof(text), "borrow: %s", err.message);
        return text;
    }
    got_fd = -1;
    if (csn_run(box, &po, &result, &err) < 0)
        (void) snprintf(text, sizeof(text), "run: %s", err.message);
    else
        (void) snprintf(text, sizeof(text), "%.*s", (int) result.out_len, result.out);
    csn_run_result_done(&result);
    csn_sandbox_free(box);
    return text;
}

static void tell_life(void)
{
    csn_box_spec spec = a_spec();
    char fork_id[37];

    check("create", wait_for(csn_warden_create(warden, &spec, on_done, NULL)) == CSN_OK);
    check("it is started", state_of(spec.id) == CSN_STATE_STARTED);
    check("a command runs over the line that came with create",
          csn_streq(output_of(spec.id, "echo hi; echo kept > ~/f"), "hi\n"));
    check("and over one that was asked for", csn_streq(output_of(spec.id, "echo ho"), "ho\n"));
    check("the same id again exists",
          wait_for(csn_warden_create(warden, &spec, on_done, NULL)) == CSN_E_EXISTS &&
              got_err.message[0]);
    check("resize",
          wait_for(csn_warden_resize(warden, spec.id, 300 << 20, 0, 0, on_done, NULL)) == CSN_OK);
    check("the disk of a started one stays",
          wait_for(csn_warden_resize(warden, spec.id, 0, 0, INT64_C(4) << 30, on_done, NULL)) ==
              CSN_E_STATE);
    check("stop", wait_for(csn_warden_stop(warden, spec.id, -1, on_done, NULL)) == CSN_OK);
    check("it is stopped", state_of(spec.id) == CSN_STATE_STOPPED);
    check("no line to a stopped one",
          wait_for(csn_warden_lend(warden, spec.id, on_fd, NULL)) == CSN_E_STATE && got_fd < 0);
    check("start", wait_for(csn_warden_start(warden, spec.id, on_done, NULL)) == CSN_OK);
    check("its files are there", csn_streq(output_of(spec.id, "cat ~/f"), "kept\n"));
    check("fork", csn_id_uuid(fork_id) == 0 &&
                      wait_for(csn_warden_fork(warden, spec.id, fork_id, on_done, NULL)) == CSN_OK);
    check("the copy has them too", csn_streq(output_of(fork_id, "cat ~/f"), "kept\n"));
    check("delete", wait_for(csn_warden_delete(warden, spec.id, on_done, NULL)) == CSN_OK);
    check("delete the copy", wait_for(csn_warden_delete(warden, fork_id, on_done, NULL)) == CSN_OK);
    check("both are gone", state_of(spec.id) == CSN_STATE_DELETED && n_seen == 0);
    check("deleting what is gone says so",
          wait_for(csn_warden_delete(warden, spec.id, on_done, NULL)) == CSN_E_NOT_FOUND);
}

static void tell_volumes(void)
{
    csn_box_spec spec = a_spec();
    char name[37];

    check("make a volume", csn_id_uuid(name) == 0 && wait_for(csn_warden_volume_create(
                                                         warden, name, on_done, NULL)) == CSN_OK);
    spec.is_ephemeral = true;
    spec.n_mounts = 1;
    (void) snprintf(spec.mounts[0].volume, sizeof(spec.mounts[0].volume), "%s", name);
    (void) snprintf(spec.mounts[0].path, sizeof(spec.mounts[0].path), "/data");
    (void) snprintf(spec.mounts[0].subpath, sizeof(spec.mounts[0].subpath), "a/b");
    check("create with it", wait_for(csn_warden_create(warden, &spec, on_done, NULL)) == CSN_OK);
    check("it is mounted", csn_streq(output_of(spec.id, "touch /data/x && ls /data"), "x\n"));
    check("a mounted one is busy",
          wait_for(csn_warden_volume_delete(warden, name, on_done, NULL)) == CSN_E_BUSY);
    check("delete the sandbox",
          wait_for(csn_warden_delete(warden, spec.id, on_done, NULL)) == CSN_OK);
    check("then the volume can go",
          wait_for(csn_warden_volume_delete(warden, name, on_done, NULL)) == CSN_OK);
    check("once",
          wait_for(csn_warden_volume_delete(warden, name, on_done, NULL)) == CSN_E_NOT_FOUND);
}

static void tell_images(void)
{
    csn_box_spec spec = a_spec(), again = a_spec();

    check("create", wait_for(csn_warden_create(warden, &spec, on_done, NULL)) == CSN_OK);
    check("write", csn_streq(output_of(spec.id, "echo deep > ~/g; echo w"), "w\n"));
    check("snapshot",
          wait_for(csn_warden_snapshot(warden, spec.id, "shot", on_done, NULL)) == CSN_OK);
    images[0] = '\0';
    check("list", wait_for(csn_warden_images(warden, on_image, on_done, NULL)) == CSN_OK &&
                      strstr(images, " host") && strstr(images, " shot"));
    (void) snprintf(again.image, sizeof(again.image), "shot");
    check("create from it", wait_for(csn_warden_create(warden, &again, on_done, NULL)) == CSN_OK);
    check("its files", csn_streq(output_of(again.id, "cat ~/g"), "deep\n"));
    check("in use", wait_for(csn_warden_image_delete(warden, "shot", on_done, NULL)) == CSN_E_BUSY);
    check("delete", wait_for(csn_warden_delete(warden, spec.id, on_done, NULL)) == CSN_OK &&
                        wait_for(csn_warden_delete(warden, again.id, on_done, NULL)) == CSN_OK);
    check("remove", wait_for(csn_warden_image_delete(warden, "shot", on_done, NULL)) == CSN_OK);
    (void) snprintf(again.image, sizeof(again.image), "shot");
    check("gone", wait_for(csn_warden_create(warden, &again, on_done, NULL)) == CSN_E_NOT_FOUND);
}

/* Forty at once: more than the line holds, all answered. */
static void count_done(int result, const csn_error *err, void *user)
{
    (void) err;
    *(int *) user += result == CSN_OK || result == CSN_E_NOT_FOUND;
}

static void tell_crowd(void)
{
    enum { N = 2000 };
    int64_t deadline = csn_deadline_in_ms(WAIT_MS);
    csn_box_spec spec = a_spec();
    int n_done = 0, r = 0;

    for (int i = 0; i < N && r == 0; i++)
        r = csn_warden_delete(warden, spec.id, count_done, &n_done);
    while (r == 0 && n_done < N && !csn_deadline_passed(deadline))
        (void) csn_loop_run_once(loop, deadline);
    check("two thousand asks at once are all answered", n_done == N);
}

static void tell_rights(void)
{
    csn_caps caps;

    check("the front is not root", geteuid() != 0 && getuid() != 0);
    check("it has no capability",
          csn_caps_get(&caps) == 0 && caps.permitted == 0 && caps.effective == 0);
    check("it holds the listening socket", csn_fd_cloexec(LISTEN_FD, true) == 0);
}

static void on_quit(void *user)
{
    (void) user;
    was_quit = true;
    csn_loop_stop(loop, 0);
}

static int stay(void)
{
    if (wait_for(csn_warden_ready(warden, on_done, NULL)) < 0)
        return 1;
    printf("ready %d\n", (int) getpid());
    (void) fflush(stdout);
    csn_warden_on_quit(warden, on_quit);
    return csn_loop_run(loop) < 0 || !was_quit;
}

static int misbehave(void)
{
    char text[64] = "GET / HTTP/1.1";
    char c;

    if (send(LINK_FD, text, sizeof(text), 0) < 0)
        return 1;
    if (recv(LINK_FD, &c, 1, 0) != 0)
        return 1;
    /* the line is closed, which a front that was taken over need not mind */
    (void) poll(NULL, 0, 10000);
    puts("still there");
    return 7;
}

static void on_lost(void *user)
{
    (void) user;
    _exit(9);
}

static void on_engine(csn_source *src, uint32_t events, void *user)
{
    (void) src;
    (void) events;
    (void) user;
    (void) csn_engine_dispatch(engine, 0, NULL);
}

int main(int argc, char **argv)
{
    csn_engine_options eo = { .size = sizeof(eo), .is_guest = 1 };
    const char *mode = argc > 2 ? argv[2] : "";

    if (csn_streq(mode, "--die"))
        return 5;
    if (csn_streq(mode, "--bad"))
        return misbehave();
    if (csn_loop_new(&loop) < 0 || csn_warden_open(loop, LINK_FD, on_lost, NULL, &warden) < 0 ||
        csn_engine_open(&eo, &engine, NULL) < 0 ||
        csn_loop_add(loop, csn_engine_fd(engine), EPOLLIN, on_engine, NULL, NULL) < 0)
        return 1;
    if (csn_streq(mode, "--wait"))
        return stay();
    tell_rights();
    tell_life();
    tell_volumes();
    tell_images();
    tell_crowd();
    printf("1..%d\n", n_tests);
    (void) fflush(stdout);
    csn_warden_free(warden);
    csn_engine_free(engine);
    csn_loop_free(loop);
    return n_failed ? 1 : 3;
}
