/* SPDX-License-Identifier: Apache-2.0 */
/* Large files against cp on the same disk, with what the server holds meanwhile; and what idle connections cost. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "http.h"
#include "serve.h"

static const int64_t GIGABYTE = 1000000000;

typedef struct watch {
    const bench_server *server;
    atomic_bool is_over;
    long most_kib;
} watch;

static void *watch_memory(void *arg)
{
    watch *w = arg;
    while (!w->is_over) {
        long kib = bench_server_kib(w->server);
        if (kib > w->most_kib)
            w->most_kib = kib;
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    }
    return NULL;
}

static int make_file(const char *path)
{
    static char piece[1000000];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (size_t i = 0; i < sizeof(piece); i++)
        piece[i] = (char) random();
    for (int i = 0; fd >= 0 && i < 1000; i++)
        if (write(fd, piece, sizeof(piece)) != (ssize_t) sizeof(piece))
            return -1;
    return fd >= 0 && fdatasync(fd) == 0 ? fd : -1; /* or its writing back disturbs what is measured */
}

static double seconds_of_cp(const char *from, const char *to)
{
    const char *const argv[] = { "cp", "--reflink=never", from, to, NULL };
    double t = bench_now_us();
    return bench_spawn(argv) < 0 ? -1 : (bench_now_us() - t) / 1e6;
}

static double seconds_of_upload(bench_http *h, const char *id, int fd)
{
    static const char prefix[] = "--bench-boundary\r\nContent-Disposition: form-data; name=\"files[0].path\"\r\n\r\n"
                                 "/home/daytona/big\r\n--bench-boundary\r\n"
                                 "Content-Disposition: form-data; name=\"files[0].file\"; filename=\"big\"\r\n"
                                 "Content-Type: application/octet-stream\r\n\r\n";
    char path[128];
    snprintf(path, sizeof(path), "/toolbox/%s/files/bulk-upload", id);
    double t = bench_now_us();
    int status = bench_http_send_file(h, path, "multipart/form-data; boundary=bench-boundary", prefix, fd, GIGABYTE,
                                      "\r\n--bench-boundary--\r\n");
    return status == 200 ? (bench_now_us() - t) / 1e6 : -1;
}

static double seconds_of_download(bench_http *h, const char *id, const char *to)
{
    char path[128];
    int64_t size = 0;
    snprintf(path, sizeof(path), "/toolbox/%s/files/download?path=big", id);
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    double t = bench_now_us();
    int status = bench_http_get_file(h, path, fd, &size);
    t = (bench_now_us() - t) / 1e6;
    close(fd);
    return status == 200 && size == GIGABYTE ? t : -1;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_size);
    return v[n / 2];
}

static int report_transfer(double cp, double up, double down, long extra_kib, int json_fd)
{
    int n_missed = (cp / up < 0.5) + (cp / down < 0.5) + (extra_kib > 32 * 1024);
    printf("### one gigabyte\n\n| what | s (median) | speed | bar |\n|---|---:|---:|---:|\n"
           "| cp | %.2f | | |\n| upload | %.2f | %.2f × cp%s | ≥ 0.5 |\n| download | %.2f | %.2f × cp%s | ≥ 0.5 |\n\n"
           "The server held at most %.1f MiB more than when idle%s (bar 32).\n\n",
           cp, up, cp / up, cp / up >= 0.5 ? " ✓" : " ✗", down, cp / down, cp / down >= 0.5 ? " ✓" : " ✗",
           (double) extra_kib / 1024, extra_kib <= 32 * 1024 ? " ✓" : " ✗");
    fflush(stdout);
    if (json_fd >= 0)
        dprintf(json_fd, "{\"bench\":\"transfer\",\"cp_s\":%.3f,\"upload_s\":%.3f,\"download_s\":%.3f,\"extra_kib\":%ld}\n", cp, up,
                down, extra_kib);
    return n_missed;
}

static int make_box(bench_http *h, char *id)
{
    if (bench_http_ask(h, "POST", "/api/sandbox", "{}") != 200)
        return -1;
    const char *at = strstr(h->body, "\"id\":\"");
    return at ? (memcpy(id, at + 6, 36), id[36] = '\0', 0) : -1;
}

