/* SPDX-License-Identifier: Apache-2.0 */
/* Kill -9 of client, keeper and init at random moments: nothing leaks, nothing acknowledged is lost, and the list tells
 * the truth. A child process plays the client; it writes a line to a pipe for every sandbox it was promised. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <caisson.h>

#include "csn_test.h"
#include "world.h"

static int n_kills(void)
{
    const char *n = getenv("CSN_KILLS"), *level = getenv("CSN_LEVEL");

    if (n)
        return (int) strtol(n, NULL, 10);
    return level && strcmp(level, "full") == 0 ? 200 : 60; /* ./check deep kills does more */
}

static csn_engine *an_engine(void)
{
    csn_engine *engine = NULL;
    csn_error err = { 0 };
    if (csn_engine_open(NULL, &engine, &err) < 0)
        FAIL("%s", err.message);
    return engine;
}

static void use_once(csn_engine *engine, int is_detached)
{
    csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1, .is_detached = is_detached };
    csn_sandbox *box = NULL;
    if (csn_sandbox_create(engine, &o, &box, NULL) < 0)
        return;
    csn_run_result result = { 0 };
    csn_process_options p = { .size = sizeof(p), .shell = "echo x > f; sleep 0.01 & true" };
    if (csn_run(box, &p, &result, NULL) == 0)
        csn_run_result_done(&result);
    csn_sandbox_delete(box, NULL);
    csn_sandbox_free(box);
}

static pid_t a_client(void (*body)(int promise_fd), int *ret_promises)
{
    int p[2];
    CHECK(pipe2(p, O_CLOEXEC) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(p[0]);
        body(p[1]);
        _exit(0);
    }
    close(p[1]);
    *ret_promises = p[0];
    return pid;
}

