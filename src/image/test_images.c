/* Images and volumes with whole sandboxes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <caisson.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fault.h" /* csn_fault_arm */
#include "base/fd.h"
#include "base/time.h"
#include "csn_test.h"
#include "tar_maker.h"

#define BUSYBOX "/usr/bin/busybox"

static csn_engine *engine;
static csn_error err;

static char *at(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A path below this test's directory; a handful live at once. */
static char *at(const char *fmt, ...)
{
    static char paths[16][512];
    static unsigned next;
    char *path = paths[next++ % 16];
    int n = snprintf(path, 512, "%s/", csn_test_dir());
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(path + n, 512 - (size_t) n, fmt, args);
    va_end(args);
    return path;
}

static void close_engine(void *user)
{
    (void) user;
    engine = csn_engine_free(engine);
}

static void open_engine(void)
{
    csn_engine_options o = { .size = sizeof(o),
                             .state_dir = at("state"),
                             .libexec_dir = getenv("CSN_BUILD") };

    if (csn_engine_open(&o, &engine, &err) < 0)
        FAIL("%s", err.message);
    csn_test_defer(close_engine, NULL);
}

#define OK(call) ((call) == CSN_OK ? (void) 0 : FAIL("%s: %s", #call, err.message))

/* ---- looking ------------------------------------------------------------------------------------------------- */

/* Entries of a directory of the state; those that begin with '.' only when asked. */
static int count_in(const char *name, bool hidden)
{
    DIR *dir = opendir(at("state/%s", name));
    int n = 0;

    for (struct dirent *e; dir && (e = readdir(dir));) {
        bool is_dots = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;

        if (hidden ? strncmp(e->d_name, ".tmp-", 5) == 0 || strncmp(e->d_name, ".gone-", 6) == 0
                   : e->d_name[0] != '.' && strncmp(e->d_name, "host-", 5) != 0)
            n += !is_dots;
    }
    if (dir)
        closedir(dir);
    return n;
}

static void check_state(int n_images, int n_layers)
{
    CHECK_INT(count_in("images", false), n_images);
    CHECK_INT(count_in("layers", false), n_layers);
    CHECK_INT(count_in("images", true), 0);
    CHECK_INT(count_in("layers", true), 0);
    CHECK_INT(count_in("volumes", true), 0);
}

static csn_sandbox *a_sandbox(csn_sandbox_options o)
{
    csn_sandbox *box = NULL;

    o.size = sizeof(o);
    if (csn_sandbox_create(engine, &o, &box, &err) < 0)
        FAIL("create: %s", err.message);
    return box;
}
#define A_SANDBOX(...) a_sandbox((csn_sandbox_options){ __VA_ARGS__ })

static csn_sandbox *gone(csn_sandbox *box)
{
    OK(csn_sandbox_delete(box, &err));
    return csn_sandbox_free(box);
}

/* What a shell text prints, both streams. */
static const char *says(csn_sandbox *box, const char *shell)
{
    static char text[4096];
    csn_process_options o = { .size = sizeof(o), .shell = shell, .merge_stderr = 1 };
    csn_run_result result = { 0 };

    if (csn_run(box, &o, &result, &err) < 0)
        FAIL("%s: %s", shell, err.message);
    (void) snprintf(text, sizeof(text), "%s", result.out);
    csn_run_result_done(&result);
    return text;
}

/* ---- making -------------------------------------------------------------------------------------------------- */

static void need_busybox(void)
{
    if (access(BUSYBOX, X_OK) < 0)
        SKIP("'%s' is missing (Debian: busybox-static)", BUSYBOX);
}

static const char *make_tree(void)
{
    static const char *const names[] = { "sh", "ls", "cat", "id", "true", "echo" };
    static const char *const dirs[] = { "tree",      "tree/bin",  "tree/proc",
                                        "tree/dev",  "tree/tmp",  "tree/etc",
                                        "tree/root", "tree/home", "tree/home/daytona" };

    need_busybox();
    for (size_t i = 0; i < CSN_COUNT(dirs); i++)
        CHECK(mkdir(at("%s", dirs[i]), 0755) == 0);
    RUN("cp", BUSYBOX, at("tree/bin/busybox"));
    for (size_t i = 0; i < CSN_COUNT(names); i++)
        CHECK(symlink("busybox", at("tree/bin/%s", names[i])) == 0);
    RUN("sh", "-c",
        "echo this is an image > \"$0\"/etc/motto; cp \"$0\"/etc/motto \"$0\"/home/daytona",
        at("tree"));
    return at("tree");
}

static const char *make_oci(void)
{
    const char *source = getenv("CSN_SOURCE");
    char script[512];

    need_busybox();
    (void) snprintf(script, sizeof(script), "%s/tests/make-oci", source ? source : ".");
    RUN("python3", script, at("oci"), BUSYBOX);
    return at("oci");
}

/* Eight gigabytes of zeros that take no place. */
static const char *make_long_tar(void)
{
    tar_maker tar;

    tar_begin(&tar, at("long.tar"));
    TAR_ADD(&tar, .name = "zeros", .claims = INT64_C(8) << 30);
    CHECK(close(tar.fd) == 0);
    CHECK(truncate(at("long.tar"), 512 + (INT64_C(8) << 30) + 1024) == 0);
    return at("long.tar");
}

/* ---- stories ------------------------------------------------------------------------------------------------- */

typedef struct seen {
    int n;
    csn_image_info last;
    char names[128], source[32], env0[64], cwd[64];
} seen;

static void look(const csn_image_info *info, void *user)
{
    seen *s = user;
    size_t n = strlen(s->names);

    s->n++;
    s->last = *info;
    (void) snprintf(s->names + n, sizeof(s->names) - n, "%s ", info->name);
    (void) snprintf(s->source, sizeof(s->source), "%s", info->source);
    (void) snprintf(s->env0, sizeof(s->env0), "%s", info->env[0] ? info->env[0] : "");
    (void) snprintf(s->cwd, sizeof(s->cwd), "%s", info->cwd);
}

TEST(a_directory_becomes_an_image_and_runs)
{
    csn_sandbox *box;
    seen s = { 0 };

    open_engine();
    OK(csn_image_import(engine, "tiny", make_tree(), &err));
    OK(csn_image_inspect(engine, "tiny", look, &s, &err));
    CHECK_STR(s.source, "directory");
    CHECK_INT(s.last.n_layers, 1);
    CHECK_INT(s.last.is_host_based, 0);
    CHECK(s.last.size_bytes > 100000);
    box = A_SANDBOX(.image = "tiny", .is_ephemeral = 1);
    CHECK_STR(says(box, "cat /etc/motto"), "this is an image\n");
    CHECK_STR(says(box, "ls /usr/bin/python3 2>&1 | cat"),
              "ls: /usr/bin/python3: No such file or directory\n");
    gone(box);
}

TEST(images_are_listed_by_name_with_the_host_first)
{
    seen s = { 0 };

    open_engine();
    OK(csn_image_import(engine, "b", make_tree(), &err));
    OK(csn_image_import(engine, "a", at("tree"), &err));
    OK(csn_image_list(engine, look, &s, &err));
    CHECK_STR(s.names, "host a b ");
    CHECK_INT(csn_image_import(engine, "a", at("tree"), &err), CSN_E_EXISTS);
    CHECK_INT(csn_image_import(engine, "host", at("tree"), &err), CSN_E_EXISTS);
    CHECK_INT(csn_image_import(engine, "../a", at("tree"), &err), CSN_E_INVALID);
    CHECK_INT(csn_image_import(engine, "c", at("missing"), &err), CSN_E_NOT_FOUND);
    CHECK_INT(csn_image_inspect(engine, "c", look, &s, &err), CSN_E_NOT_FOUND);
    CHECK_INT(csn_image_remove(engine, "c", &err), CSN_E_NOT_FOUND);
    CHECK_INT(csn_image_remove(engine, "host", &err), CSN_E_INVALID);
    check_state(2, 2);
    OK(csn_image_remove(engine, "a", &err));
    check_state(1, 1);
    OK(csn_image_remove(engine, "b", &err));
    check_state(0, 0);
}

TEST(layers_of_an_oci_image_lie_on_each_other)
{
    csn_sandbox *box;
    seen s = { 0 };

    open_engine();
    OK(csn_image_import(engine, "oci", make_oci(), &err));
    OK(csn_image_inspect(engine, "oci", look, &s, &err));
    CHECK_STR(s.source, "oci");
    CHECK_INT(s.last.n_layers, 2);
    CHECK_STR(s.env0, "COLOR=blue");
    CHECK_STR(s.cwd, "/srv/work");
    box = A_SANDBOX(.image = "oci", .is_ephemeral = 1);
    CHECK_STR(says(box, "cat /etc/lower /etc/both"), "lower\nfrom above\n");
    CHECK_STR(says(box, "cat /etc/deleted 2>&1 | cat"),
              "cat: can't open '/etc/deleted': No such file or directory\n");
    CHECK_STR(says(box, "ls /opt/replaced"), "new\n");
    CHECK_STR(says(box, "ls /opt/merged"), "new\nold\n");
    CHECK_STR(says(box, "echo $COLOR"), "blue\n");
    gone(box);
}

TEST(two_names_share_layers_until_both_are_gone)
{
    open_engine();
    OK(csn_image_import(engine, "one", make_oci(), &err));
    RUN("tar", "cf", at("oci.tar"), "-C", at("oci"), ".");
    OK(csn_image_import(engine, "two", at("oci.tar"), &err));
    check_state(2, 2);
    OK(csn_image_remove(engine, "one", &err));
    check_state(1, 2);
    OK(csn_image_remove(engine, "two", &err));
    check_state(0, 0);
}

TEST(an_image_in_use_is_busy)
{
    csn_sandbox *box;

    open_engine();
    OK(csn_image_import(engine, "tiny", make_tree(), &err));
    box = A_SANDBOX(.image = "tiny");
    CHECK_INT(csn_image_remove(engine, "tiny", &err), CSN_E_BUSY);
    gone(box);
    OK(csn_image_remove(engine, "tiny", &err));
    check_state(0, 0);
}

TEST(what_one_sandbox_writes_the_image_does_not_see)
{
    csn_sandbox *one, *two;

    open_engine();
    OK(csn_image_import(engine, "tiny", make_tree(), &err));
    one = A_SANDBOX(.image = "tiny",
                    .user = geteuid() == 0 ? "root" : NULL); /* else all files are ours */
    CHECK_STR(says(one, "cd /home/daytona; echo changed > motto; cat motto"), "changed\n");
    two = A_SANDBOX(.image = "tiny", .is_ephemeral = 1);
    CHECK_STR(says(two, "cat /home/daytona/motto"), "this is an image\n");
    gone(one);
    gone(two);
}

TEST(a_snapshot_is_an_image_like_any_other)
{
    csn_sandbox *box;
    seen s = { 0 };

    open_engine();
    box = A_SANDBOX(.name = "first");
    CHECK_STR(says(box, "echo kept > ~/note"), "");
    OK(csn_sandbox_snapshot(box, "shot", &err));
    gone(box);
    OK(csn_image_inspect(engine, "shot", look, &s, &err));
    CHECK_STR(s.source, "snapshot");
    CHECK_INT(s.last.is_host_based, 1);
    OK(csn_engine_gc(engine, NULL, &err));
    box = A_SANDBOX(.image = "shot", .is_ephemeral = 1);
    CHECK_STR(says(box, "cat ~/note"), "kept\n");
    gone(box);
    OK(csn_image_remove(engine, "shot", &err));
    check_state(0, 0);
}

/* R7, CVE-2026-47766: an image may hold any mount target as a link to a place of the host. `linked` are links, the
 * others are directories; the sandbox starts or is refused, and nothing shows outside. */
static void try_links(const char *image, const char *const *linked, size_t n_linked)
{
    csn_sandbox_options o = { .size = sizeof(o), .image = image, .is_ephemeral = 1 };
    csn_auto(buf) csn_buf before = CSN_BUF_INIT, after = CSN_BUF_INIT;
    csn_sandbox *box = NULL;

    CHECK(mkdir(at("canary"), 0777) == 0 && chmod(at("canary"), 0777) == 0);
    CHECK(mkdir(at("%s", image), 0755) == 0 && mkdir(at("%s/bin", image), 0755) == 0);
    RUN("cp", BUSYBOX, at("%s/bin/sh", image));
    for (size_t i = 0; i < n_linked; i++)
        CHECK(symlink(at("canary"), at("%s/%s", image, linked[i])) == 0);
    OK(csn_image_import(engine, image, at("%s", image), &err));
    CHECK_INT(csn_read_file(AT_FDCWD, "/proc/self/mountinfo", &before, 4 << 20), 0);
    if (csn_sandbox_create(engine, &o, &box, &err) == CSN_OK) {
        says(box,
             "for d in proc dev dev/shm tmp etc home run var root; do echo evil > /$d/evil; done");
        gone(box);
        csn_test_note("%s: started", image);
    } else {
        csn_test_note("%s: refused: %s", image, err.message);
    }
    CHECK_INT(csn_read_file(AT_FDCWD, "/proc/self/mountinfo", &after, 4 << 20), 0);
    CHECK_STR(after.data, before.data);
    CHECK(rmdir(at("canary")) == 0); /* nothing came into it */
}

TEST(an_image_of_links_mounts_nothing_on_the_host)
{
    static const char *const targets[] = { "proc", "dev", "tmp", "etc",  "home",
                                           "sys",  "run", "var", "root", "usr" };
    char image[32];

    need_busybox();
    open_engine();
    try_links("all", targets, CSN_COUNT(targets));
    for (size_t i = 0; i < CSN_COUNT(targets); i++) {
        (void) snprintf(image, sizeof(image), "only-%s", targets[i]);
        try_links(image, &targets[i], 1);
    }
}

/* ---- imports that don't come to their end ------------------------------------------------------------------------ */

typedef struct ending {
    int n, result;
    csn_error err;
} ending;

static void on_done(int result, const csn_error *e, void *user)
{
    ending *end = user;

    end->n++;
    end->result = result;
    if (e)
        end->err = *e;
}

static void run_until(const int *n, int want)
{
    int64_t deadline = csn_deadline_in_ms(30000);

    while (*n < want && !csn_deadline_passed(deadline))
        CHECK(csn_engine_dispatch(engine, 1000, &err) >= 0);
    CHECK_INT(*n, want);
}

TEST(a_broken_archive_leaves_nothing)
{
    open_engine();
    make_tree();
    RUN("tar", "czf", at("t.tgz"), "-C", at("tree"), ".");
    CHECK(truncate(at("t.tgz"), 5000) == 0);
    CHECK_INT(csn_image_import(engine, "cut", at("t.tgz"), &err), CSN_E_INVALID);
    CHECK(strstr(err.message, "import image 'cut': "));
    check_state(0, 0);
}

TEST(imports_run_side_by_side)
{
    ending a = { 0 }, b = { 0 };

    open_engine();
    OK(csn_image_import_start(engine, "a", make_tree(), on_done, &a, &err));
    OK(csn_image_import_start(engine, "b", at("tree"), on_done, &b, &err));
    run_until(&a.n, 1);
    run_until(&b.n, 1);
    CHECK_INT(a.result, CSN_OK);
    CHECK_INT(b.result, CSN_OK);
    check_state(2, 2);
}

TEST(of_two_imports_for_one_name_one_wins)
{
    ending a = { 0 }, b = { 0 };

    open_engine();
    OK(csn_image_import_start(engine, "same", make_tree(), on_done, &a, &err));
    OK(csn_image_import_start(engine, "same", at("tree"), on_done, &b, &err));
    run_until(&a.n, 1);
    run_until(&b.n, 1);
    CHECK((a.result == CSN_OK) != (b.result == CSN_OK));
    CHECK_INT(a.result + b.result, CSN_E_EXISTS);
    OK(csn_engine_gc(engine, NULL, &err));
    check_state(1, 1);
}

TEST(an_import_ends_with_its_engine)
{
    ending end = { 0 };

    open_engine();
    OK(csn_image_import_start(engine, "long", make_long_tar(), on_done, &end, &err));
    CHECK(csn_engine_dispatch(engine, 50, &err) >= 0);
    engine = csn_engine_free(engine);
    CHECK_INT(end.n, 1);
    CHECK_INT(end.result, CSN_E_CANCELLED);
    check_state(0, 0);
}

/* The one child of this process. */
static pid_t our_child(void)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    char path[64];

    (void) snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int) getpid());
    if (csn_read_file(AT_FDCWD, path, &text, 4096) < 0)
        SKIP("this kernel doesn't list a process's children");
    return (pid_t) strtol(text.data, NULL, 10);
}

