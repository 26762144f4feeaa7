/* caisson-llm: one chat request to an OpenAI-compatible endpoint per process, so that libcaisson and the command line need
 * no HTTP library. stdin: {"url", "model", "prompt", "max_tokens", "timeout_ms"}; the key is CAISSON_LLM_KEY in the
 * environment. stdout: {"text": …}, or {"kind", "error"[, "status"]} with kind auth, rate_limit, timeout, http, network or
 * protocol. Too many requests, server errors and lost connections are tried again, three times in all, within the limit. */
#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"

enum { REQUEST_MAX = 256 << 20, REPLY_MAX = 16 << 20, TRIES = 3, WAIT_MS = 500 };

struct ask {
    csn_json *request;
    csn_buf url, body, reply;
    int64_t deadline_ns;
    long status;
    CURLcode code;
    int64_t retry_ms; /* what the server asked for; 0: nothing */
};

static size_t take_reply(char *data, size_t size, size_t n, void *user)
{
    return csn_buf_append(user, data, size * n) == 0 ? size * n : 0;
}

static size_t take_header(char *data, size_t size, size_t n, void *user)
{
    struct ask *a = user;
    csn_str line = csn_str_trim(csn_str_n(data, size * n));
    static const char name[] = "retry-after:";
    uint64_t seconds;

    if (line.len > sizeof(name) - 1 && strncasecmp(line.data, name, sizeof(name) - 1) == 0) {
        line = csn_str_trim(csn_str_n(line.data + sizeof(name) - 1, line.len - (sizeof(name) - 1)));
        if (csn_parse_u64(line, &seconds) == 0 && seconds < 3600)
            a->retry_ms = (int64_t) seconds * 1000;
    }
    return size * n;
}

static void put_url(struct ask *a)
{
    csn_str url = csn_str_of(csn_json_get_str(a->request, "url", ""));

    while (url.len && url.data[url.len - 1] == '/')
        url.len--;
    csn_buf_append(&a->url, url.data, url.len);
    if (!csn_str_ends_with(url, CSN_STR("/chat/completions")))
        csn_buf_puts(&a->url, "/chat/completions");
}

static void put_body(struct ask *a)
{
    csn_jw w = CSN_JW_INIT(&a->body, false);
    const csn_json *prompt = csn_json_get(a->request, "prompt");

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "model", csn_json_get_str(a->request, "model", "default"));
    csn_jw_kint(&w, "max_tokens", csn_json_get_int(a->request, "max_tokens", 4096));
    csn_jw_key(&w, "messages");
    csn_jw_begin_array(&w);
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "role", "user");
    csn_jw_key(&w, "content");
    csn_jw_string(&w, csn_json_str(prompt, ""), csn_json_str_len(prompt));
    csn_jw_end_object(&w);
    csn_jw_end_array(&w);
    csn_jw_end_object(&w);
}

static struct curl_slist *make_headers(void)
{
    const char *key = getenv("CAISSON_LLM_KEY");
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;
    struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");

    if (key && *key && csn_buf_printf(&line, "Authorization: Bearer %s", key) == 0)
        list = curl_slist_append(list, line.data);
    return list;
}

static void request(struct ask *a, struct curl_slist *headers)
{
    CURL *curl = curl_easy_init();

    a->code = CURLE_OUT_OF_MEMORY;
    a->status = 0;
    a->retry_ms = 0;
    csn_buf_clear(&a->reply);
    if (!curl)
        return;
    curl_easy_setopt(curl, CURLOPT_URL, a->url.data);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, a->body.data);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) a->body.len);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long) csn_remaining_ms(a->deadline_ns));
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_reply);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &a->reply);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, a);
    a->code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &a->status);
    curl_easy_cleanup(curl);
}

