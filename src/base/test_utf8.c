#include "base/utf8.h"
#include "csn_test.h"

#define BAD "\xef\xbf\xbd"

static const char *lossy(const char *data, size_t len)
{
    static csn_buf out = CSN_BUF_INIT;

    csn_buf_clear(&out);
    CHECK_INT(csn_utf8_lossy(NULL, data, len, &out), 0);
    return out.data;
}

TEST(only_shortest_forms_of_real_characters_are_valid)
{
    CHECK(csn_utf8_valid("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10));
    CHECK(csn_utf8_valid("\0", 1));
    CHECK(!csn_utf8_valid("\xc0\x80", 2));         /* overlong NUL */
    CHECK(!csn_utf8_valid("\xe0\x80\xaf", 3));     /* overlong slash */
    CHECK(!csn_utf8_valid("\xed\xa0\x80", 3));     /* a surrogate */
    CHECK(!csn_utf8_valid("\xf4\x90\x80\x80", 4)); /* beyond U+10FFFF */
    CHECK(!csn_utf8_valid("\xe2\x82", 2));         /* cut */
    CHECK(!csn_utf8_valid("\x80", 1));
}

TEST(bad_parts_become_one_replacement_each)
{
    CHECK_STR(lossy("a\xff"
                    "b",
                    3),
              "a" BAD "b");
    CHECK_STR(lossy("\xe2\x82"
                    "x",
                    3),
              BAD "x");
    CHECK_STR(lossy("\xf0\x9f\x98", 3), BAD);
    CHECK_STR(lossy("\xed\xa0\x80", 3), BAD BAD BAD); /* none of them can begin or go on */
    CHECK_STR(lossy("\xc3\xa9", 2), "\xc3\xa9");
}

/* However a text is cut into pieces, the result is the same. */
TEST(pieces_give_the_same_as_the_whole)
{
    static const char text[] = "x\xe2\x82\xac\xf0\x9f\x98\x80\xff\xe2\x82y\xed\xa0\x80\xc3";
    const size_t len = sizeof(text) - 1;
    csn_auto(buf) csn_buf whole = CSN_BUF_INIT;
    csn_auto(buf) csn_buf pieces = CSN_BUF_INIT;

    csn_utf8_lossy(NULL, text, len, &whole);
    for (size_t a = 0; a <= len; a++)
        for (size_t b = a; b <= len; b++) {
            csn_utf8_state state = { .n_held = 0 };
            csn_buf_clear(&pieces);
            csn_utf8_lossy(&state, text, a, &pieces);
            csn_utf8_lossy(&state, text + a, b - a, &pieces);
            csn_utf8_lossy(&state, text + b, len - b, &pieces);
            csn_utf8_finish(&state, &pieces);
            CHECK_STR(pieces.data, whole.data);
        }
}

TEST(shown_text_can_t_drive_the_terminal)
{
    static const char text[] = "ok\n\t\033]0;t\a\x7f\xc2\x9b"
                               "31m\xff\xe2\x80\xae\xc3\xa9\r";
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    CHECK_INT(csn_escape_terminal(text, sizeof(text) - 1, &out), 0);
    CHECK_STR(out.data, "ok\n\t\\x1b]0;t\\x07\\x7f\\x9b31m\\xff\\u{202e}\xc3\xa9\\x0d");
}
