/* SPDX-License-Identifier: Apache-2.0 */
/* A WebSocket's handshake, without a server. */
#include <errno.h>
#include <string.h>

#include "csn_test.h"
#include "upgrade.h"

#define ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
#define GOOD \
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: keep-alive, upgrade\r\n" \
    "Sec-WebSocket-Accept: " ACCEPT "\r\n\r\n"

static int parse(const char *text, csn_upgrade_answer *ret)
{
    *ret = (csn_upgrade_answer){ 0 };
    return csn_upgrade_parse(text, strlen(text), ACCEPT, ret);
}

TEST(a_request_names_host_and_path)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    CHECK_INT(csn_upgrade_request(&out, "https://h:8443/a/b?c=d", "KEY"), 0);
    CHECK_STR(out.data,
              "GET /a/b?c=d HTTP/1.1\r\nHost: h:8443\r\nUpgrade: websocket\r\n"
              "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: KEY\r\n");
    csn_buf_clear(&out);
    CHECK_INT(csn_upgrade_request(&out, "http://h?c=d", "KEY"), 0);
    CHECK(strncmp(out.data, "GET /?c=d HTTP/1.1\r\nHost: h\r\n", 29) == 0);
    CHECK_INT(csn_upgrade_request(&out, "http://user@h/", "KEY"), -EINVAL);
    CHECK_INT(csn_upgrade_request(&out, "http:///x", "KEY"), -EINVAL);
}

TEST(an_answer_is_read_once_it_is_whole)
{
    csn_upgrade_answer a;

    for (size_t n = 0; n < strlen(GOOD); n++)
        CHECK_INT(csn_upgrade_parse(GOOD, n, ACCEPT, &a), 0);
    CHECK_INT(parse(GOOD "\x82\x01x", &a), 1);
    CHECK(a.is_switched && a.status == 101 && a.head_len == strlen(GOOD));
    CHECK_INT(parse("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}", &a), 1);
    CHECK(!a.is_switched && a.status == 404);
}

TEST(an_answer_to_another_question_is_none)
{
    csn_upgrade_answer a;

    CHECK_INT(csn_upgrade_parse(GOOD, strlen(GOOD), "another=", &a), 1);
    CHECK(!a.is_switched);
    CHECK_INT(parse("HTTP/1.1 101 X\r\nSec-WebSocket-Accept: " ACCEPT "\r\n\r\n", &a), 1);
    CHECK(!a.is_switched);
    CHECK_INT(parse("HTTP/1.0 101 X\r\n\r\n", &a), -EBADMSG);
    CHECK_INT(parse("HTTP/1.1 1o1 X\r\n\r\n", &a), -EBADMSG);
    CHECK_INT(parse("HTTP/1.1 101 X\r\nno colon\r\n\r\n", &a), -EBADMSG);
    CHECK_INT(parse("HTTP/1.1 101 X\r\nSec-WebSocket-Extensions: x\r\n\r\n", &a), -EBADMSG);
}

TEST(a_head_has_an_end)
{
    static char endless[CSN_UPGRADE_HEAD_MAX];
    csn_upgrade_answer a;

    memset(endless, 'x', sizeof(endless));
    CHECK_INT(csn_upgrade_parse(endless, sizeof(endless) - 1, ACCEPT, &a), 0);
    CHECK_INT(csn_upgrade_parse(endless, sizeof(endless), ACCEPT, &a), -EBADMSG);
}
