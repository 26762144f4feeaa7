/* Operations: each verb cancelled, dropped and late at every step of its life, and what owners and deadlines promise. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "story/op_walk.h"
#include "story/story.h"

/* A failure names the verb and the step. */
static void walk_group(op_group group)
{
    int n_fds;

    (void) a_sandbox(); /* the first opens what is opened once; freed when the test ends */
    n_fds = csn_test_count_fds();
    for (size_t i = 0; i < n_op_verbs; i++)
        if (op_verbs[i].group == group)
            walk_op(the_engine(), &op_verbs[i]);
    while (csn_engine_dispatch(the_engine(), 200, NULL) > 0)
        ;
    CHECK(csn_test_count_fds() <= n_fds + 4); /* spare keepers may come and go */
}

TEST_TIMEOUT(sandboxes_are_given_up_at_every_step, 240)
{
    walk_group(OP_SANDBOX);
}

TEST_TIMEOUT(commands_are_given_up_at_every_step, 240)
{
    walk_group(OP_COMMAND);
}

TEST_TIMEOUT(files_are_given_up_at_every_step, 240)
{
    walk_group(OP_FILE);
}

TEST_TIMEOUT(images_and_volumes_are_given_up_at_every_step, 240)
{
    walk_group(OP_IMAGE);
}

static void note_result(int result, const csn_error *err, void *user)
{
    (void) err;
    *(int *) user = result;
}

TEST(an_engine_that_closes_ends_what_is_under_way)
{
    csn_sandbox *box = a_sandbox();
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 60", .is_background = 1 };
    csn_process *p = NULL;
    int waited = 1, stopped = 1;

    OK(csn_process_start(box, &o, &p, err));
    (void) BEGUN(csn_process_wait_log_async(p, INT64_MAX, note_result, &waited, err));
    (void) BEGUN(csn_sandbox_stop_async(box, 5000, note_result, &stopped, err));
    csn_process_free(p);
    close_the_engine();
    CHECK(waited < 0);
    CHECK(stopped <= 0);
}

TEST(a_deadline_may_be_moved_and_taken_away)
{
    csn_sandbox *box = an_ephemeral();
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 60", .is_background = 1 };
    csn_process *p = NULL;
    int result = 1;
    csn_op *op;

    OK(csn_process_start(box, &o, &p, err));
    op = BEGUN(csn_process_wait_log_async(p, INT64_MAX, note_result, &result, err));
    OK(csn_op_set_timeout(op, 1, err));
    OK(csn_op_set_timeout(op, 0, err));
    while (csn_engine_dispatch(the_engine(), 50, NULL) > 0)
        ;
    CHECK_INT(result, 1);
    FAILS(csn_op_set_timeout(op, -1, err), CSN_E_INVALID);
    OK(csn_op_set_timeout(op, 5, err));
    while (result == 1)
        OK(csn_engine_dispatch(the_engine(), 1000, err));
    CHECK_INT(result, CSN_E_TIMEOUT);
    csn_process_free(p);
}

typedef struct chain {
    csn_op_owner owner;
    csn_op *other;
    int n_first, n_other;
} chain;

/* A completion that drops another operation of its owner, and itself, which does nothing any more. */
static void on_first(int result, const csn_error *err, void *user)
{
    chain *c = user;

    (void) result, (void) err;
    c->n_first++;
    csn_op_owner_drop(&c->owner);
}

static void on_other(int result, const csn_error *err, void *user)
{
    (void) result, (void) err;
    ((chain *) user)->n_other++;
}

TEST(a_completion_may_drop_its_neighbours)
{
    csn_sandbox *box = an_ephemeral();
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 60", .is_background = 1 };
    csn_process *p = NULL;
    chain c = { 0 };

    OK(csn_process_start(box, &o, &p, err));
    csn_op_set_owner(BEGUN(csn_process_wait_log_async(p, INT64_MAX, on_other, &c, err)), &c.owner);
    csn_op_set_owner(BEGUN(csn_sandbox_set_labels_async(box, NULL, on_first, &c, err)), &c.owner);
    csn_op_set_owner(BEGUN(csn_sandbox_set_labels_async(box, NULL, on_other, &c, err)), &c.owner);
    CHECK(c.owner.first);
    while (!c.n_first)
        OK(csn_engine_dispatch(the_engine(), 1000, err));
    while (csn_engine_dispatch(the_engine(), 50, NULL) > 0)
        ;
    CHECK(!c.owner.first);
    CHECK_INT(c.n_first, 1);
    CHECK(c.n_other <= 1); /* the neighbour that was as ready may have come first */
    csn_process_free(p);
}

TEST(what_needs_an_answer_is_refused_without_an_engine)
{
    csn_error own = { 0 };

    CHECK(!csn_sandbox_create_async(NULL, NULL, NULL, NULL, &own));
    CHECK_INT(own.code, CSN_E_INVALID);
    CHECK(!csn_sandbox_stop_async(NULL, 0, NULL, NULL, NULL));
    CHECK_INT(csn_sandbox_stop(NULL, 0, NULL), CSN_E_INVALID);
    csn_op_cancel(NULL);
    csn_op_drop(NULL);
    csn_op_set_owner(NULL, NULL);
    csn_op_owner_drop(NULL);
    csn_op_owner_cancel(NULL);
}