TEST(an_import_whose_helper_is_killed_leaves_nothing)
{
    ending end = { 0 };

    open_engine();
    OK(csn_image_import_start(engine, "long", make_long_tar(), on_done, &end, &err));
    CHECK(csn_engine_dispatch(engine, 50, &err) >= 0);
    CHECK(our_child() > 1);
    CHECK(kill(our_child(), SIGKILL) == 0);
    run_until(&end.n, 1);
    CHECK_INT(end.result, CSN_E_SYSTEM);
    CHECK_STR(end.err.message, "import image 'long': caisson-unpack was killed by signal 9");
    check_state(0, 0);
}

static void interrupt(int sig)
{
    (void) sig;
    csn_engine_interrupt(engine);
}

TEST(an_import_can_be_interrupted)
{
    struct sigaction act = { .sa_handler = interrupt };

    open_engine();
    CHECK(sigaction(SIGALRM, &act, NULL) == 0);
    (void) alarm(1);
    CHECK_INT(csn_image_import(engine, "long", make_long_tar(), &err), CSN_E_CANCELLED);
    check_state(0, 0);
}

/* The helper's directory is its own until it ends; then a sweep takes what it left. */
TEST(an_import_of_a_killed_client_is_swept)
{
    int64_t deadline = csn_deadline_in_ms(20000);
    pid_t pid;

    make_long_tar();
    pid = fork();
    if (pid == 0) {
        ending end = { 0 };
        csn_engine_options o = { .size = sizeof(o),
                                 .state_dir = at("state"),
                                 .libexec_dir = getenv("CSN_BUILD") };

        if (csn_engine_open(&o, &engine, NULL) < 0 ||
            csn_image_import_start(engine, "long", at("long.tar"), on_done, &end, NULL) < 0)
            _exit(1);
        (void) csn_engine_dispatch(engine, 50, NULL);
        (void) kill(getpid(), SIGKILL);
    }
    CHECK(pid > 0);
    CHECK(waitpid(pid, NULL, 0) == pid);
    open_engine();
    while (count_in("layers", true) > 0 && !csn_deadline_passed(deadline)) {
        OK(csn_engine_gc(engine, NULL, &err));
        (void) poll(NULL, 0, 10); /* a look every 10 ms, until the deadline */
    }
    check_state(0, 0);
}

