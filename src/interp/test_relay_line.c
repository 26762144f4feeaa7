/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "csn_test.h"
#include "relay_line.h"

static csn_str first(const csn_buf *in, char *ret_kind)
{
    csn_str data = { 0 };

    CHECK(csn_relay_next(in, ret_kind, &data) == CSN_RELAY_HEAD + data.len);
    return data;
}

TEST(a_line_is_a_frame)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_str data;
    char kind = 0;

    CHECK_INT(csn_relay_line_read(CSN_STR("oAAEC/v8="), &out), 0);
    data = first(&out, &kind);
    CHECK(kind == 'o');
    CHECK_MEM(data.data, data.len, "\x00\x01\x02\xfe\xff", 5);
    csn_buf_consume(&out, CSN_RELAY_HEAD + data.len);
    CHECK_INT(csn_relay_line_read(CSN_STR("n"), &out), 0);
    CHECK_INT(csn_relay_line_read(CSN_STR("pYQ=="), &out), 0);
    data = first(&out, &kind);
    CHECK(kind == 'n' && data.len == 0);
    csn_buf_consume(&out, CSN_RELAY_HEAD);
    data = first(&out, &kind);
    CHECK(kind == 'p');
    CHECK_MEM(data.data, data.len, "a", 1);
}

TEST(what_is_no_line_is_refused)
{
    static const char *const wrong[] = { "",      "oA",    "oAA",   "oAAA",     "oA===",
                                         "o====", "oAA=A", "oA A=", "oAAA=AAAA" };
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_auto(buf) csn_buf big = CSN_BUF_INIT;

    for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++)
        CHECK_INT(csn_relay_line_read(csn_str_of(wrong[k]), &out), -EBADMSG);
    for (size_t k = 0; k < CSN_RELAY_DATA_MAX / 3 * 4 + 8; k++)
        csn_buf_putc(&big, 'A');
    big.data[0] = 'o';
    CHECK_INT(csn_relay_line_read(csn_str_n(big.data, big.len - 3), &out), -EBADMSG);
    CHECK_INT((intmax_t) out.len, 0);
}

TEST(frames_come_back_as_they_were_put)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_str data;
    char kind;

    CHECK_INT(csn_relay_put(&out, 'P', "packet", 6), 0);
    data = first(&out, &kind);
    CHECK(kind == 'P');
    CHECK_MEM(data.data, data.len, "packet", 6);
    csn_buf_truncate(&out, out.len - 1);
    CHECK_INT((intmax_t) csn_relay_next(&out, &kind, &data), 0);
}
