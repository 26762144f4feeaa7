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

TEST(uuids_have_their_form_and_differ)
{
    char a[37], b[37];

    CHECK_INT(csn_id_uuid(a), 0);
    CHECK_INT(csn_id_uuid(b), 0);
    CHECK(csn_is_uuid(a));
    CHECK_INT(a[14], '4');
    CHECK(strchr("89ab", a[19]) != NULL);
    CHECK(strcmp(a, b) != 0);
    CHECK(!csn_is_uuid("0f8fad5b-d9cb-469f-a165-70867728950"));
    CHECK(!csn_is_uuid("0f8fad5b-d9cb-469f-a165-70867728950ef"));
    CHECK(!csn_is_uuid("0F8FAD5B-d9cb-469f-a165-70867728950e"));
    CHECK(!csn_is_uuid(""));
}
