#include <stdlib.h>

#include "base/buf.h"
#include "csn_test.h"
#include "dotenv.h"

static csn_buf warnings = CSN_BUF_INIT;

static void warn(const char *message, void *user)
{
    (void) user;
    csn_buf_printf(&warnings, "%s\n", message);
}

static csn_dotenv parsed(const char *text)
{
    csn_dotenv env = { 0 };

    csn_buf_clear(&warnings);
    CHECK_INT(csn_dotenv_parse(&env, ".env", text, strlen(text), warn, NULL), 0);
    return env;
}

TEST(plain_values_export_and_comments)
{
    csn_dotenv env = parsed("# a comment\n\nA=one\nexport B=two\n  C = three  \nD=\nE\n"
                            "URL=https://x/v1  # Default\nF=a#b\n");

    CHECK_STR(csn_dotenv_get(&env, "A"), "one");
    CHECK_STR(csn_dotenv_get(&env, "B"), "two");
    CHECK_STR(csn_dotenv_get(&env, "C"), "three");
    CHECK_STR(csn_dotenv_get(&env, "D"), "");
    CHECK(csn_dotenv_get(&env, "E") == NULL);
    CHECK_STR(csn_dotenv_get(&env, "URL"), "https://x/v1");
    CHECK_STR(csn_dotenv_get(&env, "F"), "a#b");
    CHECK_STR(warnings.data, "");
    csn_dotenv_done(&env);
}

TEST(quotes_keep_and_escape)
{
    csn_dotenv env =
        parsed("A='lit \\n $X #no'\nB=\"tab\\tnl\\nq\\\"b\\\\ # in\" # out\nC='two\nlines'\n"
               "D=\"x\r\ny\"\nE=after\n");

    CHECK_STR(csn_dotenv_get(&env, "A"), "lit \\n $X #no");
    CHECK_STR(csn_dotenv_get(&env, "B"), "tab\tnl\nq\"b\\ # in");
    CHECK_STR(csn_dotenv_get(&env, "C"), "two\nlines");
    CHECK_STR(csn_dotenv_get(&env, "D"), "x\ny");
    CHECK_STR(csn_dotenv_get(&env, "E"), "after");
    csn_dotenv_done(&env);
}

TEST(bom_and_crlf_are_tolerated)
{
    csn_dotenv env = parsed("\xef\xbb\xbf"
                            "A=1\r\nB=2\r\n\r\n");

    CHECK_STR(csn_dotenv_get(&env, "A"), "1");
    CHECK_STR(csn_dotenv_get(&env, "B"), "2");
    csn_dotenv_done(&env);
}

TEST(names_expand_from_the_environment_then_from_earlier_lines)
{
    csn_dotenv env;

    (void) setenv("CSN_TEST_OUTER", "outer", 1);
    env = parsed(
        "CSN_TEST_OUTER=inner\nA=early\nB=${A}-${CSN_TEST_OUTER}\nC='${A}'\nD=${NONE}x\nE=$A\n");
    CHECK_STR(csn_dotenv_get(&env, "B"), "early-outer");
    CHECK_STR(csn_dotenv_get(&env, "C"), "${A}");
    CHECK_STR(csn_dotenv_get(&env, "D"), "x");
    CHECK_STR(csn_dotenv_get(&env, "E"), "$A");
    csn_dotenv_done(&env);
}

TEST(a_malformed_line_is_passed_over_with_a_warning)
{
    csn_dotenv env = parsed("A=1\n=x\n1B=2\nC D=3\nE=\"open\nF=6\nG=\"x\" y\nH=8");

    CHECK_STR(csn_dotenv_get(&env, "A"), "1");
    CHECK_STR(csn_dotenv_get(&env, "F"), "6");
    CHECK_STR(csn_dotenv_get(&env, "H"), "8");
    CHECK(!csn_dotenv_get(&env, "C") && !csn_dotenv_get(&env, "E") && !csn_dotenv_get(&env, "G"));
    CHECK(strstr(warnings.data, ".env:2: no name before '='; the line is ignored"));
    CHECK(strstr(warnings.data, ".env:4: '=' expected after the name"));
    CHECK(strstr(warnings.data, ".env:5: the closing quote is missing"));
    CHECK(strstr(warnings.data, ".env:7: text after the closing quote"));
    csn_dotenv_done(&env);
}
