#include <errno.h>

#include "base/id.h"
#include "base/str.h"
#include "csn_test.h"

TEST(ids_are_hex_and_differ)
{
    char a[33], b[33];

    CHECK_INT(csn_id_hex(a, 16), 0);
    CHECK_INT(csn_id_hex(b, 16), 0);
    CHECK(csn_is_hex(a, 32));
    CHECK(strcmp(a, b) != 0);
    CHECK_INT(csn_id_hex(a, 33), -EINVAL);
}

TEST(hex_shows_every_byte)
{
    char out[9];

    csn_hex(out, "\x00\x0f\xa0\xff", 4);
    CHECK_STR(out, "000fa0ff");
}
