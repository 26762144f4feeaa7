#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/sha256.h"
#include "csn_test.h"
#include "frame.h"
#include "pyjson.h"

static const char *rendered(const char *text)
{
    static char shown[512];
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    if (csn_py_render(csn_str_of(text), &out) < 0)
        return "refused";
    CHECK_INT(csn_str_copy(shown, sizeof(shown), csn_str_n(out.data, out.len)), 0);
    return shown;
}

TEST(pythons_json_becomes_valid)
{
    CHECK_STR(rendered(" [NaN, -Infinity, Infinity, 1e5, -0, 12345678901234567890123] "),
              "[\"NaN\",\"-Infinity\",\"Infinity\",1e5,-0,12345678901234567890123]");
    CHECK_STR(rendered("{\"a\\u00e4\": \"\\ud83d\\ude00 \\ud800 \\n\\u0001\"}"),
              "{\"aä\":\"😀 \xef\xbf\xbd \\n\\u0001\"}");
    CHECK_STR(rendered("{}"), "{}");
    CHECK_STR(rendered("\"\\/\""), "\"/\"");
}

TEST(what_is_no_json_is_refused)
{
    const char *const bad[] = { "",    "[",  "[1,]",    "{\"a\" 1}", "01",   "1.",    "-",
                                "nan", "\"", "\"\\x\"", "\"\x01\"",  "[] x", "{1:2}", "\"\xff\"" };

    for (size_t i = 0; i < CSN_COUNT(bad); i++)
        CHECK_STR(rendered(bad[i]), "refused");
}

TEST(nesting_has_an_end)
{
    char deep[4096];

    memset(deep, '[', sizeof(deep) - 1);
    deep[sizeof(deep) - 1] = '\0';
    CHECK_STR(rendered(deep), "refused");
}

static int note(csn_str name, csn_str value, void *user)
{
    csn_buf_printf(user, "%.*s=%.*s;", (int) name.len, name.data, (int) value.len, value.data);
    return 0;
}

TEST(members_of_an_object_one_by_one)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    CHECK_INT(csn_py_each(CSN_STR("{\"a\": 1, \"b\" : [NaN, {}] }"), note, &out), 0);
    CHECK_STR(out.data, "\"a\"=1;\"b\"=[NaN, {}];");
    CHECK(csn_py_each(CSN_STR("[1]"), note, &out) < 0);
    CHECK(csn_py_each(CSN_STR("{\"a\":}"), note, &out) < 0);
}

TEST(frames_of_any_size_come_through)
{
    const size_t sizes[] = { 0, 1, CSN_PACKET_DATA, CSN_PACKET_DATA + 1, 200000 };

    for (size_t k = 0; k < CSN_COUNT(sizes); k++) {
        csn_auto(mem) char *data = calloc(1, sizes[k] + 1);
        csn_frame_out *out;
        csn_frame_in in = CSN_FRAME_IN_INIT(1 << 20);
        char packet[CSN_PACKET_MAX];
        int r = 0;

        for (size_t i = 0; i < sizes[k]; i++)
            data[i] = (char) (i * 31);
        out = csn_frame_new(data, sizes[k]);
        while (r == 0) {
            size_t n = csn_frame_packet(out, packet);

            CHECK(n > 0 && n <= sizeof(packet));
            r = csn_frame_take(&in, packet, n);
            csn_frame_sent(out);
        }
        CHECK_INT(r, 1);
        CHECK_MEM(in.data.data, in.data.len, data, sizes[k]);
        csn_buf_free(&in.data);
        free(out);
    }
}

TEST(frames_that_must_not_be)
{
    csn_frame_in in = CSN_FRAME_IN_INIT(100);

    CHECK(csn_frame_take(&in, "", 0) < 0);
    CHECK(csn_frame_take(&in, "Cx", 2) < 0);
    CHECK(csn_frame_take(&in, "B\0\0\0", 4) < 0);
    CHECK(csn_frame_take(&in, "B\0\0\1\0", 5) < 0);
    CHECK(csn_frame_take(&in, "B\0\0\0\1xx", 7) < 0);
    CHECK_INT(csn_frame_take(&in, "B\0\0\0\4ab", 7), 0);
    CHECK_INT(csn_frame_take(&in, "B\0\0\0\2ab", 7), 1);
    csn_buf_free(&in.data);
}

TEST(sha256_of_known_texts)
{
    unsigned char d[32];

    csn_sha256("abc", 3, d);
    CHECK(d[0] == 0xba && d[1] == 0x78 && d[31] == 0xad);
    csn_sha256("", 0, d);
    CHECK(d[0] == 0xe3 && d[31] == 0x55);
}
