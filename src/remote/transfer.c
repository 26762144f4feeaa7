/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request: its body out of memory and a descriptor, its answer into memory or a descriptor, bounded. What comes
 * back is a stranger's; nothing here interprets more of it than the status and three headers. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"
#include "remote.h"

enum { ERROR_BODY_MAX = 64 * 1024, CONNECT_MS = 30 * 1000, RETRY_AFTER_MAX_S = 24 * 3600 };

csn_transfer *csn_transfer_free(csn_transfer *t)
{
    if (!t)
        return NULL;
    csn_list_remove(&t->link);
    t->watch = csn_source_remove(t->watch);
    if (t->easy) {
        (void) curl_multi_remove_handle(t->program->multi, t->easy); /* not in it: fine */
        curl_easy_cleanup(t->easy);
    }
    curl_slist_free_all(t->headers);
    csn_buf_free(&t->head);
    csn_buf_free(&t->tail);
    csn_buf_free(&t->body);
    csn_close(&t->source_fd);
    csn_close(&t->sink_fd);
    free(t);
    return NULL;
}

/* ---- descriptors that may not be ready ---- */

static void on_ready(csn_source *src, uint32_t events, void *user)
{
    csn_transfer *t = user;

    (void) src;
    (void) events;
    t->watch = csn_source_remove(t->watch);
    (void) curl_easy_pause(t->easy, CURLPAUSE_CONT);
    csn_multi_kick(t->program);
}

static bool is_ready(int fd, short events)
{
    struct pollfd p = { fd, events, 0 };

    return poll(&p, 1, 0) > 0;
}

/* False: it can't be watched. */
static bool wait_for(csn_transfer *t, int fd, uint32_t events)
{
    return t->watch || csn_loop_add(t->program->loop, fd, events, on_ready, t, &t->watch) == 0;
}

/* Regular files are always ready. */
static bool may_wait(int fd)
{
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode);
}

/* ---- the request's body ---- */

static size_t take_piece(const csn_buf *from, size_t at, char *to, size_t size)
{
    size_t n = from->len - at < size ? from->len - at : size;

    memcpy(to, from->data + at, n);
    return n;
}

/* The tail begins where the source ended; source_bytes is known from then on. */
static size_t read_source(csn_transfer *t, char *to, size_t size)
{
    ssize_t n;

    if (t->source_waits && !is_ready(t->source_fd, POLLIN))
        return wait_for(t, t->source_fd, EPOLLIN) ? CURL_READFUNC_PAUSE : CURL_READFUNC_ABORT;
    n = csn_read(t->source_fd, to, size);
    if (n == -EAGAIN)
        return wait_for(t, t->source_fd, EPOLLIN) ? CURL_READFUNC_PAUSE : CURL_READFUNC_ABORT;
    if (n < 0)
        return CURL_READFUNC_ABORT;
    return (size_t) n;
}

static size_t give_body(char *to, size_t one, size_t n, void *user)
{
    csn_transfer *t = user;
    size_t size = one * n, got;
    int64_t at = t->n_sent - (int64_t) t->head.len; /* in the source and behind it */

    if (at < 0) {
        got = take_piece(&t->head, (size_t) t->n_sent, to, size);
    } else if (t->source_fd >= 0 && (t->source_bytes < 0 || at < t->source_bytes)) {
        size_t most = t->source_bytes >= 0 && t->source_bytes - at < (int64_t) size
                          ? (size_t) (t->source_bytes - at)
                          : size;
        got = read_source(t, to, most);
        if (got == CURL_READFUNC_PAUSE)
            return got;
        if (got == CURL_READFUNC_ABORT || (got == 0 && t->source_bytes >= 0)) {
            t->failure = CSN_WEB_SOURCE; /* shorter than it was */
            return CURL_READFUNC_ABORT;
        }
        if (got == 0) {
            t->source_bytes = at;
            return give_body(to, one, n, user);
        }
    } else {
        int64_t behind = at - (t->source_fd >= 0 ? t->source_bytes : 0);
        got = take_piece(&t->tail, (size_t) behind, to, size);
    }
    t->n_sent += (int64_t) got;
    return got;
}

