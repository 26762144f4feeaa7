/* Images with whole sandboxes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "image/test_state.h"
#include "owner.h"
#include "tar_maker.h"

static const char *make_oci(void)
{
    const char *source = getenv("CSN_SOURCE");
    char script[512];

    need_busybox();
    (void) snprintf(script, sizeof(script), "%s/tests/make-oci", source ? source : ".");
    RUN("python3", script, at("oci"), BUSYBOX);
    return at("oci");
}

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
                    .user = is_machines_root() ? "root" : NULL); /* else all files are ours */
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
