#include <errno.h>

#include "base/err.h"
#include "base/utf8.h"
#include "csn_test.h"

TEST(a_failure_says_what_and_returns_the_code)
{
    csn_error err = { 0 };

    CHECK_INT(csn_fail(&err, CSN_E_LIMIT, "%d of %d", 3, 2), CSN_E_LIMIT);
    CHECK_INT(err.code, CSN_E_LIMIT);
    CHECK_INT(err.sys_errno, 0);
    CHECK_STR(err.message, "3 of 2");
}

TEST(a_failed_call_carries_its_errno)
{
    csn_error err = { 0 };

    CHECK_INT(csn_fail_sys(&err, -EACCES, "open '%s'", "/x"), CSN_E_SYSTEM);
    CHECK_STR(err.message, "open '/x': Permission denied");
    CHECK_INT(err.sys_errno, EACCES);
    CHECK_INT(csn_fail_sys(NULL, -ENOMEM, "x"), CSN_E_NO_MEMORY);
    CHECK_INT(csn_fail_sys(&err, -ENOENT, "x"), CSN_E_NOT_FOUND);
    CHECK_INT(csn_fail_sys(&err, -EEXIST, "x"), CSN_E_EXISTS);
    CHECK_INT(csn_fail_sys(&err, -ETIMEDOUT, "x"), CSN_E_TIMEOUT);
}

TEST(a_caller_prepends_where_it_stood)
{
    csn_error err = { 0 };
    int r = csn_fail_sys(&err, -EACCES, "mount image '%s'", "py");

    CHECK_INT(csn_fail_in(&err, r, "start sandbox '%s'", "a1"), CSN_E_SYSTEM);
    CHECK_STR(err.message, "start sandbox 'a1': mount image 'py': Permission denied");
    CHECK_INT(err.sys_errno, EACCES);
    CHECK_INT(csn_fail_in(NULL, CSN_E_LOST, "x"), CSN_E_LOST);

    csn_error silent = { 0 };
    (void) csn_fail_in(&silent, CSN_E_LOST, "ask keeper");
    CHECK_STR(silent.message, "ask keeper: lost");
}

TEST(a_message_is_one_safe_line_even_when_cut)
{
    csn_error err = { 0 };
    char name[400];

    (void) csn_fail(&err, CSN_E_INVALID, "no '%s'", "a\nb\033[2J");
    CHECK_STR(err.message, "no 'a?b?[2J'");
    for (size_t i = 0; i + 2 < sizeof(name); i += 2)
        memcpy(name + i, "\xc3\xa9", 2);
    name[398] = '\0';
    (void) csn_fail(&err, CSN_E_INVALID, "%s", name);
    CHECK_INT(strlen(err.message),
              247); /* and no character is cut in two, at none of the three ends */
    CHECK(csn_utf8_valid(err.message, strlen(err.message)));
    (void) csn_fail(&err, CSN_E_INVALID, "x%s", name);
    CHECK_INT(strlen(err.message), 246);
    CHECK(csn_utf8_valid(err.message, strlen(err.message)));
}

TEST(a_long_path_does_not_take_the_reason_away)
{
    csn_error err = { 0 };
    char path[3000];

    memset(path, 'p', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    (void) csn_fail_sys(&err, -EROFS, "make '%s' (CAISSON_STATE names another)", path);
    CHECK(strncmp(err.message, "make 'ppp", 9) == 0);
    CHECK(strstr(err.message, "p' (CAISSON_STATE names another): Read-only file system"));
    (void) csn_fail_in(&err, CSN_E_SYSTEM, "serve '%s'", path);
    CHECK(strncmp(err.message, "serve 'ppp", 10) == 0);
    CHECK(strstr(err.message, "another): Read-only file system"));
}

TEST(arguments_may_point_into_the_error_itself)
{
    csn_error err = { 0 };

    (void) csn_fail(&err, CSN_E_STATE, "inner");
    (void) csn_fail(&err, CSN_E_STATE, "outer (%s)", err.message);
    CHECK_STR(err.message, "outer (inner)");
}

TEST(every_code_has_a_name)
{
    for (int code = CSN_OK; code >= CSN_E_NOT_REGULAR; code--)
        CHECK(strcmp(csn_error_name(code), "unknown") != 0);
    CHECK_STR(csn_error_name(CSN_E_NOT_FOUND), "not_found");
    CHECK_STR(csn_error_name(1), "unknown");
    CHECK_STR(csn_error_name(CSN_E_NOT_REGULAR - 1), "unknown");
}
