#include <errno.h>
#include <stdio.h>

#include "csn_test.h"
#include "unpack/entry_path.h"

static const char *clean(const char *name)
{
    static char out[CSN_ENTRY_PATH_MAX];
    int r = csn_entry_path(name, 10, out);

    return r == 0 ? out : r == -EINVAL ? "(refused)" : r == -ELOOP ? "(deep)" : "(long)";
}

TEST(ordinary_names_are_made_clean)
{
    CHECK_STR(clean("usr/bin/env"), "usr/bin/env");
    CHECK_STR(clean("./usr//bin/"), "usr/bin");
    CHECK_STR(clean("./"), "");
    CHECK_STR(clean("."), "");
    CHECK_STR(clean("..."), "...");
    CHECK_STR(clean("a/..b/c.."), "a/..b/c..");
    CHECK_STR(clean("\xff\xfe name\n"), "\xff\xfe name\n");
}

TEST(names_that_lead_elsewhere_are_refused)
{
    CHECK_STR(clean(""), "(refused)");
    CHECK_STR(clean("/"), "(refused)");
    CHECK_STR(clean("/etc/passwd"), "(refused)");
    CHECK_STR(clean(".."), "(refused)");
    CHECK_STR(clean("../x"), "(refused)");
    CHECK_STR(clean("a/../../x"), "(refused)");
    CHECK_STR(clean("a/.."), "(refused)");
}

TEST(names_have_bounds)
{
    char part[300], whole[9000];

    CHECK_STR(clean("1/2/3/4/5/6/7/8/9/10"), "1/2/3/4/5/6/7/8/9/10");
    CHECK_STR(clean("1/2/3/4/5/6/7/8/9/10/11"), "(deep)");
    memset(part, 'a', 256);
    part[256] = '\0';
    CHECK_STR(clean(part), "(long)");
    part[255] = '\0';
    CHECK_STR(clean(part), part);
    (void) snprintf(whole, sizeof(whole), "%s/%s", part, part);
    CHECK_STR(clean(whole), whole);
}

TEST(a_name_is_shown_without_its_tricks)
{
    char out[32];

    CHECK_STR(csn_entry_show("plain", out, sizeof(out)), "plain");
    CHECK_STR(csn_entry_show("a\x1b[31m\n", out, sizeof(out)), "a?[31m?");
    CHECK_STR(csn_entry_show("\xc3\xa4\xff", out, sizeof(out)), "\xc3\xa4?");
    CHECK_STR(csn_entry_show("\xe2\x80\xaegpj", out, sizeof(out)), "?gpj");
    CHECK(strlen(csn_entry_show("a name that is longer than its place", out, sizeof(out))) < 32);
}
