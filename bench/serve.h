/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_BENCH_SERVE_H
#define CSN_BENCH_SERVE_H

/* A `caisson serve` of this bench: state, port and key of its own. */

#include <sys/types.h>

typedef struct bench_server {
    pid_t pid;
    int port;
    char dir[4096]; /* state/ and what the bench writes: all on one disk */
    char key[80];
} bench_server;

int bench_server_start(bench_server *s, const char *build, const char *network); /* returns when it answers; 0 or -1 */
void bench_server_stop(bench_server *s);
/* What the server's own processes hold, in KiB, shared pages divided among their users. */
long bench_server_kib(const bench_server *s);

/* serve_bulk.c: both return the number of bars missed. */
int bench_transfer(bench_server *s, size_t n_rounds, int json_fd);
int bench_idle(bench_server *s, size_t n_connections, int json_fd);

#endif
