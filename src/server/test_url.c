/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "csn_test.h"
#include "server/url.h"

static const char *decoded(const char *text, bool is_query)
{
    static char out[256];

    return csn_url_decode(csn_str_of(text), is_query, out) < 0 ? "bad" : out;
}

TEST(segments_are_split_before_they_are_decoded)
{
    csn_url url;

    CHECK_INT(csn_url_parse(csn_str_of("/snapshots/a%2Fb%3Ac/?x=/y?z"), &url), 0);
    CHECK_INT(url.n_segments, 2);
    CHECK(csn_str_is(url.segments[1], "a%2Fb%3Ac"));
    CHECK(csn_str_is(url.query, "x=/y?z"));
    CHECK_INT(csn_url_parse(csn_str_of("http://h:1/a"), &url), 0);
    CHECK(csn_str_is(url.authority, "h:1") && csn_str_is(url.path, "/a"));
    CHECK_INT(csn_url_parse(csn_str_of("/"), &url), 0);
    CHECK_INT(url.n_segments, 0);
    CHECK_INT(csn_url_parse(csn_str_of("//"), &url), 0);
    CHECK_INT(url.n_segments, 1);
    CHECK_INT(csn_url_parse(csn_str_of("*"), &url), -EBADMSG);
    CHECK_INT(csn_url_parse(csn_str_of("http://h"), &url), -EBADMSG);
    CHECK_INT(csn_url_parse(csn_str_of("/1/2/3/4/5/6/7/8/9/1/2/3/4/5/6/7/8/9/1/2/3/4/5/6/7"), &url),
              -EBADMSG);
}

TEST(escapes_are_decoded_or_refused)
{
    CHECK_STR(decoded("a%2fb%2F", false), "a/b/");
    CHECK_STR(decoded("a+b", false), "a+b");
    CHECK_STR(decoded("a+b%2B", true), "a b+");
    CHECK_STR(decoded("%e2%82%ac", true), "\xe2\x82\xac");
    CHECK_STR(decoded("%", false), "bad");
    CHECK_STR(decoded("%4", false), "bad");
    CHECK_STR(decoded("x%4", false), "bad");
    CHECK_STR(decoded("%g0", false), "bad");
    CHECK_STR(decoded("a%00", false), "bad");
}

TEST(a_query_is_a_list_of_pairs)
{
    csn_url_pair pairs[8];
    char out[128];

    CHECK_INT(csn_url_pairs(csn_str_of("a=1&&b&a=2%263&c=&=x"), pairs, 8, out), 5);
    CHECK_STR(pairs[0].value, "1");
    CHECK_STR(pairs[1].key, "b");
    CHECK_STR(pairs[1].value, "");
    CHECK_STR(pairs[2].value, "2&3");
    CHECK_STR(pairs[4].value, "x");
    CHECK_INT(csn_url_pairs(csn_str_of("a&b"), pairs, 1, out), -EBADMSG);
    CHECK_INT(csn_url_pairs(csn_str_of("a=%0"), pairs, 8, out), -EBADMSG);
}

static const char *host_of(const char *text)
{
    static char out[128];
    csn_str name, port;

    if (csn_url_host(csn_str_of(text), &name, &port) < 0)
        return "bad";
    return csn_str_copy(out, sizeof(out), name) < 0 ? "long" : out;
}

TEST(hosts_are_names_or_addresses)
{
    static const char *const bad[] = { "",    ":80",    "a b", "a:b", "a:70000", "[::1",
                                       "[x]", "[::1]x", "a@b", "a/b", "::1",     "[]" };

    CHECK_STR(host_of("localhost:80"), "localhost");
    CHECK_STR(host_of("localhost:"), "localhost");
    CHECK_STR(host_of("[::1]:80"), "::1");
    CHECK_STR(host_of("1.2.3.4"), "1.2.3.4");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_STR(host_of(bad[i]), "bad");
}

TEST(only_names_that_no_dns_can_move_are_loopback)
{
    CHECK(csn_host_is_loopback(csn_str_of("LocalHost")));
    CHECK(csn_host_is_loopback(csn_str_of("3000-x.localhost")));
    CHECK(csn_host_is_loopback(csn_str_of("127.9.9.9")));
    CHECK(csn_host_is_loopback(csn_str_of("::1")));
    CHECK(!csn_host_is_loopback(csn_str_of("127.0.0.1.evil.example")));
    CHECK(!csn_host_is_loopback(csn_str_of("evillocalhost")));
    CHECK(!csn_host_is_loopback(csn_str_of("localhost.evil.example")));
    CHECK(!csn_host_is_loopback(csn_str_of(".localhos")));
}
