/* SPDX-License-Identifier: Apache-2.0 */
#include "upgrade.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

int csn_upgrade_request(csn_buf *out, const char *url, const char *key)
{
    const char *host = strstr(url, "://");
    size_t n;

    if (!host)
        return -EINVAL;
    host += 3;
    n = strcspn(host, "/?#");
    if (n == 0 || memchr(host, '@', n) || strchr(host, '#'))
        return -EINVAL;
    csn_buf_printf(out, "GET %s%s HTTP/1.1\r\nHost: %.*s\r\n", host[n] == '/' ? "" : "/", host + n,
                   (int) n, host);
    csn_buf_printf(out,
                   "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                   "Sec-WebSocket-Key: %s\r\n",
                   key);
    return out->error;
}

/* "HTTP/1.1 NNN …" */
static int status_of(csn_str line)
{
    static const char start[] = "HTTP/1.1 ";
    const size_t n = sizeof(start) - 1;
    int status = 0;

    if (line.len < n + 3 || memcmp(line.data, start, n) != 0 ||
        (line.len > n + 3 && line.data[n + 3] != ' '))
        return -EBADMSG;
    for (size_t i = n; i < n + 3; i++) {
        if (line.data[i] < '0' || line.data[i] > '9')
            return -EBADMSG;
        status = 10 * status + (line.data[i] - '0');
    }
    return status >= 100 ? status : -EBADMSG;
}

static bool is_word(csn_str value, const char *word)
{
    return value.len == strlen(word) && strncasecmp(value.data, word, value.len) == 0;
}

static bool has_word(csn_str list, const char *word)
{
    csn_str part;

    while (csn_str_split(&list, ',', &part))
        if (is_word(csn_str_trim(part), word))
            return true;
    return false;
}

int csn_upgrade_parse(const char *data, size_t len, const char *accept, csn_upgrade_answer *ret)
{
    const char *end = memmem(data, len, "\r\n\r\n", 4);
    bool is_upgrade = false, is_websocket = false, is_accepted = false;
    csn_str rest, line, name;
    int status;

    if (!end)
        return len >= CSN_UPGRADE_HEAD_MAX ? -EBADMSG : 0;
    rest = csn_str_n(data, (size_t) (end - data));
    if (memchr(rest.data, '\0', rest.len) || !csn_str_split(&rest, '\n', &line))
        return -EBADMSG;
    status = status_of(csn_str_trim(line));
    if (status < 0)
        return status;
    while (csn_str_split(&rest, '\n', &line)) {
        if (!csn_str_split(&line, ':', &name) || !line.data)
            return -EBADMSG;
        line = csn_str_trim(line);
        if (is_word(name, "Connection"))
            is_upgrade |= has_word(line, "Upgrade");
        else if (is_word(name, "Upgrade"))
            is_websocket |= is_word(line, "websocket");
        else if (is_word(name, "Sec-WebSocket-Accept"))
            is_accepted = line.len == strlen(accept) && memcmp(line.data, accept, line.len) == 0;
        else if (is_word(name, "Sec-WebSocket-Extensions"))
            return -EBADMSG; /* none was offered */
    }
    ret->status = status;
    ret->head_len = (size_t) (end - data) + 4;
    ret->is_switched = status == 101 && is_upgrade && is_websocket && is_accepted;
    return 1;
}
