/* Verbs of images and volumes with the k-th call failing; in builds with test hooks only. */
#include "base/fault.h"
#include "image/test_state.h"

typedef int verb_fn(void);

/* Fails the first, the second, … checked call of a verb until it gets through untouched; `undo` brings the state back
 * after a success. */
static void fail_each(verb_fn *verb, verb_fn *undo, int n_images, int n_layers)
{
    int n_fds = csn_test_count_fds();

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
        if (csn_test_count_fds() != n_fds)
            FAIL("call %ld (%s): %d descriptors, there were %d", k, site, csn_test_count_fds(),
                 n_fds);
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