static void nap_us(long us)
{
    nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

static void uses_and_uses(int promise_fd)
{
    csn_engine *engine = NULL;
    (void) promise_fd;
    if (csn_engine_open(NULL, &engine, NULL) < 0)
        _exit(1);
    for (;;)
        use_once(engine, 0);
}

TEST_TIMEOUT(a_client_killed_at_any_moment_leaves_nothing, 300)
{
    world before;
    world_state_dir();
    csn_engine_free(an_engine()); /* lays out the state directory */
    world_take(&before);
    for (int i = 0; i < n_kills(); i++) {
        int promises;
        pid_t pid = a_client(uses_and_uses, &promises);
        nap_us(500 + random() % 12000);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(promises);
        if (i % 20 == 19) {
            csn_engine_free(an_engine()); /* the next client sweeps */
            CHECK(world_is_again(&before, 5000));
        }
    }
    csn_engine_free(an_engine());
    CHECK(world_is_again(&before, 5000));
}

static void creates_named(int promise_fd)
{
    csn_engine *engine = NULL;
    if (csn_engine_open(NULL, &engine, NULL) < 0)
        _exit(1);
    for (int i = 0;; i++) {
        char name[64];
        snprintf(name, sizeof(name), "box-%d-%d", getpid(), i);
        const char *labels[] = { "kept=yes", NULL };
        csn_sandbox_options o = { .size = sizeof(o), .name = name, .is_detached = 1, .labels = labels };
        csn_sandbox *box = NULL;
        if (csn_sandbox_create(engine, &o, &box, NULL) < 0)
            _exit(2);
        if (csn_file_put(box, "promise", name, strlen(name), 0644, NULL) < 0)
            _exit(3);
        dprintf(promise_fd, "%s\n", name);
        csn_sandbox_free(box);
    }
}

static void promise_is_kept(csn_engine *engine, const char *name)
{
    csn_sandbox *box = NULL;
    csn_error err = { 0 };
    char *data = NULL;
    size_t len = 0;
    if (csn_sandbox_open(engine, name, &box, &err) < 0)
        FAIL("%s was promised: %s", name, err.message);
    csn_sandbox_info info;
    CHECK_INT(csn_sandbox_inspect(box, &info, NULL), 0);
    CHECK_INT(info.state, CSN_STATE_STARTED);
    CHECK_STR(info.labels[0], "kept=yes");
    if (csn_file_get(box, "promise", 0, &data, &len, &err) < 0)
        FAIL("the file of %s: %s", name, err.message);
    CHECK_MEM(data, len, name, strlen(name));
    free(data);
    CHECK_INT(csn_sandbox_delete(box, &err), 0);
    csn_sandbox_free(box);
}

static void delete_rest(const csn_sandbox_info *info, void *user)
{
    csn_sandbox *box = NULL;
    char id[40];
    snprintf(id, sizeof(id), "%s", info->id);
    if (csn_sandbox_open(user, id, &box, NULL) == 0)
        csn_sandbox_delete(box, NULL);
    csn_sandbox_free(box);
}

TEST_TIMEOUT(what_a_killed_client_was_promised_is_there, 300)
{
    world before;
    world_state_dir();
    csn_engine_free(an_engine());
    world_take(&before);
    for (int i = 0; i < n_kills() / 4; i++) {
        int promises;
        pid_t pid = a_client(creates_named, &promises);
        nap_us(2000 + random() % 30000);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        csn_engine *engine = an_engine();
        FILE *f = fdopen(promises, "r");
        char line[64];
        while (fgets(line, sizeof(line), f)) {
            line[strcspn(line, "\n")] = '\0';
            promise_is_kept(engine, line);
        }
        fclose(f);
        csn_sandbox_list(engine, delete_rest, engine, NULL); /* made but not yet promised: legal, and listed */
        csn_engine_free(engine);
        if (i % 10 == 9)
            CHECK(world_is_again(&before, 5000));
    }
    CHECK(world_is_again(&before, 5000));
}

/* Kills what `pid_of` names at a random moment of a sandbox's life; the client must see an end, not a hang. */
static void kill_one(csn_engine *engine, int is_keeper, int is_detached)
{
    csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1, .is_detached = is_detached };
    csn_sandbox *box = NULL;
    csn_sandbox_info info;
    csn_process *process = NULL;
    csn_error err = { 0 };
    if (csn_sandbox_create(engine, &o, &box, &err) < 0)
        FAIL("%s", err.message);
    CHECK_INT(csn_sandbox_inspect(box, &info, NULL), 0);
    pid_t victim = is_keeper ? info.keeper_pid : info.init_pid;
    CHECK(victim > 1);
    csn_process_options p = { .size = sizeof(p), .shell = "echo x > f; sleep 1000 & exec sleep 1000" };
    int is_first = (int) (random() % 2);
    if (is_first)
        kill(victim, SIGKILL);
    int r = csn_process_start(box, &p, &process, &err);
    if (!is_first) {
        nap_us(random() % 3000);
        kill(victim, SIGKILL);
    }
    if (r == 0) {
        csn_receipt receipt;
        r = csn_process_wait(process, 5000, &receipt, &err);
        if (r == 0)
            CHECK(receipt.ended == CSN_ENDED_LOST || receipt.ended == CSN_ENDED_KILLED);
        else
            CHECK_INT(r, CSN_E_LOST);
    }
    csn_process_free(process);
    if (csn_sandbox_delete(box, &err) < 0)
        FAIL("%s", err.message);
    csn_sandbox_free(box);
}

static void kill_many(int is_keeper)
{
    world before;
    world_state_dir();
    csn_engine *engine = an_engine();
    use_once(engine, 0);
    csn_engine_free(engine);
    world_take(&before);
    engine = an_engine();
    for (int i = 0; i < n_kills(); i++)
        kill_one(engine, is_keeper, i % 2);
    csn_engine_free(engine);
    if (is_keeper)
        csn_engine_free(an_engine()); /* sweeps what nobody could clean up */
    CHECK(world_is_again(&before, 5000));
}

TEST_TIMEOUT(a_keeper_killed_at_any_moment_leaves_nothing, 300)
{
    kill_many(1);
}

TEST_TIMEOUT(an_init_killed_at_any_moment_leaves_nothing, 300)
{
    kill_many(0);
}