/* ---- with the k-th call failing ------------------------------------------------------------------------------------ */

#ifdef CSN_TEST_HOOKS

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

typedef int verb_fn(void);

/* Fails the first, the second, … checked call of a verb until it gets through untouched; `undo` brings the state back
 * after a success. */
static void fail_each(verb_fn *verb, verb_fn *undo, int n_images, int n_layers)
{
    int n_fds = count_fds();

    for (long k = 1; k < 2000; k++) {
        const char *site;
        int r;

        csn_fault_arm(k);
        r = verb();
        site = csn_fault_fired();
        csn_fault_arm(0);
        if (r == CSN_OK)
            OK(undo());
        OK(csn_engine_gc(engine, NULL, &err));
        check_state(n_images, n_layers);
        if (count_fds() != n_fds)
            FAIL("call %ld (%s): %d descriptors, there were %d", k, site, count_fds(), n_fds);
        if (!site) {
            CHECK_INT(r, CSN_OK);
            csn_test_note("%ld calls", k - 1);
            return;
        }
    }
    FAIL("it never got through");
}

static int import_tiny(void)
{
    return csn_image_import(engine, "tiny", at("tree"), &err);
}

static int remove_tiny(void)
{
    return csn_image_remove(engine, "tiny", &err);
}

static int create_volume(void)
{
    return csn_volume_create(engine, "v", &err);
}

