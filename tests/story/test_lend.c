/* Lending: a process without rights of its own works in a sandbox that another one holds. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "story.h"

static csn_engine *a_guest(void)
{
    csn_engine_options o = { .size = sizeof(o), .is_guest = 1 };
    csn_engine *guest = NULL;

    OK(csn_engine_open(&o, &guest, err));
    return guest;
}

static csn_sandbox *borrow(csn_engine *guest, csn_sandbox *box)
{
    static const char *const env[] = { "LENT=yes", NULL };
    csn_sandbox_options o = { .size = sizeof(o), .env = env };
    csn_sandbox *lent = NULL;
    int fd = -1;

    OK(csn_sandbox_lend(box, &fd, err));
    OK(csn_sandbox_borrow(guest, csn_sandbox_id(box), &o, fd, &lent, err));
    return lent;
}

TEST(a_borrowed_sandbox_runs_commands_and_holds_files)
{
    csn_sandbox *box = an_ephemeral(.is_detached = 1);
    csn_engine *guest = a_guest();
    csn_sandbox *lent = borrow(guest, box);
    const csn_run_result *ran = sh(lent, "echo $LENT; pwd; echo err >&2; exit 7");
    char *data = NULL;
    size_t len = 0;

    CHECK_STR(ending(ran), "exit 7");
    CHECK_STR(ran->out, "yes\n/home/daytona\n");
    CHECK_STR(ran->err, "err\n");
    CHECK(ran->receipt.walls != 0); /* the keeper's facts came over the line */
    OK(csn_file_put(lent, "a/b.txt", "hello", 5, 0644, err));
    CHECK_STR(sh(box, "cat a/b.txt")->out, "hello");
    OK(csn_file_get(lent, "a/b.txt", 0, &data, &len, err));
    CHECK_MEM(data, len, "hello", 5);
    free(data);
    csn_sandbox_free(lent);
    csn_engine_free(guest);
    CHECK_STR(sh(box, "echo still here")->out, "still here\n");
    OK(csn_sandbox_delete(box, err));
}

TEST(what_changes_the_sandbox_is_its_lenders)
{
    csn_sandbox *box = an_ephemeral(.is_detached = 1), *other = NULL;
    csn_engine *guest = a_guest();
    csn_sandbox *lent = borrow(guest, box);
    int fd = -1;

    FAILS(csn_sandbox_stop(lent, 0, err), CSN_E_STATE);
    FAILS(csn_sandbox_delete(lent, err), CSN_E_STATE);
    FAILS(csn_sandbox_snapshot(lent, "x", err), CSN_E_STATE);
    FAILS(csn_sandbox_lend(lent, &fd, err), CSN_E_STATE);
    FAILS(csn_sandbox_create(guest, NULL, &other, err), CSN_E_STATE);
    FAILS(csn_sandbox_borrow(guest, "x", NULL, 0, &other, err), CSN_E_INVALID);
    csn_sandbox_free(lent);
    csn_engine_free(guest);
    OK(csn_sandbox_delete(box, err));
}

TEST(the_end_of_a_lent_sandbox_is_told_and_final)
{
    csn_sandbox *box = an_ephemeral(.is_detached = 1);
    csn_engine *guest = a_guest();
    csn_sandbox *lent = borrow(guest, box);
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 100" };
    csn_process *p = NULL;
    csn_run_result result;
    csn_receipt receipt;

    OK(csn_process_start(lent, &o, &p, err));
    OK(csn_sandbox_delete(box, err));
    OK(csn_process_wait(p, 10000, &receipt, err));
    CHECK(receipt.ended == CSN_ENDED_LOST || receipt.ended == CSN_ENDED_KILLED);
    o.shell = "true";
    FAILS(csn_run(lent, &o, &result, err), CSN_E_STATE);
    csn_process_free(p);
    csn_sandbox_free(lent);
    csn_engine_free(guest);
}

TEST(an_attached_sandbox_has_no_door_to_lend)
{
    csn_sandbox *box = an_ephemeral();
    int fd = -1;

    FAILS(csn_sandbox_lend(box, &fd, err), CSN_E_STATE);
}

/* The borrower: another user, when we may become one. */
static int work_with(int fd)
{
    csn_engine_options eo = { .size = sizeof(eo), .is_guest = 1 };
    csn_process_options po = { .size = sizeof(po), .shell = "echo from outside > x; cat x" };
    csn_engine *guest;
    csn_sandbox *lent;
    csn_run_result result;

    if (geteuid() == 0 &&
        (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
        return 1;
    if (csn_engine_open(&eo, &guest, NULL) < 0)
        return 2;
    if (csn_sandbox_borrow(guest, "lent", NULL, fd, &lent, NULL) < 0)
        return 3;
    if (csn_run(lent, &po, &result, NULL) < 0)
        return 4;
    if (strcmp(result.out, "from outside\n") != 0)
        return 5;
    csn_run_result_done(&result);
    csn_sandbox_free(lent);
    csn_engine_free(guest);
    return 0;
}

TEST(a_process_without_rights_works_in_it)
{
    csn_sandbox *box = an_ephemeral(.is_detached = 1);
    int fd = -1, status = -1;

    OK(csn_sandbox_lend(box, &fd, err));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(work_with(fd));
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    close(fd);
    CHECK_STR(sh(box, "cat x")->out, "from outside\n");
    OK(csn_sandbox_delete(box, err));
}

static bool is_gone(void *user)
{
    (void) user;
    return count_entries("boxes") == 0;
}

TEST(a_shared_sandbox_opens_for_another_engine_and_ends_with_its_own)
{
    csn_engine *owner = another_engine(), *visitor = another_engine();
    csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1, .is_shared = 1 };
    csn_sandbox *box = NULL, *seen = NULL;

    for (int k = 0; k < 3; k++) { /* one that stood ready for somebody else would have no door */
        csn_sandbox_options closed = { .size = sizeof(closed), .is_ephemeral = 1 };

        OK(csn_sandbox_create(owner, &closed, &box, err));
        OK(csn_sandbox_delete(box, err));
        csn_sandbox_free(box);
    }
    OK(csn_sandbox_create(owner, &o, &box, err));
    OK(csn_sandbox_open(visitor, csn_sandbox_id(box), &seen, err));
    CHECK_STR(sh(seen, "touch mark; echo in")->out, "in\n");
    CHECK_STR(sh(box, "ls")->out, "mark\n");
    csn_sandbox_free(box);
    csn_engine_free(owner);
    if (!until(is_gone, NULL))
        FAIL("it stays");
    csn_sandbox_free(seen);
    csn_engine_free(visitor);
}
