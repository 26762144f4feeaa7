#include <errno.h>

#include "base/json.h"
#include "csn_test.h"

static csn_json *parsed(const char *text)
{
    csn_json *doc = NULL;

    CHECK_INT(csn_json_parse(text, strlen(text), &doc, NULL), 0);
    return doc;
}

TEST(members_are_read_by_type_with_defaults)
{
    csn_auto(json) csn_json *doc = parsed(
        "{\"s\":\"x\\ny\",\"i\":9007199254740993,\"d\":1.5,\"w\":3.0,\"b\":true,\"n\":null}");

    CHECK_STR(csn_json_get_str(doc, "s", "def"), "x\ny");
    CHECK_INT(csn_json_str_len(csn_json_get(doc, "s")), 3);
    CHECK_INT(csn_json_get_int(doc, "i", 0), 9007199254740993);
    CHECK_INT(csn_json_get_int(doc, "w", 0), 3);
    CHECK_INT(csn_json_get_int(doc, "d", -7), -7);
    CHECK(csn_json_get_double(doc, "d", 0) == 1.5);
    CHECK(csn_json_get_bool(doc, "b", false));
    CHECK_STR(csn_json_get_str(doc, "n", "def"), "def");
    CHECK_STR(csn_json_get_str(doc, "i", "def"), "def");
    CHECK_STR(csn_json_get_str(NULL, "i", "def"), "def");
    CHECK_INT(csn_json_type_of(csn_json_get(doc, "n")), CSN_JSON_NULL);
    CHECK_INT(csn_json_type_of(csn_json_get(doc, "absent")), CSN_JSON_NONE);
}

TEST(arrays_and_objects_are_walked_in_order)
{
    csn_auto(json) csn_json *doc = parsed("{\"z\":1,\"a\":[10,20],\"m\":3}");
    char keys[8] = "";

    for (void *it = csn_json_iter(doc); it; it = csn_json_iter_next(doc, it))
        strncat(keys, csn_json_iter_key(it), 1);
    CHECK_STR(keys, "zam");
    const csn_json *a = csn_json_get(doc, "a");
    CHECK_INT(csn_json_count(doc), 3);
    CHECK_INT(csn_json_count(a), 2);
    CHECK_INT(csn_json_int(csn_json_at(a, 1), 0), 20);
    CHECK(!csn_json_at(a, 2));
    CHECK_INT(csn_json_count(csn_json_get(doc, "z")), 0);
}

TEST(what_isn_t_strict_json_is_refused)
{
    const char *bad[] = {
        "",
        "{",
        "{} x",
        "{\"a\":1,\"a\":2}",
        "[1,]",
        "{'a':1}",
        "\"\xff\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "01",
        "nul",
        "[1e999]",
        "18446744073709551616",
        "\"a\nb\"",
    };
    csn_json *doc = NULL;
    char where[160];

    for (size_t i = 0; i < CSN_COUNT(bad); i++) {
        CHECK_INT(csn_json_parse(bad[i], strlen(bad[i]), &doc, where), -EBADMSG);
        CHECK(where[0] != '\0');
    }
    CHECK(!doc);
}

TEST(depth_is_bounded)
{
    char text[200];
    csn_json *doc = NULL;

    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    CHECK_INT(csn_json_parse(text, 130, &doc, NULL), -EBADMSG);
    CHECK_INT(csn_json_parse(text + 1, 128, &doc, NULL), 0);
    doc = csn_json_free(doc);
    csn_auto(json) csn_json *brackets =
        parsed("\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
               "[[[[[[[[[[[[[[[[[[[[[[\\\"[[\"");
    CHECK_INT(csn_json_type_of(brackets), CSN_JSON_STRING);
}

static void write_sample(csn_jw *w)
{
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "s", "a\"\\\n\x01\x7f");
    csn_jw_key(w, "list");
    csn_jw_begin_array(w);
    csn_jw_int(w, -5);
    csn_jw_uint(w, UINT64_MAX);
    csn_jw_double(w, 0.1);
    csn_jw_double(w, 2);
    csn_jw_double(w, 1.0 / 0.0);
    csn_jw_str(w, NULL);
    csn_jw_end_array(w);
    csn_jw_kbool(w, "t", true);
    csn_jw_key(w, "e");
    csn_jw_begin_object(w);
    csn_jw_end_object(w);
    csn_jw_key(w, "r");
    csn_jw_raw(w, "[1]", 3);
    csn_jw_key(w, "bad");
    csn_jw_string(w, "x\xffy", 3);
    csn_jw_end_object(w);
}

TEST(the_writer_places_commas_and_quotes)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    write_sample(&w);
    CHECK_INT(out.error, 0);
    CHECK_STR(out.data,
              "{\"s\":\"a\\\"\\\\\\n\\u0001\\u007f\",\"list\":[-5,18446744073709551615,0.1,"
              "2.0,null,null],\"t\":true,\"e\":{},\"r\":[1],\"bad\":\"x\xef\xbf\xbdy\"}");
}

TEST(pretty_text_says_the_same_as_compact)
{
    csn_auto(buf) csn_buf pretty = CSN_BUF_INIT;
    csn_auto(buf) csn_buf a = CSN_BUF_INIT;
    csn_jw wp = CSN_JW_INIT(&pretty, true);

    csn_jw_begin_object(&wp);
    csn_jw_kint(&wp, "a", 1);
    csn_jw_key(&wp, "b");
    csn_jw_begin_array(&wp);
    csn_jw_kdouble(&wp, "no", 1); /* a key in an array */
    CHECK_INT(pretty.error, -EINVAL);
    csn_buf_clear(&pretty);
    wp = (csn_jw) CSN_JW_INIT(&pretty, true);
    csn_jw_begin_object(&wp);
    csn_jw_kint(&wp, "a", 1);
    csn_jw_key(&wp, "b");
    csn_jw_begin_array(&wp);
    csn_jw_int(&wp, 2);
    csn_jw_end_array(&wp);
    csn_jw_end_object(&wp);
    CHECK_STR(pretty.data, "{\n  \"a\": 1,\n  \"b\": [\n    2\n  ]\n}");
    csn_auto(json) csn_json *doc = parsed(pretty.data);
    CHECK_INT(csn_json_dump(doc, false, &a), 0);
    CHECK_STR(a.data, "{\"a\":1,\"b\":[2]}");
}

TEST(misuse_of_the_writer_is_an_error)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    csn_jw_int(&w, 1);
    csn_jw_int(&w, 2); /* a second top value */
    CHECK_INT(out.error, -EINVAL);
    csn_buf_clear(&out);
    w = (csn_jw) CSN_JW_INIT(&out, false);
    csn_jw_begin_object(&w);
    csn_jw_int(&w, 1); /* a value without a key */
    CHECK_INT(out.error, -EINVAL);
    csn_buf_clear(&out);
    w = (csn_jw) CSN_JW_INIT(&out, false);
    csn_jw_begin_array(&w);
    csn_jw_end_object(&w); /* the wrong end */
    CHECK_INT(out.error, -EINVAL);
}
