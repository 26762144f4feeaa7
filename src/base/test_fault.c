#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/fault.h"
#include "csn_test.h"

TEST(the_kth_check_fails_once)
{
#ifdef CSN_TEST_HOOKS
    csn_fault_arm(3);
    CHECK_INT(csn_fault("a"), 0);
    CHECK_INT(csn_fault_as("b", EPERM), 0);
    CHECK_INT(csn_fault_as("c", EPERM), -EPERM);
    CHECK_INT(csn_fault("d"), 0);
    CHECK_STR(csn_fault_fired(), "c");
    CHECK_INT(csn_fault_count(), 4);
    csn_fault_arm(1);
    CHECK(!csn_malloc(8));
    CHECK_INT(errno, ENOMEM);
    csn_fault_arm(0);
#else
    csn_fault_arm(1);
    CHECK_INT(csn_fault("a"), 0);
    CHECK_INT(csn_fault_count(), 0);
    CHECK(!csn_fault_fired());
#endif
}

TEST(wrappers_allocate_and_check)
{
    csn_auto(mem) char *copy = csn_strdup("abc");
    csn_auto(mem) char *part = csn_strndup("abcdef", 2);
    csn_auto(mem) int *numbers = csn_realloc_array(NULL, 4, sizeof(int));
    volatile size_t huge = SIZE_MAX / 2;

    CHECK_STR(copy, "abc");
    CHECK_STR(part, "ab");
    CHECK(numbers != NULL);
    CHECK(!csn_realloc_array(NULL, huge, 4));
    CHECK_INT(errno, ENOMEM);
    csn_auto(mem) char *x = csn_xstrdup("y");
    CHECK_STR(x, "y");
}
