#include "base/script.h"
#include "csn_test.h"

TEST(the_last_component_has_the_suffix)
{
    CHECK_STR(csn_suffix_of("x.py"), ".py");
    CHECK_STR(csn_suffix_of("some.dir/x.tar.gz"), ".gz");
    CHECK_STR(csn_suffix_of("some.dir/x"), "");
    CHECK_STR(csn_suffix_of("some.dir/.profile"), "");
    CHECK_STR(csn_suffix_of(""), "");
}

TEST(a_suffix_names_a_program_or_how_to_build_one)
{
    CHECK_STR(csn_language_of("dir/x.py")->program, "python3");
    CHECK_STR(csn_language_of("x.mjs")->program, "node");
    CHECK(!csn_language_of("x.c")->program && csn_language_of("x.c")->build);
    CHECK(!csn_language_of("x.ts")->program && csn_language_of("x.ts")->build);
    CHECK(!csn_language_of("x"));
    CHECK(!csn_language_of(".py"));
    CHECK(!csn_language_of("x.PY"));
    CHECK(!csn_language_of("py"));
}

TEST(a_first_line_or_a_program_needs_no_suffix)
{
    CHECK(csn_is_executable_text("#!/bin/sh\n", 10));
    CHECK(csn_is_executable_text("\177ELF\2\1", 6));
    CHECK(!csn_is_executable_text("echo", 4));
    CHECK(!csn_is_executable_text("#!", 2));
    CHECK(!csn_is_executable_text("", 0));
}
