/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/seal.h"
#include "csn_test.h"

static void seal(csn_buf *text, const char *json)
{
    csn_buf_puts(text, json);
    CHECK_INT(csn_seal(text), 0);
}

TEST(what_was_sealed_is_whole_and_still_json)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(json) csn_json *doc = NULL;

    seal(&text, "{\"a\":1,\"b\":\"x\"}\n");
    CHECK_INT(csn_seal_check(text.data, text.len), 0);
    CHECK_INT(csn_json_parse(text.data, text.len, &doc, NULL), 0);
    CHECK_INT(csn_json_get_int(doc, "a", 0), 1);
    CHECK(text.data[text.len - 1] == '\n');
}

/* Each bit of the content: told by the checksum. Each of the rest: told, no JSON any more, or harmless to the content. */
TEST(no_bit_of_the_content_changes_unseen)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    const char *content = "{\"name\":\"one\",\"memory\":1073741824";
    size_t n = strlen(content);

    seal(&text, "{\"name\":\"one\",\"memory\":1073741824}");
    CHECK(memcmp(text.data, content, n) == 0);
    for (size_t i = 0; i < n * 8; i++) {
        text.data[i / 8] ^= (char) (1 << i % 8);
        CHECK_INT(csn_seal_check(text.data, text.len), -EBADMSG);
        text.data[i / 8] ^= (char) (1 << i % 8);
    }
    for (size_t i = n * 8; i < text.len * 8; i++) {
        csn_auto(json) csn_json *doc = NULL;
        text.data[i / 8] ^= (char) (1 << i % 8);
        if (csn_seal_check(text.data, text.len) == 0 &&
            csn_json_parse(text.data, text.len, &doc, NULL) == 0)
            CHECK_INT(csn_json_get_int(doc, "memory", 0), 1073741824);
        text.data[i / 8] ^= (char) (1 << i % 8);
    }
}

TEST(damage_is_told_from_a_lack_of_something)
{
    CHECK(csn_is_damage(-EBADMSG) && csn_is_damage(EACCES));
    CHECK(!csn_is_damage(-ENOMEM) && !csn_is_damage(EMFILE) && !csn_is_damage(0));
}

TEST(what_has_no_checksum_is_taken_as_it_is)
{
    CHECK_INT(csn_seal_check("{}", 2), 0);
    CHECK_INT(csn_seal_check("", 0), 0);
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_buf_puts(&text, "no object");
    CHECK_INT(csn_seal(&text), -EINVAL);
}