static int remove_volume(void)
{
    return csn_volume_remove(engine, "v", &err);
}

static void prepare_faults(void)
{
    open_engine();
    make_tree();
    OK(import_tiny()); /* the host's base and all directories are there */
    OK(remove_tiny());
    gone(A_SANDBOX(.is_ephemeral = 1)); /* what an engine keeps open for keepers is open */
}

TEST_TIMEOUT(an_import_that_fails_anywhere_leaves_nothing, 120)
{
    prepare_faults();
    fail_each(import_tiny, remove_tiny, 0, 0);
}

TEST_TIMEOUT(a_removal_that_fails_anywhere_can_be_done_again, 120)
{
    prepare_faults();
    OK(import_tiny());
    fail_each(remove_tiny, import_tiny, 1, 1);
}

TEST_TIMEOUT(a_volume_that_fails_anywhere_leaves_nothing, 120)
{
    prepare_faults();
    fail_each(create_volume, remove_volume, 0, 0);
    CHECK_INT(count_in("volumes", false), 0);
}

#endif

/* ---- volumes ----------------------------------------------------------------------------------------------------- */

typedef struct volume_seen {
    int n;
    csn_volume_info last;
} volume_seen;

static void look_volume(const csn_volume_info *info, void *user)
{
    volume_seen *s = user;

    s->n++;
    s->last = *info;
}

