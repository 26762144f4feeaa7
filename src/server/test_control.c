/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/loop.h"
#include "csn_test.h"
#include "server/rate.h"
#include "server/table.h"
#include "server/tries.h"
#include "server/warden.h"

TEST(a_table_finds_what_was_put_and_nothing_else)
{
    static char keys[1000][16];
    csn_table t = { 0 };

    CHECK(csn_table_get(&t, "a") == NULL);
    CHECK(csn_table_remove(&t, "a") == NULL);
    for (size_t i = 0; i < 1000; i++) {
        (void) snprintf(keys[i], sizeof(keys[i]), "key-%zu", i);
        CHECK_INT(csn_table_put(&t, keys[i], keys[i]), 0);
    }
    CHECK_INT(csn_table_put(&t, "key-7", &t), -EEXIST);
    CHECK_INT(t.n, 1000);
    for (size_t i = 0; i < 1000; i += 2)
        CHECK(csn_table_remove(&t, keys[i]) == keys[i]);
    for (size_t i = 0; i < 1000; i++)
        CHECK(csn_table_get(&t, keys[i]) == (i % 2 ? keys[i] : NULL));
    CHECK(csn_table_get(&t, "") == NULL);
    csn_table_done(&t);
    CHECK_INT(t.n, 0);
}

TEST(an_address_that_fails_too_often_is_blocked_and_others_are_not)
{
    for (int i = 0; i <= CSN_TRIES_MAX; i++) {
        CHECK(!csn_tries_is_blocked("192.0.2.1"));
        csn_tries_failed("192.0.2.1");
    }
    CHECK(csn_tries_is_blocked("192.0.2.1"));
    CHECK(!csn_tries_is_blocked("192.0.2.2"));
}

TEST(all_addresses_of_one_network_count_together)
{
    char address[48];

    for (int i = 0; i <= CSN_TRIES_MAX; i++) {
        (void) snprintf(address, sizeof(address), "2001:db8:0:1::%x", (unsigned) i + 1);
        CHECK(!csn_tries_is_blocked(address));
        csn_tries_failed(address);
    }
    CHECK(csn_tries_is_blocked("2001:db8:0:1:ffff::9"));
    CHECK(!csn_tries_is_blocked("2001:db8:0:2::1"));
}

TEST(a_bucket_gives_what_it_holds)
{
    int n = 0;

    for (int i = 0; i < 1000; i++)
        n += csn_rate_take("org-a", 10);
    CHECK(n >= 10 && n <= 20); /* a slow machine fills it meanwhile */
    CHECK(csn_rate_take("org-b", 10));
    for (int i = 0; i < 1000; i++)
        CHECK(csn_rate_take("org-a", 0));
}

static void never(int result, const csn_error *err, void *user)
{
    (void) err;
    (void) user;
    FAIL("it was told twice: %d", result);
}

/* A request may come between the warden's death and ours: it is told to come again (503), not that something is broken. */
TEST(a_warden_that_is_gone_is_no_internal_error)
{
    csn_error err = { 0 };
    csn_warden *w = NULL;
    csn_loop *loop = NULL;
    int pair[2];

    CHECK_INT(csn_loop_new(&loop), 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    CHECK_INT(csn_warden_open(loop, pair[0], NULL, NULL, &w), 0);
    close(pair[1]);
    int r = csn_warden_volume_create(w, "v", never, NULL);
    CHECK_INT(r, CSN_E_LOST);
    CHECK_INT(csn_warden_cannot(r, &err), CSN_E_CANCELLED);
    CHECK_STR(err.message, "The server is shutting down");
    w = csn_warden_free(w);
    csn_loop_free(loop);
}