/* A kept connection may turn out to be dead: curl starts over on a new one. */
static int rewind_body(void *user, curl_off_t offset, int origin)
{
    csn_transfer *t = user;

    if (offset != 0 || origin != SEEK_SET)
        return CURL_SEEKFUNC_CANTSEEK;
    if (t->source_fd >= 0 && t->n_sent > (int64_t) t->head.len &&
        (t->source_waits || lseek(t->source_fd, t->source_start, SEEK_SET) < 0))
        return CURL_SEEKFUNC_CANTSEEK;
    t->n_sent = 0;
    return CURL_SEEKFUNC_OK;
}

/* ---- the answer ---- */

static bool is_success(const csn_transfer *t)
{
    long status = 0;

    (void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    return status >= 200 && status < 300;
}

static size_t keep_error(csn_transfer *t, const char *data, size_t len)
{
    size_t room = ERROR_BODY_MAX - t->body.len, n = len < room ? len : room;

    if (csn_buf_append(&t->body, data, n) < 0)
        return 0;
    t->is_enough = n < len;
    return n;
}

static size_t sink_piece(csn_transfer *t, const char *data, size_t len)
{
    while (t->n_sunk < len) {
        size_t size = len - t->n_sunk;
        ssize_t n;

        if (t->sink_waits) {
            if (!is_ready(t->sink_fd, POLLOUT))
                return wait_for(t, t->sink_fd, EPOLLOUT) ? CURL_WRITEFUNC_PAUSE : 0;
            size = size < 4096 ? size : 4096; /* a pipe that is ready takes that without blocking */
        }
        n = csn_write(t->sink_fd, data + t->n_sunk, size);
        if (n == -EAGAIN)
            return wait_for(t, t->sink_fd, EPOLLOUT) ? CURL_WRITEFUNC_PAUSE : 0;
        if (n <= 0) {
            t->failure = CSN_WEB_SOURCE;
            return 0;
        }
        t->n_sunk += (size_t) n;
    }
    t->n_sunk = 0;
    return len;
}

static size_t take_body(char *data, size_t one, size_t n, void *user)
{
    csn_transfer *t = user;
    size_t len = one * n;
    curl_off_t announced = -1;

    if (!is_success(t))
        return keep_error(t, data, len);
    if (t->max_bytes >= 0 && t->n_bytes + (int64_t) len > t->max_bytes) {
        (void) curl_easy_getinfo(t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
        t->failure = CSN_WEB_TOO_LARGE;
        t->n_bytes = announced > t->max_bytes ? announced : -1;
        return 0;
    }
    if (t->sink_fd >= 0) {
        size_t r = sink_piece(t, data, len);
        if (r != len)
            return r;
    } else if (csn_buf_append(&t->body, data, len) < 0) {
        return 0;
    }
    t->n_bytes += (int64_t) len;
    return len;
}

static size_t take_header(char *data, size_t one, size_t n, void *user)
{
    static const char name[] = "retry-after:";
    csn_transfer *t = user;
    csn_str line = csn_str_n(data, one * n);
    uint64_t seconds;

    if (line.len < sizeof(name) || strncasecmp(line.data, name, sizeof(name) - 1) != 0)
        return one * n;
    line = csn_str_trim(csn_str_n(line.data + sizeof(name) - 1, line.len - (sizeof(name) - 1)));
    if (csn_parse_u64(line, &seconds) ==
        0) /* a date is not worth a parser: as if nothing was said */
        t->retry_after_ms =
            (int64_t) (seconds < RETRY_AFTER_MAX_S ? seconds : RETRY_AFTER_MAX_S) * 1000;
    return one * n;
}

/* ---- what went wrong ---- */

csn_web_failure csn_curl_failure(CURLcode code)
{
    switch ((int) code) {
    case CURLE_OK:
        return CSN_WEB_OK;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return CSN_WEB_NO_NAME;
    case CURLE_COULDNT_CONNECT:
        return CSN_WEB_REFUSED;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_USE_SSL_FAILED:
        return CSN_WEB_TLS;
    case CURLE_OPERATION_TIMEDOUT:
        return CSN_WEB_TIMED_OUT;
    case CURLE_FILESIZE_EXCEEDED:
        return CSN_WEB_TOO_LARGE;
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_FAIL_REWIND:
        return CSN_WEB_CUT;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return CSN_WEB_PROTOCOL;
    case CURLE_READ_ERROR:
    case CURLE_ABORTED_BY_CALLBACK:
        return CSN_WEB_SOURCE;
    default:
        return CSN_WEB_FAILED;
    }
}

void csn_copy_tidy(char *out, size_t size, const char *text)
{
    size_t n = 0;

    for (; text[n] && n + 1 < size; n++)
        out[n] = (unsigned char) text[n] < ' ' || text[n] == 0x7f ? ' ' : text[n];
    out[n] = '\0';
}

static void on_ended(csn_curl_user *user, CURLcode code)
{
    csn_transfer *t = csn_container_of(user, csn_transfer, curl);
    csn_web_answer *a = &t->answer;
    char *type = NULL;
    long status = 0;

    (void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    (void) curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
    if (t->is_enough) /* an error with a long explanation is still an answer */
        code = CURLE_OK;
    a->end.failure = t->failure ? t->failure : csn_curl_failure(code);
    if (a->end.failure == CSN_WEB_OK && (status < 100 || status > 999))
        a->end.failure = CSN_WEB_PROTOCOL;
    a->end.status = a->end.failure == CSN_WEB_OK ? (int32_t) status : 0;
    a->end.retry_after_ms = t->retry_after_ms;
    a->end.n_bytes = t->n_bytes;
    csn_copy_tidy(t->type, sizeof(t->type), type ? type : "");
    a->content_type = t->type;
    csn_copy_tidy(t->sentence, sizeof(t->sentence),
                  t->words[0] ? t->words : curl_easy_strerror(code));
    a->message = a->end.failure == CSN_WEB_OK ? "" : t->sentence;
    a->body = t->body.data;
    a->body_len = a->end.failure == CSN_WEB_OK ? t->body.len : 0;
    t->done(t, t->program); /* frees it, most often */
}

/* ---- starting ---- */

static bool add_header(csn_transfer *t, const char *line)
{
    struct curl_slist *longer = curl_slist_append(t->headers, line);

    if (longer)
        t->headers = longer;
    return longer != NULL;
}

static bool set_headers(csn_transfer *t, const csn_web_request *req)
{
    const csn_remote_program *p = t->program;
    csn_auto(buf) csn_buf type = CSN_BUF_INIT;
    bool is_fine = add_header(t, "Accept: application/json, */*") && add_header(t, "Expect:");

    if (req->content_type[0]) {
        csn_buf_printf(&type, "Content-Type: %s", req->content_type);
        is_fine = is_fine && type.error == 0 && add_header(t, type.data);
    }
    if ((req->ask.flags & CSN_WEB_WITH_OPTION) && p->option.len > 0)
        is_fine = is_fine && add_header(t, p->option.data);
    if (req->ask.flags & CSN_WEB_WITH_KEY) {
        if (p->authorization.len > 0)
            is_fine = is_fine && add_header(t, p->authorization.data);
        if (p->extra.len > 0)
            is_fine = is_fine && add_header(t, p->extra.data);
    }
    return is_fine;
}

static void set_body(csn_transfer *t, const csn_web_request *req)
{
    int64_t total = (int64_t) t->head.len + (int64_t) t->tail.len;
    bool has_body = req->content_type[0] || total > 0 || t->source_fd >= 0;

    if (strcmp(req->method, "GET") == 0) {
        curl_easy_setopt(t->easy, CURLOPT_HTTPGET, 1L);
        return;
    }
    if (!has_body && strcmp(req->method, "DELETE") == 0) {
        curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, req->method);
        return;
    }
    total = t->source_fd < 0 ? total : t->source_bytes < 0 ? -1 : total + t->source_bytes;
    curl_easy_setopt(t->easy, CURLOPT_POST, 1L);
    curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, req->method);
    curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) total);
    curl_easy_setopt(t->easy, CURLOPT_READFUNCTION, give_body);
    curl_easy_setopt(t->easy, CURLOPT_READDATA, t);
    curl_easy_setopt(t->easy, CURLOPT_SEEKFUNCTION, rewind_body);
    curl_easy_setopt(t->easy, CURLOPT_SEEKDATA, t);
    if (total < 0)
        (void) add_header(
            t, "Transfer-Encoding: chunked"); /* without it curl says so itself in HTTP/2 */
}

