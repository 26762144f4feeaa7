/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "caps.h"
#include "csn_test.h"
#include "userns.h"
#include "way.h"

enum { PREFERRED = 65530 };

static uint32_t choose(const char *uids, const char *gids)
{
    return csn_way_choose_id(csn_str_of(uids), csn_str_of(gids));
}

TEST(an_id_that_no_system_gives_away_is_preferred)
{
    CHECK_INT(choose("         0          0 4294967295\n", "         0          0 4294967295\n"),
              PREFERRED);
    CHECK_INT(choose("0 100000 65536\n", "0 100000 65536\n"), PREFERRED);
    CHECK_INT(choose("0 1000 1\n1 100000 65536\n", "0 1000 1\n1 100000 65536\n"), PREFERRED);
}

TEST(else_the_highest_that_is_a_users_and_a_groups)
{
    CHECK_INT(choose("0 1000 1\n1 100000 5000\n", "0 1000 1\n1 100000 5000\n"), 5000);
    CHECK_INT(choose("0 1 10\n100 300 20\n", "0 1 10\n"), 9);
    CHECK_INT(choose("0 1 10\n", "0 1 5\n"), 4);
    CHECK_INT(choose("0 100000 65536\n", "0 1000 1\n"), 0);
}

TEST(one_id_is_roots_own_and_nonsense_is_none)
{
    CHECK_INT(choose("0 1000 1\n", "0 1000 1\n"), 0);
    CHECK_INT(choose("", ""), 0);
    CHECK_INT(choose("what\n1 2\n", "3\n"), 0);
    CHECK_INT(choose("0 0 0\n", "0 0 0\n"), 0);
}

TEST(ids_that_are_not_in_the_map_are_told)
{
    if (csn_way_why_ordinary())
        SKIP("user: not every id is here");
    CHECK(csn_way_has_ids(65534, 65534));
    CHECK(csn_way_has_ids(1000, 5));
    CHECK(!csn_way_has_ids((uid_t) -1, 1000));
}

TEST(an_ordinary_user_is_its_own_owner)
{
    csn_owner owner = { 1, 1, true };

    if (geteuid() == 0)
        SKIP("user: root");
    CHECK_INT(csn_way_find(), CSN_WAY_ORDINARY);
    CHECK(csn_way_why_ordinary() == NULL);
    CHECK(csn_way_owner(&owner) == NULL);
    CHECK_INT(owner.uid, geteuid());
    CHECK_INT(owner.gid, getegid());
    CHECK(!owner.is_other);
}

/* What a child that has done `become` finds, packed into its status: way, whether a reason is given, owner. */
enum { IS_PRIVILEGED = 1, HAS_WHY = 2, IS_REFUSED = 4, IS_OTHER = 8, IS_ZERO = 16, FAILED = 64 };

static int look(void)
{
    csn_owner owner = { 0, 0, false };
    const char *why_not = csn_way_owner(&owner);

    return (csn_way_find() == CSN_WAY_PRIVILEGED ? IS_PRIVILEGED : 0) |
           (csn_way_why_ordinary() ? HAS_WHY : 0) | (why_not ? IS_REFUSED : 0) |
           (owner.is_other ? IS_OTHER : 0) | (!why_not && owner.uid == 0 ? IS_ZERO : 0);
}

static int look_after(int (*become)(void))
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(become() < 0 ? FAILED : look());
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int nothing(void)
{
    return 0;
}

static int drop_sys_admin(void)
{
    return csn_caps_limit(~(UINT64_C(1) << CAP_SYS_ADMIN));
}

static int drop_all(void)
{
    return csn_caps_clear();
}

/* A user namespace in which 0 is `outside`, as `unshare -r` makes it. */
static int become_root_of_one(void)
{
    csn_idmap uid = { 0, geteuid(), 1 }, gid = { 0, getegid(), 1 };
    int ready[2];
    pid_t pid, parent = getpid();
    int status = 0;

    if (pipe2(ready, O_CLOEXEC) < 0)
        return -errno;
    pid = fork(); /* writes our map: whoever made the namespace is its parent's user */
    if (pid == 0) {
        char byte;
        close(ready[1]);
        _exit(read(ready[0], &byte, 1) != 0 || csn_userns_map(parent, &uid, 1, &gid, 1, true) < 0);
    }
    if (pid < 0 || unshare(CLONE_NEWUSER) < 0)
        return -errno;
    close(ready[1]);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        return -EPERM;
    return geteuid() == 0 ? 0 : -EPERM;
}

TEST(the_machines_root_is_privileged)
{
    if (geteuid() != 0)
        SKIP("user: not root");
    if (csn_way_why_ordinary())
        SKIP("kernel: %s", csn_way_why_ordinary());
    CHECK(look_after(nothing) & IS_PRIVILEGED);
    CHECK(!(look_after(nothing) & HAS_WHY));
}

TEST(root_without_the_power_to_mount_gives_another_id)
{
    if (geteuid() != 0 || csn_way_why_ordinary())
        SKIP("user: not the machine's root");
    CHECK_INT(look_after(drop_sys_admin), HAS_WHY | IS_OTHER);
}

TEST(root_without_any_power_is_refused)
{
    if (geteuid() != 0 || csn_way_why_ordinary())
        SKIP("user: not the machine's root");
    CHECK_INT(look_after(drop_all), HAS_WHY | IS_REFUSED);
}

TEST(the_root_of_a_namespace_with_one_id_is_whoever_it_is_outside)
{
    bool is_root = geteuid() == 0;
    int found = look_after(become_root_of_one);

    if (found == FAILED)
        SKIP("kernel: no user namespace");
    /* The kernel's own uid 0 must not run foreign code; anybody else's may, as without the namespace. */
    CHECK_INT(found, HAS_WHY | (is_root ? IS_REFUSED : IS_ZERO));
}
