#include <errno.h>

#include "base/auto.h"
#include "base/str.h"
#include "csn_test.h"

TEST(views_compare)
{
    CHECK(csn_str_eq(CSN_STR("ab"), csn_str_of("ab")));
    CHECK(!csn_str_eq(CSN_STR("ab"), CSN_STR("abc")));
    CHECK(csn_str_is(csn_str_of(NULL), ""));
    CHECK(csn_str_starts_with(CSN_STR("abc"), CSN_STR("ab")));
    CHECK(!csn_str_starts_with(CSN_STR("a"), CSN_STR("ab")));
    CHECK(csn_str_ends_with(CSN_STR("abc"), CSN_STR("bc")));
    CHECK(csn_streq(NULL, NULL));
    CHECK(!csn_streq("", NULL));
    CHECK(csn_starts_with("abc", ""));
}

TEST(trim_takes_blanks_from_both_ends)
{
    CHECK(csn_str_is(csn_str_trim(CSN_STR(" \t a b\r\n")), "a b"));
    CHECK(csn_str_is(csn_str_trim(CSN_STR(" \n")), ""));
}

TEST(split_gives_every_part)
{
    csn_str rest = CSN_STR("a,,b,"), part;
    const char *want[] = { "a", "", "b", "" };

    for (size_t i = 0; i < CSN_COUNT(want); i++) {
        CHECK(csn_str_split(&rest, ',', &part));
        CHECK(csn_str_is(part, want[i]));
    }
    CHECK(!csn_str_split(&rest, ',', &part));
    rest = CSN_STR("");
    CHECK(csn_str_split(&rest, ',', &part));
    CHECK_INT(part.len, 0);
    CHECK(!csn_str_split(&rest, ',', &part));
}

TEST(copies_fit_or_are_refused)
{
    char out[4];

    CHECK_INT(csn_str_copy(out, sizeof(out), CSN_STR("abc")), 0);
    CHECK_STR(out, "abc");
    CHECK_INT(csn_str_copy(out, sizeof(out), CSN_STR("abcd")), -ENAMETOOLONG);
    CHECK_STR(out, "");
    CHECK_INT(csn_str_copy(out, sizeof(out), CSN_STR("a\0b")), -EINVAL);
}

TEST(numbers_are_strict)
{
    const char *bad[] = { "", " 1", "1 ", "+1", "0x1", "1a", "--1", "-", "1.0", "١" };
    uint64_t u;
    int64_t i;

    for (size_t k = 0; k < CSN_COUNT(bad); k++) {
        CHECK_INT(csn_parse_u64(csn_str_of(bad[k]), &u), -EINVAL);
        CHECK_INT(csn_parse_i64(csn_str_of(bad[k]), &i), -EINVAL);
    }
    CHECK_INT(csn_parse_u64(CSN_STR("-1"), &u), -EINVAL);
    CHECK_INT(csn_parse_u64(CSN_STR("18446744073709551615"), &u), 0);
    CHECK(u == UINT64_MAX);
    CHECK_INT(csn_parse_u64(CSN_STR("18446744073709551616"), &u), -ERANGE);
    CHECK_INT(csn_parse_i64(CSN_STR("-9223372036854775808"), &i), 0);
    CHECK(i == INT64_MIN);
    CHECK_INT(csn_parse_i64(CSN_STR("9223372036854775808"), &i), -ERANGE);
}

TEST(sizes_have_binary_units)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {
        { "0", 0 },        { "4096", 4096 },    { "1k", 1024 },       { "512m", 512 << 20 },
        { "1g", 1 << 30 }, { "1GiB", 1 << 30 }, { "1.5GB", 3 << 29 }, { "2T", INT64_C(2) << 40 },
        { "7b", 7 },
    };
    const char *bad[] = { "", "m", "-1", "1x", "1 m", "1mm", "1bb", "1.", ".5", "1e3", "1ib" };
    int64_t bytes;

    for (size_t k = 0; k < CSN_COUNT(good); k++) {
        CHECK_INT(csn_parse_size(csn_str_of(good[k].text), &bytes), 0);
        CHECK_INT(bytes, good[k].bytes);
    }
    for (size_t k = 0; k < CSN_COUNT(bad); k++)
        CHECK_INT(csn_parse_size(csn_str_of(bad[k]), &bytes), -EINVAL);
    CHECK_INT(csn_parse_size(CSN_STR("1\0"), &bytes), -EINVAL);
    CHECK_INT(csn_parse_size(CSN_STR("9999999t"), &bytes), -ERANGE);
}

TEST(durations_have_units)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        { "30", INT64_C(30000000000) },
        { "30s", INT64_C(30000000000) },
        { "5m", INT64_C(300000000000) },
        { "1.5s", 1500000000 },
        { "250ms", 250000000 },
        { "0.25s", 250000000 },
        { "1h", INT64_C(3600000000000) },
        { "10us", 10000 },
        { "5ns", 5 },
        { "0", 0 },
    };
    const char *bad[] = { "", "s", "-1s", "1sec", "1 s", "1S", "1s1", "1.s" };
    int64_t ns;

    for (size_t k = 0; k < CSN_COUNT(good); k++) {
        CHECK_INT(csn_parse_duration(csn_str_of(good[k].text), &ns), 0);
        CHECK_INT(ns, good[k].ns);
    }
    for (size_t k = 0; k < CSN_COUNT(bad); k++)
        CHECK_INT(csn_parse_duration(csn_str_of(bad[k]), &ns), -EINVAL);
    CHECK_INT(csn_parse_duration(CSN_STR("999999d"), &ns), -ERANGE);
}

TEST(sizes_don_t_overflow_silently)
{
    size_t n = 7;

    CHECK_INT(csn_mul_size(SIZE_MAX / 2, 3, &n), -EOVERFLOW);
    CHECK_INT(csn_add_size(SIZE_MAX, 1, &n), -EOVERFLOW);
    CHECK_INT(n, 7);
    CHECK_INT(csn_mul_size(6, 7, &n), 0);
    CHECK_INT(n, 42);
}

TEST(names_are_plain)
{
    char name[66];

    CHECK(csn_is_name("a"));
    CHECK(csn_is_name("py-3.11_x"));
    const char *bad[] = { "", ".", "..", "-a", "_a", "a/b", "a b", "a\n", "\xc3\xa9" };
    for (size_t k = 0; k < CSN_COUNT(bad); k++)
        CHECK(!csn_is_name(bad[k]));
    CHECK(!csn_is_name(NULL));
    memset(name, 'a', sizeof(name));
    name[64] = '\0';
    CHECK(csn_is_name(name));
    name[64] = 'a';
    name[65] = '\0';
    CHECK(!csn_is_name(name));
}

TEST(hex_is_lower_case_and_exact)
{
    CHECK(csn_is_hex("00ff", 4));
    CHECK(!csn_is_hex("00fF", 4));
    CHECK(!csn_is_hex("00f", 4));
    CHECK(!csn_is_hex("00ff0", 4));
}
