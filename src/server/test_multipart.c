/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "csn_test.h"
#include "server/multipart.h"

static int on_part(const csn_part *part, void *user)
{
    return csn_buf_printf(user, "<%s|%s|%s>", part->name, part->filename ? part->filename : "-",
                          part->content_type ? part->content_type : "-");
}

static int on_data(const csn_part *part, const char *data, size_t len, void *user)
{
    (void) part;
    return csn_buf_append(user, data, len);
}

static int on_end(const csn_part *part, void *user)
{
    return csn_buf_printf(user, "</%s>", part->name);
}

static const csn_multipart_events events = { on_part, on_data, on_end };

/* Fed in pieces that end at a and b. */
static int read_cut(const char *text, size_t a, size_t b, csn_buf *out)
{
    csn_multipart *m = NULL;
    size_t len = strlen(text);

    csn_buf_clear(out);
    CHECK_INT(csn_multipart_new("multipart/form-data; boundary=XyZ", &events, out, &m), 0);
    int r = csn_multipart_feed(m, text, a);
    if (r == 0)
        r = csn_multipart_feed(m, text + a, b - a);
    if (r == 0)
        r = csn_multipart_feed(m, text + b, len - b);
    if (r == 0)
        r = csn_multipart_finish(m);
    csn_multipart_free(m);
    return r;
}

static const char body[] =
    "nothing\r\n--XyZ\r\n"
    "Content-Disposition: form-data; name=\"files[0].path\"\r\n\r\n/tmp/a b\r\n--XyZ\r\n"
    "content-disposition: form-data; name=\"files[0].file\"; filename=\"a \\\"b\\\"\"\r\n"
    "Content-Type: text/plain\r\n\r\none\r\n--Xy\r\r\n--XyY\r\n\r\n--XyZ \r\n"
    "Content-Disposition: form-data; filename=\"x\"; name=e; filename*=UTF-8''%c3%a4%2Fb\r\n\r\n\r\n"
    "--XyZ--\r\nrest";
static const char parts[] = "<files[0].path|-|->/tmp/a b</files[0].path>"
                            "<files[0].file|a \"b\"|text/plain>one\r\n--Xy\r\r\n--XyY\r\n"
                            "</files[0].file><e|\xc3\xa4/b|-></e>";

/* Longer than what is looked at in one go, with parts of the delimiter all over. */
TEST(a_delimiter_is_found_at_any_place_of_a_long_piece)
{
    static const char head[] = "--XyZ\r\nContent-Disposition: form-data; name=f\r\n\r\n";
    csn_auto(buf) csn_buf in = CSN_BUF_INIT, out = CSN_BUF_INIT, want = CSN_BUF_INIT;

    for (size_t n = 0; n < 300; n++) {
        csn_buf_clear(&in);
        csn_buf_clear(&want);
        csn_buf_puts(&in, head);
        csn_buf_puts(&want, "<f|-|->");
        for (size_t i = 0; i < n; i++) {
            csn_buf_append(&in, &"\rab\r\n--XyYZ"[i % 11], 1);
            csn_buf_append(&want, &"\rab\r\n--XyYZ"[i % 11], 1);
        }
        csn_buf_puts(&in, "\r\n--XyZ--\r\n");
        csn_buf_puts(&want, "</f>");
        CHECK_INT(read_cut(in.data, in.len, in.len, &out), 0);
        CHECK_STR(out.data, want.data);
    }
}

TEST(a_body_cut_anywhere_in_two_or_three_has_the_same_parts)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    size_t len = sizeof(body) - 1;

    for (size_t a = 0; a <= len; a++) {
        for (size_t b = a; b <= len; b++) {
            CHECK_INT(read_cut(body, a, b, &out), 0);
            CHECK_STR(out.data, parts);
        }
    }
}