/* Worth another try: it may go better, and there is time for it. */
static bool wants_retry(const struct ask *a, int tries)
{
    bool is_passing = a->code == CURLE_OK
                          ? a->status == 429 || a->status >= 500
                          : a->code != CURLE_OPERATION_TIMEDOUT && a->code != CURLE_OUT_OF_MEMORY &&
                                a->code != CURLE_WRITE_ERROR && a->code != CURLE_URL_MALFORMAT &&
                                a->code != CURLE_UNSUPPORTED_PROTOCOL;
    int64_t wait = a->retry_ms ? a->retry_ms : (int64_t) WAIT_MS << tries;

    if (!is_passing || tries + 1 >= TRIES ||
        csn_remaining_ns(a->deadline_ns) <= wait * CSN_NS_PER_MS)
        return false;
    (void) poll(NULL, 0, (int) wait); /* what the server, or good manners, ask for */
    return true;
}

static int say(const char *kind, const char *error, long status)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "kind", kind);
    csn_jw_kstr(&w, "error", error);
    csn_jw_kint(&w, "status", status);
    csn_jw_end_object(&w);
    return csn_write_all(STDOUT_FILENO, out.data, out.len) < 0;
}

/* The server's own words, where it has some. */
static int say_status(const struct ask *a)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    const char *words;

    (void) csn_json_parse(a->reply.data, a->reply.len, &doc, NULL); /* no JSON: no words */
    words =
        csn_json_get_str(csn_json_get(doc, "error"), "message", csn_json_get_str(doc, "error", ""));
    csn_buf_printf(&text, "HTTP %ld%s%s", a->status, *words ? ": " : "", words);
    if (!*words)
        csn_buf_puts(&text, " from the model's endpoint");
    return say(a->status == 401 || a->status == 403 ? "auth"
               : a->status == 429                   ? "rate_limit"
                                                    : "http",
               text.data, a->status);
}

static int say_answer(const struct ask *a)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    const csn_json *content = NULL;

    if (csn_json_parse(a->reply.data, a->reply.len, &doc, NULL) == 0)
        content = csn_json_get(
            csn_json_get(csn_json_at(csn_json_get(doc, "choices"), 0), "message"), "content");
    if (csn_json_type_of(content) != CSN_JSON_STRING)
        return say("protocol", "the endpoint's reply is no chat completion", a->status);
    csn_jw_begin_object(&w);
    csn_jw_key(&w, "text");
    csn_jw_string(&w, csn_json_str(content, ""), csn_json_str_len(content));
    csn_jw_end_object(&w);
    return csn_write_all(STDOUT_FILENO, out.data, out.len) < 0;
}

static int say_network(const struct ask *a)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    csn_buf_printf(&text, "the model's endpoint %s: %s", a->url.data, curl_easy_strerror(a->code));
    return say("network", text.data, 0);
}

static int answer(struct ask *a)
{
    struct curl_slist *headers = make_headers();
    int tries = 0;

    request(a, headers);
    while (wants_retry(a, tries++))
        request(a, headers);
    curl_slist_free_all(headers);
    if (a->code == CURLE_OPERATION_TIMEDOUT)
        return say("timeout", "the endpoint did not answer in time", 0);
    if (a->code == CURLE_WRITE_ERROR)
        return say("protocol", "the endpoint's reply is larger than 16 MiB", a->status);
    if (a->code != CURLE_OK)
        return say_network(a);
    return a->status >= 200 && a->status < 300 ? say_answer(a) : say_status(a);
}

int main(void)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT_MAX(REQUEST_MAX);
    struct ask a = { .url = CSN_BUF_INIT,
                     .body = CSN_BUF_INIT_MAX(REQUEST_MAX),
                     .reply = CSN_BUF_INIT_MAX(REPLY_MAX) };
    int status;

    if (csn_read_to_buf(STDIN_FILENO, &text, REQUEST_MAX) < 0 ||
        csn_json_parse(text.data, text.len, &a.request, NULL) < 0) {
        fputs("caisson-llm: a helper of caisson; it wants a request as JSON on stdin\n", stderr);
        return 2;
    }
    a.deadline_ns = csn_deadline_in_ms(csn_json_get_int(a.request, "timeout_ms", 60000));
    curl_global_init(CURL_GLOBAL_DEFAULT);
    put_url(&a);
    put_body(&a);
    status = answer(&a);
    csn_buf_free(&a.url);
    csn_buf_free(&a.body);
    csn_buf_free(&a.reply);
    csn_json_free(a.request);
    curl_global_cleanup();
    return status;
}