TEST(a_volume_outlives_its_sandboxes)
{
    csn_mount mount = { .volume = "data", .path = "/data" };
    volume_seen s = { 0 };
    csn_sandbox *one, *two;

    open_engine();
    OK(csn_volume_create(engine, "data", &err));
    CHECK_INT(csn_volume_create(engine, "data", &err), CSN_E_EXISTS);
    one = A_SANDBOX(.mounts = &mount, .n_mounts = 1, .is_ephemeral = 1);
    CHECK_STR(says(one, "echo hello > /data/note; id -u"), "1000\n");
    two = A_SANDBOX(.mounts = &mount, .n_mounts = 1, .is_ephemeral = 1);
    CHECK_STR(says(two, "cat /data/note"), "hello\n");
    OK(csn_volume_inspect(engine, "data", look_volume, &s, &err));
    CHECK_INT(s.last.n_users, 2);
    CHECK_INT(s.last.n_files, 1);
    CHECK_INT(csn_volume_remove(engine, "data", &err), CSN_E_BUSY);
    gone(one);
    gone(two);
    OK(csn_volume_list(engine, look_volume, &s, &err));
    CHECK_INT(s.n, 2);
    CHECK_INT(s.last.n_users, 0);
    OK(csn_volume_remove(engine, "data", &err));
    CHECK_INT(csn_volume_inspect(engine, "data", look_volume, &s, &err), CSN_E_NOT_FOUND);
    CHECK_INT(csn_volume_remove(engine, "data", &err), CSN_E_NOT_FOUND);
    CHECK_INT(count_in("volumes", false), 0);
}