TEST(a_body_cut_short_anywhere_is_noticed)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    const char *end = strstr(body, "--XyZ--");

    for (const char *at = body; at < end + 7; at++) {
        char *text = strndup(body, (size_t) (at - body));
        CHECK(text);
        int r = read_cut(text, 0, 0, &out);
        free(text);
        CHECK_INT(r, -EBADMSG);
    }
}

TEST(malformed_bodies_are_refused)
{
    static const char *const bad[] = {
        "",
        "x",
        "--XyZ",
        "--XyZ\n\n\n--XyZ--",
        "--XyZx\r\n\r\n\r\n--XyZ--",
        "--XyZ-\r\n",
        "--XyZ\r\nno colon\r\n\r\n\r\n--XyZ--",
        "--XyZ\r\n: x\r\n\r\n\r\n--XyZ--",
        "--XyZ\r\nContent-Disposition: form-data; name=\"x\r\n\r\n\r\n--XyZ--",
        "--XyZ\r\nContent-Disposition: form-data; filename*=utf-8''%0\r\n\r\n\r\n--XyZ--",
    };
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    for (size_t i = 0; i < CSN_COUNT(bad); i++)
        CHECK_INT(read_cut(bad[i], 0, 0, &out), -EBADMSG);
}

TEST(a_head_without_end_is_bounded)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    csn_buf_puts(&text, "--XyZ\r\n");
    while (text.len < CSN_PART_HEAD_MAX + 100)
        csn_buf_puts(&text, "A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n");
    CHECK_INT(read_cut(text.data, 0, 0, &out), -E2BIG);
}

TEST(only_form_data_with_a_good_boundary_is_read)
{
    static const char *const good[] = { "multipart/form-data; boundary=X",
                                        "Multipart/Form-Data;charset=x; Boundary=\"a b\"" };
    static const char *const bad[] = {
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/mixed; boundary=X",
        "multipart/form-data; boundary=\"X",
        "multipart/form-data; boundary=a\tb",
        "multipart/form-data; boundary=01234567890123456789012345678901234567890123456789012345678901234567890",
    };
    csn_multipart *m = NULL;

    for (size_t i = 0; i < CSN_COUNT(good); i++) {
        CHECK_INT(csn_multipart_new(good[i], &events, NULL, &m), 0);
        csn_multipart_free(m);
    }
    for (size_t i = 0; i < CSN_COUNT(bad); i++)
        CHECK_INT(csn_multipart_new(bad[i], &events, NULL, &m), -EINVAL);
}

/* What we write, we read: and the name is exactly the path that was asked for. */
TEST(what_is_written_reads_the_same)
{
    static const char *const paths[] = {
        "a",       "/tmp/a b",         "g\xc3\xbc\xc3\xbf", "\xe2\x82\xac/\xf0\x9f\x98\x80",
        "q\"u\\o", "line\nfeed\r\x01", "bad\xff\xc3"
    };
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_auto(buf) csn_buf want = CSN_BUF_INIT;

    for (size_t i = 0; i < CSN_COUNT(paths); i++) {
        csn_multipart_put_head(&text, "XyZ", i == 0, "file", paths[i], "text/plain", 4);
        csn_buf_puts(&text, "data");
        csn_buf_printf(&want, "<file|%s|text/plain>data</file>", paths[i]);
    }
    csn_multipart_put_end(&text, "XyZ", false);
    CHECK_INT(read_cut(text.data, 0, 0, &out), 0);
    CHECK_STR(out.data, want.data);
    CHECK(strstr(text.data, "filename=\"g\xfc\xff\"; filename*=utf-8''g%C3%BC%C3%BF\r\n"));
    CHECK(strstr(text.data, "filename=\"_/_\";"));
    CHECK(strstr(text.data, "filename=\"q\\\"u\\\\o\";"));
    csn_buf_clear(&text);
    csn_multipart_put_end(&text, "XyZ", true);
    CHECK_INT(read_cut(text.data, 0, 0, &out), 0);
}
