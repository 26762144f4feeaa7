/* Records, layers and trees on disk, without an engine. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "csn_test.h"
#include "image/boxes.h"
#include "image/hostbase.h"
#include "image/image.h"
#include "image/record.h"
#include "image/tree.h"
#include "owner.h"

#define LAYER_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define LAYER_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define BOX     "0123456789abcdef0123456789abcdef"

static csn_error err;

static int open_state(void)
{
    int fd = open(csn_test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    CHECK(fd >= 0);
    return fd;
}

static void make_layer(int state, const char *id)
{
    char path[128];

    (void) mkdirat(state, "layers", 0700); /* may be there */
    (void) snprintf(path, sizeof(path), "layers/%s", id);
    CHECK(mkdirat(state, path, 0755) == 0);
    (void) snprintf(path, sizeof(path), "layers/%s/root", id);
    CHECK(mkdirat(state, path, 0755) == 0);
}

static void write_at(int dirfd, const char *path, const char *text)
{
    csn_auto(fd) int fd = openat(dirfd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    CHECK_INT(csn_write_all(fd, text, strlen(text)), 0);
}

static void make_box(int state, const char *record)
{
    (void) mkdirat(state, "boxes", 0700); /* may be there */
    (void) mkdirat(state, "boxes/" BOX, 0700);
    write_at(state, "boxes/" BOX "/record", record);
}

static bool has(int dirfd, const char *path)
{
    return faccessat(dirfd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int put(int state, const char *name, const char *layer)
{
    csn_image_ref ref = { .n_layers = 1 };

    (void) snprintf(ref.layers[0], sizeof(ref.layers[0]), "%s", layer);
    return csn_image_put(state, name, &ref, "tar", &err);
}

static uint32_t sweep(int state)
{
    uint32_t n = 0;

    CHECK_INT(csn_layer_sweep(state, NULL, NULL, &n, &err), CSN_OK);
    return n;
}

TEST(a_record_is_read_as_it_was_written)
{
    csn_auto(image_record) csn_image_record got = CSN_IMAGE_RECORD_INIT;
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    char one[] = "A=1", two[] = "B=x=y", cwd[] = "/srv", empty[] = "", user[] = "101";
    char *env[] = { one, two, NULL }, *entrypoint[] = { cwd, empty, NULL }, *cmd[] = { one, NULL };
    csn_image_record rec = { .ref = { .layers = { LAYER_A, LAYER_B, "host-0123456789abcdef" },
                                      .n_layers = 3,
                                      .is_host_based = 1,
                                      .env = env,
                                      .cwd = cwd,
                                      .entrypoint = entrypoint,
                                      .cmd = cmd,
                                      .user = user },
                             .source = "snapshot",
                             .size_bytes = 7,
                             .created_ms = 8 };

    CHECK_INT(csn_image_record_write("name", &rec, &text), 0);
    CHECK_INT(csn_image_record_read(text.data, text.len, &got), 0);
    CHECK_INT(got.ref.n_layers, 2); /* the host's base is found afresh each time */
    CHECK_STR(got.ref.layers[0], LAYER_A);
    CHECK_STR(got.ref.layers[1], LAYER_B);
    CHECK_INT(got.ref.is_host_based, 1);
    CHECK_STR(got.ref.env[1], "B=x=y");
    CHECK(got.ref.env[2] == NULL);
    CHECK_STR(got.ref.cwd, "/srv");
    CHECK_STR(got.ref.entrypoint[0], "/srv");
    CHECK_STR(got.ref.entrypoint[1], "");
    CHECK(got.ref.entrypoint[2] == NULL);
    CHECK_STR(got.ref.cmd[0], "A=1");
    CHECK(got.ref.cmd[1] == NULL);
    CHECK_STR(got.ref.user, "101");
    CHECK_STR(got.source, "snapshot");
    CHECK_INT(got.size_bytes, 7);
    CHECK_INT(got.created_ms, 8);
}

TEST(a_record_that_is_none_is_refused)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "{\"source\":\"tar\",\"layers\":[]}",
        "{\"source\":\"tar\",\"layers\":[\"../../etc\"]}",
        "{\"source\":\"tar\",\"layers\":[\"host-0123456789abcdef\"]}",
        "{\"source\":\"tar\",\"layers\":[7]}",
        "{\"source\":\"tar\",\"layers\":[\"" LAYER_A "\"],\"env\":[\"none\"]}",
        "{\"source\":\"tar\",\"layers\":[\"" LAYER_A "\"],\"cwd\":\"relative\"}",
        "{\"source\":\"tar\",\"layers\":[\"" LAYER_A "\"],\"cmd\":[7]}",
        "{\"source\":\"a word far too long for a source\",\"layers\":[\"" LAYER_A "\"]}",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        csn_image_record rec = CSN_IMAGE_RECORD_INIT;

        CHECK_INT(csn_image_record_read(bad[i], strlen(bad[i]), &rec), -EBADMSG);
    }
}

TEST(a_name_is_given_once)
{
    csn_auto(image_ref) csn_image_ref ref = CSN_IMAGE_REF_INIT;
    csn_auto(fd) int state = open_state();

    make_layer(state, LAYER_A);
    CHECK_INT(put(state, "py", LAYER_A), CSN_OK);
    CHECK_INT(put(state, "py", LAYER_A), CSN_E_EXISTS);
    CHECK_INT(put(state, "host", LAYER_A), CSN_E_EXISTS);
    CHECK_INT(put(state, "../py", LAYER_A), CSN_E_INVALID);
    CHECK_INT(put(state, "other", LAYER_B), CSN_E_NOT_FOUND);
    CHECK_INT(csn_image_resolve(state, "py", &ref, &err), CSN_OK);
    CHECK_INT(ref.n_layers, 1);
    CHECK_STR(ref.layers[0], LAYER_A);
    CHECK_INT(csn_image_resolve(state, "nothing", &ref, &err), CSN_E_NOT_FOUND);
    CHECK_INT(csn_image_resolve(state, "a/b", &ref, &err), CSN_E_INVALID);
}

TEST(the_host_is_an_image_with_a_base_of_its_own)
{
    csn_auto(image_ref) csn_image_ref ref = CSN_IMAGE_REF_INIT;
    csn_auto(fd) int state = open_state(), root = -1;
    char path[128], again[65];
    struct stat st;

    CHECK_INT(csn_image_resolve(state, NULL, &ref, &err), CSN_OK);
    CHECK_INT(ref.n_layers, 1);
    CHECK_INT(ref.is_host_based, 1);
    CHECK(csn_layer_is_host(ref.layers[0]));
    CHECK_INT(csn_hostbase_prepare(state, again, &err), CSN_OK);
    CHECK_STR(again, ref.layers[0]);
    (void) snprintf(path, sizeof(path), "layers/%s/root", ref.layers[0]);
    root = openat(state, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(root >= 0);
    CHECK(has(root, "etc/passwd") && has(root, "etc/ld.so.cache") && has(root, "usr"));
    CHECK(fstatat(root, "tmp", &st, 0) == 0 && (st.st_mode & 07777) == 01777);
    CHECK(fstatat(root, "home/daytona", &st, 0) == 0);
    CHECK_INT(st.st_uid, owner_for(1000));
}

TEST(nothing_secret_comes_along_with_the_host)
{
    static const char *const secret[] = {
        "etc/shadow",         "etc/gshadow", "etc/ssl/private", "etc/ssh",    "etc/machine-id",
        "etc/krb5.keytab",    "etc/sudoers", "etc/pip.conf",    "etc/npmrc",  "etc/gitconfig",
        "root/.bash_history", "etc/apt",     "etc/profile.d",   "etc/cron.d", "etc/pam.d",
    };
    csn_auto(fd) int state = open_state(), root = -1;
    char path[128], layer[65];

    CHECK_INT(csn_hostbase_prepare(state, layer, &err), CSN_OK);
    (void) snprintf(path, sizeof(path), "layers/%s/root", layer);
    root = openat(state, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(root >= 0);
    for (size_t i = 0; i < sizeof(secret) / sizeof(secret[0]); i++)
        CHECK(!has(root, secret[i]));
}

TEST(a_sweep_takes_what_nobody_names)
{
    csn_auto(fd) int state = open_state();

    make_layer(state, LAYER_A);
    make_layer(state, LAYER_B);
    CHECK_INT(put(state, "py", LAYER_A), CSN_OK);
    CHECK_INT(sweep(state), 1);
    CHECK(has(state, "layers/" LAYER_A));
    CHECK(!has(state, "layers/" LAYER_B));
}

TEST(a_sweep_leaves_what_a_sandbox_uses)
{
    csn_auto(fd) int state = open_state();
    uint32_t n = 0;

    make_layer(state, LAYER_A);
    make_layer(state, LAYER_B);
    make_box(state,
             "{\"image\":\"gone\",\"layers\":[\"" LAYER_B "\"],\"mounts\":[{\"volume\":\"v\"}]}");
    CHECK_INT(sweep(state), 1);
    CHECK(has(state, "layers/" LAYER_B));
    CHECK_INT(csn_boxes_with_volume(state, "v", &n, &err), CSN_OK);
    CHECK_INT(n, 1);
    CHECK_INT(csn_boxes_with_image(state, "gone", &n, &err), CSN_OK);
    CHECK_INT(n, 1);
}

TEST(a_sweep_removes_nothing_on_a_guess)
{
    csn_auto(fd) int state = open_state();

    make_layer(state, LAYER_A);
    make_box(state, "{\"image\":\"half a rec");
    CHECK(csn_layer_sweep(state, NULL, NULL, NULL, &err) < 0);
    CHECK(has(state, "layers/" LAYER_A));
}

TEST(a_sweep_waits_while_somebody_works)
{
    csn_auto(fd) int state = open_state(), hold = -1;

    make_layer(state, LAYER_A);
    CHECK_INT(csn_layers_hold(state, &hold, &err), CSN_OK);
    CHECK_INT(sweep(state), 0);
    CHECK(has(state, "layers/" LAYER_A));
    csn_close(&hold);
    CHECK_INT(sweep(state), 1);
}

TEST(a_tree_being_made_belongs_to_its_maker)
{
    csn_auto(fd) int state = open_state(), maker = -1;

    make_layer(state, ".tmp-1");
    make_layer(state, ".tmp-2");
    maker = openat(state, "layers/.tmp-1", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(flock(maker, LOCK_EX | LOCK_NB) == 0);
    CHECK_INT(sweep(state), 1);
    CHECK(has(state, "layers/.tmp-1"));
    CHECK(!has(state, "layers/.tmp-2"));
    csn_close(&maker);
    CHECK_INT(sweep(state), 1);
}

TEST(an_old_base_goes_and_the_present_one_stays)
{
    csn_auto(fd) int state = open_state();
    char layer[65], path[128];

    CHECK_INT(csn_hostbase_prepare(state, layer, &err), CSN_OK);
    make_layer(state, "host-0123456789abcdef");
    CHECK_INT(sweep(state), 1);
    (void) snprintf(path, sizeof(path), "layers/%s", layer);
    CHECK(has(state, path));
}

TEST(a_tree_of_any_depth_is_removed)
{
    csn_auto(fd) int state = open_state(), dir = -1;

    CHECK(mkdirat(state, "deep", 0700) == 0);
    dir = openat(state, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 3000; i++) {
        int next;

        CHECK(mkdirat(dir, "a directory with a name of some length", 0700) == 0);
        next = openat(dir, "a directory with a name of some length",
                      O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(next >= 0);
        csn_close(&dir);
        dir = next;
    }
    csn_close(&dir);
    CHECK_INT(csn_tree_remove(state, "deep"), 0);
    CHECK(!has(state, "deep"));
    CHECK_INT(csn_tree_remove(state, "deep"), 0);
}

TEST(a_tree_with_closed_doors_is_removed)
{
    csn_auto(fd) int state = open_state();

    CHECK(mkdirat(state, "t", 0700) == 0 && mkdirat(state, "t/closed", 0700) == 0);
    write_at(state, "t/closed/file", "x");
    CHECK(fchmodat(state, "t/closed", 0, 0) == 0 && fchmodat(state, "t", 0500, 0) == 0);
    CHECK_INT(csn_tree_remove(state, "t"), 0);
    CHECK(!has(state, "t"));
}

TEST(removing_follows_no_link)
{
    csn_auto(fd) int state = open_state();

    CHECK(mkdirat(state, "kept", 0700) == 0 && mkdirat(state, "t", 0700) == 0);
    write_at(state, "kept/file", "x");
    CHECK(symlinkat("../kept", state, "t/link") == 0);
    CHECK(symlinkat("kept", state, "top") == 0);
    CHECK_INT(csn_tree_remove(state, "t"), 0);
    CHECK_INT(csn_tree_remove(state, "top"), 0);
    CHECK(has(state, "kept/file"));
}

TEST(a_tree_is_measured)
{
    csn_auto(fd) int state = open_state();
    csn_tree_count count = { 0, 0 };

    CHECK(mkdirat(state, "t", 0700) == 0 && mkdirat(state, "t/d", 0700) == 0);
    write_at(state, "t/d/file", "x");
    CHECK(symlinkat("/", state, "t/link") == 0);
    CHECK_INT(csn_tree_measure(state, "t", &count), 0);
    CHECK_INT(count.n_files, 3);
    CHECK_INT(csn_tree_measure(state, "nothing", &count), -ENOENT);
}