/* Without privilege such files belong to ids that aren't the caller's. */
TEST(what_root_inside_wrote_can_be_removed)
{
    csn_mount mount = { .volume = "data", .path = "/data" };
    csn_sandbox_options o = { .size = sizeof(o), .user = "root", .mounts = &mount, .n_mounts = 1 };
    csn_sandbox *box = NULL;

    open_engine();
    OK(csn_volume_create(engine, "data", &err));
    if (csn_sandbox_create(engine, &o, &box, &err) < 0) {
        csn_test_note("no root inside here: %s", err.message);
        return;
    }
    CHECK_STR(says(box, "mkdir -p /data/d /srv/d && touch /data/d/f /srv/d/f && "
                        "chown -R 33:33 /data/d /srv/d && chmod 700 /data/d /srv/d"),
              "");
    OK(csn_sandbox_snapshot(box, "shot", &err));
    gone(box);
    OK(csn_volume_remove(engine, "data", &err));
    OK(csn_image_remove(engine, "shot", &err));
    check_state(0, 0);
    CHECK_INT(count_in("volumes", false), 0);
}

TEST(a_read_only_volume_is_one_and_a_subpath_is_a_part)
{
    csn_mount mounts[] = {
        { .volume = "data", .path = "/all" },
        { .volume = "data", .path = "/part", .subpath = "a/b", .is_read_only = 1 }
    };
    csn_sandbox *box;

    open_engine();
    OK(csn_volume_create(engine, "data", &err));
    box = A_SANDBOX(.mounts = mounts, .n_mounts = 2, .is_ephemeral = 1);
    CHECK_STR(
        says(box, "echo x > /all/a/b/f; cat /part/f; echo y 2>/dev/null > /part/g || echo refused"),
        "x\nrefused\n");
    gone(box);
}

TEST(names_of_volumes_are_checked)
{
    static const char *const bad[] = { "", ".", "..", "a/b", "-x", ".hidden", "a b", "\xc3\xa4" };

    open_engine();
    for (size_t i = 0; i < CSN_COUNT(bad); i++) {
        CHECK_INT(csn_volume_create(engine, bad[i], &err), CSN_E_INVALID);
        CHECK_INT(csn_volume_remove(engine, bad[i], &err), CSN_E_INVALID);
    }
    CHECK_INT(csn_volume_create(engine, NULL, &err), CSN_E_INVALID);
}
