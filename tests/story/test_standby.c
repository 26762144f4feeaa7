/* Sandboxes one after the other, all alike: the next one stands ready, and nobody notices but the clock. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "story.h"

static csn_sandbox *with_env(const char *value, const char *label)
{
    char entry[64], tag[64];

    (void) snprintf(entry, sizeof(entry), "WHO=%s", value);
    (void) snprintf(tag, sizeof(tag), "who=%s", label);
    const char *env[] = { entry, NULL }, *labels[] = { tag, NULL };
    return an_ephemeral(.env = env, .labels = labels);
}

TEST(each_of_many_is_new_and_has_its_own_settings)
{
    char value[16], want[32];

    for (int i = 0; i < 8; i++) {
        (void) snprintf(value, sizeof(value), "%d", i);
        csn_sandbox *box = with_env(value, value);
        csn_sandbox_info info;

        (void) snprintf(want, sizeof(want), "%d\n", i);
        CHECK_STR(sh(box, "test ! -e mark && echo $WHO && touch mark")->out, want);
        OK(csn_sandbox_inspect(box, &info, err));
        (void) snprintf(want, sizeof(want), "who=%d", i);
        CHECK_STR(info.labels[0], want);
        OK(csn_sandbox_delete(box, err));
    }
}

TEST(the_one_that_stands_ready_is_in_no_list)
{
    csn_engine *other;

    for (int i = 0; i < 4; i++) {
        csn_sandbox *box = an_ephemeral();
        CHECK_INT(count_sandboxes(the_engine()), 1);
        OK(csn_sandbox_delete(box, err));
    }
    OK(csn_engine_dispatch(the_engine(), 100, err));
    CHECK_INT(count_sandboxes(the_engine()), 0);
    other = another_engine();
    CHECK_INT(count_sandboxes(other), 0);
    csn_engine_free(other);
}

TEST(another_shape_gets_its_own)
{
    for (int i = 0; i < 9; i++) {
        csn_sandbox *box = i % 3 == 2 ? an_ephemeral(.memory_bytes = 128 << 20) : an_ephemeral();
        csn_sandbox_info info;

        OK(csn_sandbox_inspect(box, &info, err));
        CHECK_INT(info.memory_bytes, i % 3 == 2 ? 128 << 20 : 1 << 30);
        CHECK_STR(sh(box, "echo ok")->out, "ok\n");
        OK(csn_sandbox_delete(box, err));
    }
}

static bool is_one_there(void *user)
{
    (void) user;
    csn_error err;

    (void) csn_engine_dispatch(the_engine(), 10, &err);
    return count_entries("boxes") == 1;
}

/* Our only child, once those of the sandboxes before it have exited. */
static bool is_alone(void *user)
{
    char path[64], text[64] = "";
    csn_error err;

    (void) csn_engine_dispatch(the_engine(), 10, &err);
    (void) snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int) getpid());
    FILE *f = fopen(path, "re");
    if (!f)
        SKIP("kernel: it does not list a process's children");
    CHECK(fgets(text, sizeof(text), f) != NULL);
    (void) fclose(f); /* only read from */
    return csn_parse_u64(csn_str_trim(csn_str_of(text)), user) == 0;
}

static pid_t keeper_of_standby(void)
{
    uint64_t pid = 0;

    CHECK(until(is_alone, &pid));
    return (pid_t) pid;
}

TEST(one_that_died_while_it_stood_ready_is_replaced)
{
    for (int i = 0; i < 3; i++) {
        csn_sandbox *box = an_ephemeral();
        OK(csn_sandbox_delete(box, err));
    }
    CHECK(until(is_one_there, NULL));
    pid_t pid = keeper_of_standby();
    CHECK(pid > 0);
    CHECK_INT(kill(pid, SIGKILL), 0);
    siginfo_t info;
    CHECK_INT(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT), 0); /* the engine reaps it */
    csn_sandbox *box = an_ephemeral();
    CHECK_STR(sh(box, "echo alive")->out, "alive\n");
    OK(csn_sandbox_delete(box, err));
}

TEST(the_receipt_counts_from_the_create)
{
    csn_receipt receipt;
    csn_sandbox *box = NULL;

    for (int i = 0; i < 3; i++) {
        box = an_ephemeral();
        OK(csn_sandbox_delete(box, err));
    }
    CHECK(until(is_one_there, NULL));
    struct pollfd nothing = { .fd = -1 };
    CHECK_INT(poll(&nothing, 1, 300), 0); /* it ages; that this is not counted is what is looked at */
    box = an_ephemeral();
    OK(csn_sandbox_receipt(box, &receipt, err));
    CHECK(receipt.wall_us < 250 * 1000);
    OK(csn_sandbox_delete(box, err));
}
