/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

int bench_http_open(bench_http *h, int port, const char *key)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t) port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    *h = (bench_http){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .port = port, .key = key };
    setsockopt(h->fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    return connect(h->fd, (struct sockaddr *) &to, sizeof(to));
}

void bench_http_close(bench_http *h)
{
    if (h->fd >= 0)
        close(h->fd);
    h->fd = -1;
}

static int write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t r = send(fd, p, n, MSG_NOSIGNAL);
        if (r <= 0)
            return -1;
        p += r;
        n -= (size_t) r;
    }
    return 0;
}

/* Reads until the headers are whole. The number of bytes read, those of the body included; *split: where it starts. */
static ssize_t read_head(bench_http *h, size_t *split)
{
    size_t n = 0;
    while (n < sizeof(h->head) - 1) {
        ssize_t r = read(h->fd, h->head + n, sizeof(h->head) - 1 - n);
        if (r <= 0)
            return -1;
        n += (size_t) r;
        h->head[n] = '\0';
        char *end = strstr(h->head, "\r\n\r\n");
        if (end) {
            *end = '\0';
            *split = (size_t) (end - h->head) + 4;
            return (ssize_t) n;
        }
    }
    return -1;
}

static int64_t length_of(const char *head)
{
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, "content-length:", 15) == 0)
            return strtoll(line + 17, NULL, 10);
    return -1;
}

static int status_of(const char *head)
{
    return strncmp(head, "HTTP/1.1 ", 9) == 0 ? (int) strtol(head + 9, NULL, 10) : -1;
}

static int read_answer(bench_http *h)
{
    size_t split = 0;
    ssize_t n = read_head(h, &split);
    int64_t length = n < 0 ? -1 : length_of(h->head);
    int status = n < 0 ? -1 : status_of(h->head);

    if (status == 204)
        length = 0;
    if (length < 0 || length >= (int64_t) sizeof(h->body))
        return -1;
    size_t have = (size_t) n - split;
    memcpy(h->body, h->head + split, have);
    while ((int64_t) have < length) {
        ssize_t r = read(h->fd, h->body + have, (size_t) length - have);
        if (r <= 0)
            return -1;
        have += (size_t) r;
    }
    h->body[have] = '\0';
    return status;
}

int bench_http_ask(bench_http *h, const char *method, const char *path, const char *body)
{
    char text[8192];
    int n = snprintf(text, sizeof(text),
                     "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                     method, path, h->port, h->key, body ? strlen(body) : 0, body ? body : "");
    if (n < 0 || (size_t) n >= sizeof(text) || write_all(h->fd, text, (size_t) n) < 0)
        return -1;
    return read_answer(h);
}

int bench_http_send_file(bench_http *h, const char *path, const char *type, const char *prefix, int in_fd, int64_t size,
                         const char *suffix)
{
    char text[4096];
    off_t at = 0;
    int n = snprintf(text, sizeof(text),
                     "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\n"
                     "Content-Length: %lld\r\n\r\n%s",
                     path, h->port, h->key, type,
                     (long long) ((int64_t) strlen(prefix) + size + (int64_t) strlen(suffix)), prefix);
    if (n < 0 || (size_t) n >= sizeof(text) || write_all(h->fd, text, (size_t) n) < 0)
        return -1;
    while (at < size)
        if (sendfile(h->fd, in_fd, &at, (size_t) (size - at)) <= 0)
            return -1;
    if (write_all(h->fd, suffix, strlen(suffix)) < 0)
        return -1;
    return read_answer(h);
}

static int splice_all(int from, int to, ssize_t n)
{
    while (n > 0) {
        ssize_t r = splice(from, NULL, to, NULL, (size_t) n, SPLICE_F_MOVE);
        if (r <= 0)
            return -1;
        n -= r;
    }
    return 0;
}

/* Without a copy of its own: it is the server that is measured. */
static int copy_rest(int from, int to, int64_t n)
{
    int p[2];
    if (pipe2(p, O_CLOEXEC) < 0)
        return -1;
    (void) fcntl(p[1], F_SETPIPE_SZ, 1 << 20);
    while (n > 0) {
        ssize_t got = splice(from, NULL, p[1], NULL, n < 1 << 20 ? (size_t) n : 1 << 20, SPLICE_F_MOVE);
        if (got <= 0 || splice_all(p[0], to, got) < 0)
            break;
        n -= got;
    }
    close(p[0]);
    close(p[1]);
    return n > 0 ? -1 : 0;
}

int bench_http_get_file(bench_http *h, const char *path, int out_fd, int64_t *size)
{
    char text[2048];
    size_t split = 0;
    int n = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n\r\n", path,
                     h->port, h->key);
    if (n < 0 || (size_t) n >= sizeof(text) || write_all(h->fd, text, (size_t) n) < 0)
        return -1;
    ssize_t got = read_head(h, &split);
    *size = got < 0 ? -1 : length_of(h->head);
    if (*size < 0)
        return -1;
    size_t have = (size_t) got - split;
    if (write(out_fd, h->head + split, have) != (ssize_t) have || copy_rest(h->fd, out_fd, *size - (int64_t) have) < 0)
        return -1;
    return status_of(h->head);
}