void csn_curl_set_connection(CURL *easy, const csn_remote_program *p, const char *url,
                             int64_t timeout_ms, csn_curl_user *user)
{
    const char *ca_file = getenv("SSL_CERT_FILE"), *ca_dir = getenv("SSL_CERT_DIR");
    int64_t connect_ms = timeout_ms < CONNECT_MS ? timeout_ms : CONNECT_MS;

    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L); /* another place must not see the key */
    curl_easy_setopt(easy, CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long) timeout_ms);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long) connect_ms);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, p->agent.data);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    if (ca_file && *ca_file)
        curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file);
    if (ca_dir && *ca_dir)
        curl_easy_setopt(easy, CURLOPT_CAPATH, ca_dir);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, user);
}

static void set_options(csn_transfer *t, const csn_web_request *req)
{
    csn_curl_set_connection(t->easy, t->program, req->url, req->ask.timeout_ms, &t->curl);
    curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(t->easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(t->easy, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, t->words);
}

int csn_transfer_start(csn_remote_program *p, uint32_t id, const csn_web_request *req,
                       int source_fd, int sink_fd, csn_transfer_done *done)
{
    csn_transfer *t = csn_calloc(1, sizeof(*t));

    if (!t) {
        csn_close(&source_fd);
        csn_close(&sink_fd);
        return -ENOMEM;
    }
    *t = (csn_transfer){ .curl.ended = on_ended,
                         .program = p,
                         .id = id,
                         .flags = req->ask.flags,
                         .last = req->ask.last,
                         .done = done,
                         .head = CSN_BUF_INIT,
                         .tail = CSN_BUF_INIT,
                         .body = CSN_BUF_INIT,
                         .source_fd = source_fd,
                         .sink_fd = sink_fd,
                         .source_bytes = req->ask.source_bytes,
                         .source_waits = may_wait(source_fd),
                         .sink_waits = may_wait(sink_fd),
                         .max_bytes = req->ask.max_bytes,
                         .retry_after_ms = -1 };
    csn_list_init(&t->link);
    if (source_fd >= 0 && !t->source_waits)
        t->source_start = lseek(source_fd, 0, SEEK_CUR);
    csn_buf_append(&t->head, req->head, req->head_len);
    csn_buf_append(&t->tail, req->tail, req->tail_len);
    t->easy = curl_easy_init();
    if (!t->easy || t->head.error < 0 || t->tail.error < 0 || !set_headers(t, req)) {
        csn_transfer_free(t);
        return -ENOMEM;
    }
    set_options(t, req);
    set_body(t, req);
    curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
    if (curl_multi_add_handle(p->multi, t->easy) != CURLM_OK) {
        csn_transfer_free(t);
        return -ENOMEM;
    }
    csn_list_append(&p->transfers, &t->link);
    return 0;
}
