#include <stdlib.h>

#include "base/time.h"
#include "check.h"
#include "csn_test.h"

/* "yes", or why not. */
static const char *asked(const char *check, const char *data, size_t len)
{
    static csn_buf why = CSN_BUF_INIT;
    csn_artifact_check c;
    csn_check_set *set = NULL;
    csn_error err = { 0 };
    bool yes;

    csn_buf_clear(&why);
    if (csn_artifact_check_parse(check, &c, &err) < 0 || csn_check_set_new(&c, 1, &set, &err) < 0)
        FAIL("%s", err.message);
    yes = csn_check_ask(set, 0, data, len, &why);
    csn_check_set_free(set);
    return yes ? "yes" : why.data;
}

#define ASKED(check, text) asked(check, text, strlen(text))

static const char *refused(const char *check)
{
    static csn_error err;
    csn_artifact_check c;
    csn_check_set *set = NULL;

    err.message[0] = '\0';
    if (csn_artifact_check_parse(check, &c, &err) == CSN_OK &&
        csn_check_set_new(&c, 1, &set, &err) == CSN_OK)
        FAIL("'%s' was taken", check);
    return err.message;
}

TEST(contains_is_literal)
{
    CHECK_STR(ASKED("contains:a.c", "xa.cx"), "yes");
    CHECK_STR(ASKED("contains:a.c", "abc"), "not found");
    CHECK_STR(asked("contains:b", "a\0b", 3), "yes");
    CHECK_STR(ASKED("contains:a:b", "a:b"), "yes");
}

TEST(regex_is_asked_line_by_line)
{
    CHECK_STR(ASKED("regex:^## [0-9]{4}$", "x\r\n## 2026\r\ny"), "yes");
    CHECK_STR(ASKED("regex:^b", "ab"), "no line matches");
    CHECK_STR(ASKED("regex:a.*b", "a\nb"), "no line matches");
}

TEST(min_count_counts_matches_not_lines)
{
    CHECK_STR(ASKED("min-count:3:- ", "- a - b\n- c"), "yes");
    CHECK_STR(ASKED("min-count:4:- ", "- a - b\n- c"), "3 of 4");
    CHECK_STR(ASKED("min-count:2:^x", "xx\nxx"), "yes");
    CHECK_STR(ASKED("min-count:3:^x", "xx\nxx"), "2 of 3");
    CHECK_STR(ASKED("min-count:5:a*", "b"), "2 of 5"); /* empty matches end too */
}

TEST(json_keys_walk_objects_and_arrays)
{
    const char *doc =
        "{\"title\":\"x\",\"items\":[{\"url\":1,\"at\":{\"lat\":2}},{\"url\":3,\"at\":{\"lat\":4}}]}";

    CHECK_STR(ASKED("json-keys:title,items.url,items.at.lat", doc), "yes");
    CHECK_STR(ASKED("json-keys:title, items.name", doc), "key 'items.name' is missing");
    CHECK_STR(ASKED("json-keys:a", "{\"a\":null}"), "key 'a' is missing");
    CHECK_STR(ASKED("json-keys:a.b", "{\"a\":[]}"), "key 'a.b' is missing");
    CHECK(strncmp(ASKED("json-keys:a", "nope"), "not JSON", 8) == 0);
}

TEST(bad_checks_are_named)
{
    CHECK(strstr(refused("contians:x"), "check 'contians:x': expected contains:TEXT"));
    CHECK(strstr(refused("contains:"), "nothing after the ':'"));
    CHECK(strstr(refused("min-count:0:x"), "N of 1 or more"));
    CHECK(strstr(refused("min-count:x"), "min-count:N:RE"));
    CHECK(strstr(refused("regex:("), "check 'regex:('"));
}

TEST(a_huge_hostile_artifact_can_not_hold_up_the_arena)
{
    int64_t start = csn_now_ns();
    size_t len = (size_t) 32 << 20;
    char *data = malloc(len);

    CHECK(data);
    memset(data, 'a', len); /* one line without end */
    CHECK_STR(asked("regex:a+b", data, len), "no match in 2 s");
    CHECK(csn_now_ns() - start < 10 * CSN_NS_PER_S);
    CHECK_STR(asked("contains:b", data, len), "not found");
    free(data);
}
