#include "story.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static csn_engine *engine;
static char state[512];

bool is_rootless(void)
{
    the_state(); /* where privilege is dropped */
    return geteuid() != 0;
}

/* The same stories without privilege: CSN_STORY_AS=nobody. */
static void drop_privilege(void)
{
    const char *as = getenv("CSN_STORY_AS");

    if (!as || geteuid() != 0)
        return;
    if (chown(state, 65534, 65534) < 0 || setgroups(0, NULL) < 0 || setgid(65534) < 0 ||
        setuid(65534) < 0)
        SKIP("becoming nobody: %s", strerror(errno));
    (void) prctl(PR_SET_DUMPABLE, 1); /* else our own /proc/self/fd belongs to root */
}

const char *the_state(void)
{
    if (state[0])
        return state;
    const char *top = csn_test_dir();
    if (getenv("CSN_STORY_AS") && geteuid() == 0) { /* the way there must be open to it */
        (void) snprintf(state, sizeof(state), "%s/..", top);
        CHECK(chmod(top, 0711) == 0 && chmod(state, 0711) == 0);
    }
    (void) snprintf(state, sizeof(state), "%s/state", top);
    CHECK(mkdir(state, 0700) == 0);
    drop_privilege();
    return state;
}

csn_engine *another_engine(void)
{
    csn_engine_options opts = { .size = sizeof(opts),
                                .state_dir = the_state(),
                                .libexec_dir = getenv("CSN_BUILD") };
    csn_engine *e = NULL;
    csn_error err = { 0 };

    if (csn_engine_open(&opts, &e, &err) < 0)
        FAIL("open an engine: %s", err.message);
    return e;
}

void close_the_engine(void)
{
    engine = csn_engine_free(engine);
}

static void close_at_end(void *user)
{
    (void) user;
    close_the_engine();
}

csn_engine *the_engine(void)
{
    if (!engine) {
        engine = another_engine();
        csn_test_defer(close_at_end, NULL);
    }
    return engine;
}

static void free_sandbox(void *user)
{
    csn_sandbox_free(user);
}

csn_sandbox *make_sandbox(csn_sandbox_options opts)
{
    csn_sandbox *box = NULL;
    csn_error err = { 0 };

    if (csn_sandbox_create(the_engine(), &opts, &box, &err) < 0)
        FAIL("create a sandbox: %s", err.message);
    csn_test_defer(free_sandbox, box);
    return box;
}

static void free_result(void *user)
{
    csn_run_result_done(user);
    free(user);
}

const csn_run_result *run_with(csn_sandbox *box, csn_process_options opts)
{
    csn_run_result *result = calloc(1, sizeof(*result));
    csn_error err = { 0 };

    CHECK(result != NULL);
    csn_test_defer(free_result, result);
    if (csn_run(box, &opts, result, &err) < 0)
        FAIL("run '%s': %s", opts.shell ? opts.shell : opts.argv[0], err.message);
    return result;
}

const char *ending(const csn_run_result *result)
{
    static char text[64];
    const csn_receipt *r = &result->receipt;

    if (r->ended == CSN_ENDED_EXIT)
        (void) snprintf(text, sizeof(text), "exit %d", r->exit_code);
    else if (r->ended == CSN_ENDED_SIGNAL)
        (void) snprintf(text, sizeof(text), "signal %d", r->signal);
    else
        (void) snprintf(text, sizeof(text), "%s", csn_ending_name(r->ended));
    return text;
}

static int count_in(const char *place, const char *part)
{
    char path[600];
    int n = 0;

    (void) snprintf(path, sizeof(path), "%s/%s%s", the_state(), place, part);
    DIR *dir = opendir(path);
    if (!dir)
        return 0;
    for (struct dirent *e; (e = readdir(dir));)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void count_one(const csn_sandbox_info *info, void *user)
{
    (void) info;
    ++*(int *) user;
}

int count_sandboxes(csn_engine *of)
{
    int n = 0;

    OK(csn_sandbox_list(of, count_one, &n, err));
    return n;
}

int count_entries(const char *part)
{
    return count_in("", part) + count_in("run/", part);
}

static const char *wanted_id;
static int n_found;

static int look(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void) st;
    (void) at;
    const char *slash = strrchr(path, '/');
    n_found += kind == FTW_D && slash && strstr(slash + 1, wanted_id) != NULL;
    return 0;
}

int count_cgroups(const char *id)
{
    wanted_id = id;
    n_found = 0;
    (void) nftw("/sys/fs/cgroup", look, 16, FTW_PHYS);
    return n_found;
}

bool until(bool (*fn)(void *user), void *user)
{
    struct timespec now, end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += 10;
    do {
        if (fn(user))
            return true;
        (void) poll(NULL, 0, 5);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < end.tv_sec);
    return fn(user);
}
