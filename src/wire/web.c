/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/web.h"

#include <errno.h>
#include <string.h>

/* Nothing that could begin another header line. */
static bool is_header_value(const char *s, size_t max)
{
    size_t n = 0;

    for (; s[n]; n++)
        if ((unsigned char) s[n] < ' ' || s[n] == 0x7f || n >= max)
            return false;
    return true;
}

static bool is_method(const char *s)
{
    static const char *const all[] = { "GET", "POST", "PUT", "DELETE" };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(s, all[i]) == 0)
            return true;
    return false;
}

bool csn_web_is_url(const char *url)
{
    size_t n = 0;

    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return false;
    for (; url[n]; n++)
        if (url[n] <= ' ' || url[n] >= 0x7f || n >= CSN_WEB_URL_MAX)
            return false;
    return true;
}

void csn_web_request_pack(csn_pack *p, const csn_web_request *req)
{
    csn_pack_str(p, req->method);
    csn_pack_str(p, req->url);
    csn_pack_str(p, req->content_type);
    csn_pack_bytes(p, req->head, req->head_len);
    csn_pack_bytes(p, req->tail, req->tail_len);
}

int csn_web_request_unpack(csn_unpack *u, const csn_web_ask *ask, csn_web_request *ret)
{
    const uint32_t known = CSN_WEB_WITH_KEY | CSN_WEB_HAS_SOURCE | CSN_WEB_HAS_SINK |
                           CSN_WEB_FINISH | CSN_WEB_WITH_OPTION;
    csn_web_request req = { .ask = *ask };

    req.method = csn_unpack_str(u);
    req.url = csn_unpack_str(u);
    req.content_type = csn_unpack_str(u);
    req.head = csn_unpack_bytes(u, &req.head_len);
    req.tail = csn_unpack_bytes(u, &req.tail_len);
    if (csn_unpack_end(u) < 0 || (ask->flags & ~known) || ask->timeout_ms <= 0)
        return -EBADMSG;
    if (!is_method(req.method) || !csn_web_is_url(req.url) ||
        !is_header_value(req.content_type, 256))
        return -EBADMSG;
    if (!(ask->flags & CSN_WEB_HAS_SINK) &&
        (ask->max_bytes < 0 || ask->max_bytes > CSN_WEB_BODY_MAX))
        return -EBADMSG;
    if (!(ask->flags & CSN_WEB_HAS_SOURCE) && ask->source_bytes != 0)
        return -EBADMSG;
    *ret = req;
    return 0;
}

void csn_web_answer_pack(csn_pack *p, const csn_web_answer *answer)
{
    csn_pack_str(p, answer->content_type);
    csn_pack_str(p, answer->message);
    csn_pack_bytes(p, answer->body, answer->body_len);
}

int csn_web_answer_unpack(csn_unpack *u, const csn_web_end *end, csn_web_answer *ret)
{
    csn_web_answer answer = { .end = *end };

    answer.content_type = csn_unpack_str(u);
    answer.message = csn_unpack_str(u);
    answer.body = csn_unpack_bytes(u, &answer.body_len);
    if (csn_unpack_end(u) < 0 || end->failure > CSN_WEB_FAILED)
        return -EBADMSG;
    if (end->failure == CSN_WEB_OK && (end->status < 100 || end->status > 999))
        return -EBADMSG;
    if (!is_header_value(answer.content_type, 512) || !is_header_value(answer.message, 512))
        return -EBADMSG;
    *ret = answer;
    return 0;
}

void csn_web_last_pack(csn_pack *p, const csn_web_last *last)
{
    csn_pack_str(p, last->method);
    csn_pack_str(p, last->url);
}

int csn_web_last_unpack(csn_unpack *u, csn_web_last *ret)
{
    csn_web_last last;

    last.method = csn_unpack_str(u);
    last.url = csn_unpack_str(u);
    if (csn_unpack_end(u) < 0)
        return -EBADMSG;
    if (last.method[0] && (!is_method(last.method) || !csn_web_is_url(last.url)))
        return -EBADMSG;
    *ret = last;
    return 0;
}

void csn_web_key_pack(csn_pack *p, const csn_web_key *key)
{
    csn_pack_str(p, key->authorization);
    csn_pack_str(p, key->extra);
    csn_pack_str(p, key->agent);
    csn_pack_str(p, key->option);
}

int csn_web_key_unpack(csn_unpack *u, csn_web_key *ret)
{
    csn_web_key key;

    key.authorization = csn_unpack_str(u);
    key.extra = csn_unpack_str(u);
    key.agent = csn_unpack_str(u);
    key.option = csn_unpack_str(u);
    if (csn_unpack_end(u) < 0 || !is_header_value(key.authorization, CSN_WEB_KEY_MAX) ||
        !is_header_value(key.extra, 256) || !is_header_value(key.agent, 256) ||
        !is_header_value(key.option, 256))
        return -EBADMSG;
    *ret = key;
    return 0;
}

/* ---- WebSockets ---- */

void csn_web_call_pack(csn_pack *p, const csn_web_call *call)
{
    csn_pack_str(p, call->url);
    csn_pack_str(p, call->offer);
}

int csn_web_call_unpack(csn_unpack *u, const csn_web_dial *dial, csn_web_call *ret)
{
    csn_web_call call = { .dial = *dial };

    call.url = csn_unpack_str(u);
    call.offer = csn_unpack_str(u);
    if (csn_unpack_end(u) < 0 || (dial->flags & ~(uint32_t) CSN_WEB_WITH_KEY) || dial->reserved ||
        dial->timeout_ms <= 0)
        return -EBADMSG;
    if (!csn_web_is_url(call.url) || !is_header_value(call.offer, CSN_WEB_OFFER_MAX))
        return -EBADMSG;
    *ret = call;
    return 0;
}

int csn_web_switch_unpack(csn_unpack *u, const csn_web_switch *sw, const char **ret_message)
{
    const char *message = csn_unpack_str(u);

    if (csn_unpack_end(u) < 0 || sw->failure > CSN_WEB_FAILED || !is_header_value(message, 512))
        return -EBADMSG;
    if (sw->failure == CSN_WEB_OK && (sw->status < 100 || sw->status > 999))
        return -EBADMSG;
    *ret_message = message;
    return 0;
}

int csn_web_piece_unpack(csn_unpack *u, const csn_web_piece *piece, const char **ret_data,
                         size_t *ret_len)
{
    size_t len;
    const char *data = csn_unpack_bytes(u, &len);

    if (csn_unpack_end(u) < 0 || len > CSN_WEB_PIECE_MAX || piece->reserved ||
        (piece->flags & ~(uint32_t) (CSN_WEB_TEXT | CSN_WEB_MORE)))
        return -EBADMSG;
    *ret_data = data;
    *ret_len = len;
    return 0;
}

int csn_web_close_unpack(csn_unpack *u, const csn_web_close *close, const char **ret_reason,
                         size_t *ret_len)
{
    size_t len;
    const char *reason = csn_unpack_bytes(u, &len);

    if (csn_unpack_end(u) < 0 || len > 123 || close->reserved || close->code < 1000 ||
        close->code > 4999)
        return -EBADMSG;
    *ret_reason = reason;
    *ret_len = len;
    return 0;
}
