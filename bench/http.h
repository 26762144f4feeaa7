/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_BENCH_HTTP_H
#define CSN_BENCH_HTTP_H

/* The least HTTP client that measures a server and not itself: one kept connection, bodies of known length. */

#include <stdint.h>
#include <sys/types.h>

typedef struct bench_http {
    int fd;
    int port;
    const char *key;
    char head[16384]; /* the last answer: headers, and the start of the body or all of it */
    char body[65536]; /* the body of small answers, ended by NUL */
} bench_http;

int bench_http_open(bench_http *h, int port, const char *key); /* 0 or -1 */
/* Sends one request, reads the whole answer. The status, or -1. body NULL: none. */
int bench_http_ask(bench_http *h, const char *method, const char *path, const char *body);
/* Upload: prefix, then `size` bytes of in_fd from its start, then suffix, as one body of this content type. */
int bench_http_send_file(bench_http *h, const char *path, const char *type, const char *prefix, int in_fd, int64_t size,
                         const char *suffix);
/* Download: the body goes to out_fd. *size: how much it was. */
int bench_http_get_file(bench_http *h, const char *path, int out_fd, int64_t *size);
void bench_http_close(bench_http *h);

#endif
