#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/fault.h"
#include "csn_test.h"

TEST(an_empty_buffer_is_an_empty_string)
{
    csn_auto(buf) csn_buf buf = CSN_BUF_INIT;

    CHECK_STR(buf.data, "");
    CHECK_INT(buf.len, 0);
    csn_buf_truncate(&buf, 0);
    csn_buf_consume(&buf, 5);
    csn_buf_clear(&buf);
    CHECK_STR(buf.data, "");
}

TEST(appends_add_up)
{
    csn_auto(buf) csn_buf buf = CSN_BUF_INIT;

    csn_buf_puts(&buf, "ab");
    csn_buf_putc(&buf, 'c');
    csn_buf_append(&buf, "d\0e", 3);
    csn_buf_printf(&buf, "%d", 42);
    CHECK_INT(buf.error, 0);
    CHECK_MEM(buf.data, buf.len, "abcd\0e42", 8);
    CHECK_INT(buf.data[buf.len], 0);
}

TEST(printf_grows_as_needed)
{
    csn_auto(buf) csn_buf buf = CSN_BUF_INIT;

    for (int i = 0; i < 1000; i++)
        csn_buf_printf(&buf, "%04d", i);
    CHECK_INT(buf.error, 0);
    CHECK_INT(buf.len, 4000);
    CHECK_MEM(buf.data + 3996, 4, "0999", 4);
    csn_buf_clear(&buf);
    csn_buf_printf(&buf, "%500s", "x");
    CHECK_INT(buf.len, 500);
}

TEST(the_ceiling_holds_and_its_error_sticks)
{
    csn_auto(buf) csn_buf buf = CSN_BUF_INIT_MAX(5);

    CHECK_INT(csn_buf_puts(&buf, "12345"), 0);
    CHECK_INT(csn_buf_putc(&buf, '6'), -E2BIG);
    CHECK_STR(buf.data, "12345");
    CHECK_INT(csn_buf_append(&buf, "", 0), -E2BIG);
    csn_buf_clear(&buf);
    CHECK_INT(csn_buf_printf(&buf, "%s", "123456"), -E2BIG);
    CHECK_STR(buf.data, "");
    csn_buf_clear(&buf);
    CHECK_INT(csn_buf_reserve(&buf, SIZE_MAX), -E2BIG);
}

TEST(consume_drops_from_the_front)
{
    csn_auto(buf) csn_buf buf = CSN_BUF_INIT;

    csn_buf_puts(&buf, "hello world");
    csn_buf_consume(&buf, 6);
    CHECK_STR(buf.data, "world");
    csn_buf_consume(&buf, 99);
    CHECK_STR(buf.data, "");
}

TEST(take_gives_the_bytes_away)
{
    csn_auto(buf) csn_buf buf = CSN_BUF_INIT;
    csn_auto(mem) char *text = NULL;
    csn_auto(mem) char *nothing = NULL;
    size_t len = 99;

    csn_buf_puts(&buf, "mine");
    text = csn_buf_take(&buf, &len);
    CHECK_STR(text, "mine");
    CHECK_INT(len, 4);
    CHECK_STR(buf.data, "");
    nothing = csn_buf_take(&buf, &len);
    CHECK_STR(nothing, "");
    CHECK_INT(len, 0);
}

TEST(out_of_memory_sticks)
{
#ifdef CSN_TEST_HOOKS
    csn_auto(buf) csn_buf buf = CSN_BUF_INIT;

    csn_fault_arm(1);
    CHECK_INT(csn_buf_puts(&buf, "x"), -ENOMEM);
    CHECK_STR(csn_fault_fired(), "realloc");
    CHECK_INT(csn_buf_puts(&buf, "y"), -ENOMEM);
    CHECK_STR(buf.data, "");
    csn_fault_arm(0);
    csn_buf_clear(&buf);
    CHECK_INT(csn_buf_puts(&buf, "z"), 0);
    CHECK_INT(csn_fault_count(), 1);
#else
    SKIP("build: needs -Dtest_hooks=true");
#endif
}