int bench_transfer(bench_server *s, size_t n_rounds, int json_fd)
{
    enum { MOST = 16 };
    char from[4200], copy[4200], id[64], path[128];
    double cp[MOST], up[MOST], down[MOST];
    bench_http h;
    watch w = { .server = s };
    pthread_t watcher;

    n_rounds = n_rounds > MOST ? MOST : n_rounds;
    snprintf(from, sizeof(from), "%s/gigabyte", s->dir);
    snprintf(copy, sizeof(copy), "%s/copy", s->dir);
    int fd = make_file(from);
    if (fd < 0 || bench_http_open(&h, s->port, s->key) < 0 || make_box(&h, id) < 0) {
        fprintf(stderr, "bench: no sandbox for the transfer\n");
        return 3;
    }
    long idle = bench_server_kib(s);
    pthread_create(&watcher, NULL, watch_memory, &w);
    int is_whole = 1;
    /* The first round isn't counted: a virtual machine may get its memory from the host only then. */
    for (size_t round = 0; round <= n_rounds && is_whole; round++) {
        size_t i = round > 0 ? round - 1 : 0;
        cp[i] = seconds_of_cp(from, copy);
        unlink(copy); /* what it leaves in memory is no burden of the next */
        up[i] = seconds_of_upload(&h, id, fd);
        down[i] = seconds_of_download(&h, id, copy);
        unlink(copy);
        is_whole = cp[i] > 0 && up[i] > 0 && down[i] > 0;
        if (!is_whole)
            fprintf(stderr, "bench: cp %.2f, upload %.2f, download %.2f: %s\n", cp[i], up[i], down[i], h.body);
    }
    w.is_over = 1;
    pthread_join(watcher, NULL);
    snprintf(path, sizeof(path), "/api/sandbox/%s", id);
    bench_http_ask(&h, "DELETE", path, NULL);
    bench_http_close(&h);
    close(fd);
    unlink(from);
    if (!is_whole)
        return 3;
    return report_transfer(median(cp, n_rounds), median(up, n_rounds), median(down, n_rounds), w.most_kib - idle, json_fd);
}

/* From many addresses of the loopback network, as an honest crowd would come; each asks once and then stays. */
static int open_idle(const bench_server *s, size_t i)
{
    struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f010001U + (uint32_t) (i / 50)) };
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t) s->port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    static const char ask[] = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    char answer[4096];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &(int){ 1 }, sizeof(int));
    if (bind(fd, (struct sockaddr *) &from, sizeof(from)) == 0 && connect(fd, (struct sockaddr *) &to, sizeof(to)) == 0
        && send(fd, ask, sizeof(ask) - 1, MSG_NOSIGNAL) == (ssize_t) sizeof(ask) - 1
        && read(fd, answer, sizeof(answer)) > 12 && memcmp(answer, "HTTP/1.1 200", 12) == 0)
        return fd;
    close(fd);
    return -1;
}

int bench_idle(bench_server *s, size_t n_connections, int json_fd)
{
    int *fds = calloc(n_connections, sizeof(int));
    size_t n = 0;
    struct rlimit all = { 0 };
    getrlimit(RLIMIT_NOFILE, &all);
    all.rlim_cur = all.rlim_max;
    setrlimit(RLIMIT_NOFILE, &all);
    long before = bench_server_kib(s);
    while (fds && n < n_connections && (fds[n] = open_idle(s, n)) >= 0)
        n++;
    long more = bench_server_kib(s) - before;
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
    free(fds);
    int is_missed = n < n_connections || more > 30 * 1024;
    printf("%zu idle connections: %.1f MiB%s (bar: 10000 in 30)\n\n", n, (double) more / 1024, is_missed ? " ✗" : " ✓");
    fflush(stdout);
    if (json_fd >= 0)
        dprintf(json_fd, "{\"bench\":\"idle\",\"connections\":%zu,\"kib\":%ld}\n", n, more);
    return is_missed;
}
