#include "story.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kern/caps.h"
#include "kern/overlay.h"
#include "kern/way.h"

static csn_engine *engine;
static char state[512];

bool is_rootless(void)
{
    the_state(); /* where privilege is dropped */
    return csn_way_find() != CSN_WAY_PRIVILEGED;
}

/* --- other machines: CSN_STORY_ON ----------------------------------------------------------------------------------- */

/* The state directory on a file system that can't map ids; an overlay can't be an upper layer either. */
static void mount_state(const char *top, const char *on)
{
    char options[2048], below[600];

    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        SKIP("user: not root, so nothing can be mounted");
    if (strcmp(on, "ramfs") == 0) {
        CHECK(mount("ramfs", state, "ramfs", 0, "mode=0700") == 0);
        return;
    }
    (void) snprintf(below, sizeof(below), "%s/below", top);
    CHECK(mkdir(below, 0755) == 0);
    if (csn_tmpfs_has_user_xattrs()) /* from Linux 6.6 on; else it lies on the disk, as a container's does */
        CHECK(mount("tmpfs", below, "tmpfs", 0, "mode=0755") == 0);
    CHECK(chdir(below) == 0 && mkdir("lower", 0700) == 0 && mkdir("upper", 0700) == 0 &&
          mkdir("work", 0700) == 0);
    (void) snprintf(options, sizeof(options), "lowerdir=lower,upperdir=upper,workdir=work");
    CHECK(mount("overlay", state, "overlay", 0, options) == 0);
    CHECK(chdir("/") == 0);
}

/* --- other users: CSN_STORY_AS -------------------------------------------------------------------------------------- */

enum { CONTAINER_BASE = 100000, CONTAINER_IDS = 65536 };

static bool write_map(pid_t pid, const char *file)
{
    char path[64];
    FILE *f;

    (void) snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, file);
    f = fopen(path, "w");
    return f && fprintf(f, "0 %d %d\n", CONTAINER_BASE, CONTAINER_IDS) > 0 && fclose(f) == 0;
}

/* The root of a user namespace with 65536 ids, as in LXC. A child of ours, who stays outside, writes the maps. */
static void become_container_root(void)
{
    int ready[2], status = -1;
    pid_t own = getpid(), pid;

    CHECK(chown(state, CONTAINER_BASE, CONTAINER_BASE) == 0 && pipe2(ready, O_CLOEXEC) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        char byte;
        close(ready[1]);
        _exit(read(ready[0], &byte, 1) != 0 || !write_map(own, "gid_map") ||
              !write_map(own, "uid_map"));
    }
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
        SKIP("kernel: no user namespace: %s", strerror(errno));
    close(ready[1]); /* go */
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    close(ready[0]);
    CHECK(setresgid(0, 0, 0) == 0 && setgroups(0, NULL) == 0 && setresuid(0, 0, 0) == 0);
}

/* Root with the capabilities of Docker's default, but without its filter. */
static void become_docker_root(void)
{
    const unsigned kept[] = { CAP_CHOWN,       CAP_DAC_OVERRIDE, CAP_FOWNER,
                              CAP_FSETID,      CAP_KILL,         CAP_SETGID,
                              CAP_SETUID,      CAP_SETPCAP,      CAP_NET_BIND_SERVICE,
                              CAP_NET_RAW,     CAP_SYS_CHROOT,   CAP_MKNOD,
                              CAP_AUDIT_WRITE, CAP_SETFCAP };
    uint64_t mask = 0;

    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        mask |= UINT64_C(1) << kept[i];
    CHECK_INT(csn_caps_keep(mask), 0);
}

/* The same stories without privilege: CSN_STORY_AS=nobody, or as a root that is not the machine's. */
static void drop_privilege(void)
{
    const char *as = getenv("CSN_STORY_AS");

    if (!as)
        return;
    if (strcmp(as, "nobody") != 0 && (geteuid() != 0 || csn_way_find() != CSN_WAY_PRIVILEGED))
        SKIP("user: not the machine's root");
    if (strcmp(as, "container") == 0) {
        become_container_root();
        (void) prctl(PR_SET_DUMPABLE,
                     1); /* else our own /proc/self/fd belongs to the machine's root */
        return;
    }
    if (strcmp(as, "docker") == 0) {
        become_docker_root();
        return;
    }
    if (geteuid() != 0)
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
    if (getenv("CSN_STORY_ON"))
        mount_state(top, getenv("CSN_STORY_ON"));
    drop_privilege();
    return state;
}

bool is_remote(void)
{
    return getenv("CSN_STORY_REMOTE") != NULL;
}

csn_engine *another_engine(void)
{
    csn_engine_options opts = { .size = sizeof(opts),
                                .state_dir = the_state(),
                                .libexec_dir = getenv("CSN_BUILD") };
    csn_engine *e = NULL;
    csn_error err = { 0 };

    if (is_remote()) {
        opts.remote_url = getenv("DAYTONA_API_URL");
        opts.remote_key = getenv("DAYTONA_API_KEY");
    }
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
    end.tv_sec += 10 * csn_test_slow();
    do {
        if (fn(user))
            return true;
        (void) poll(NULL, 0, 5);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < end.tv_sec);
    return fn(user);
}
