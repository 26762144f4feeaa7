/* SPDX-License-Identifier: Apache-2.0 */
#include "serve.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "http.h"

static int free_port(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int ok = fd >= 0 && bind(fd, (struct sockaddr *) &a, len) == 0 && getsockname(fd, (struct sockaddr *) &a, &len) == 0;
    if (fd >= 0)
        close(fd);
    return ok ? ntohs(a.sin_port) : -1;
}

static int make_key(bench_server *s)
{
    unsigned char raw[32];
    char path[4200];
    if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
        return -1;
    memcpy(s->key, "dtn_", 5);
    for (size_t i = 0; i < sizeof(raw); i++)
        snprintf(s->key + 4 + 2 * i, 3, "%02x", raw[i]);
    snprintf(path, sizeof(path), "%s/key", s->dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int ok = fd >= 0 && dprintf(fd, "%s\n", s->key) > 0;
    if (fd >= 0)
        close(fd);
    return ok ? 0 : -1;
}

static _Noreturn void become_server(const bench_server *s, const char *build, const char *network)
{
    char program[4200], listen[64], state[4200], key_file[4200], log[4200];
    snprintf(program, sizeof(program), "%s/caisson", build);
    snprintf(listen, sizeof(listen), "127.0.0.1:%d", s->port);
    snprintf(state, sizeof(state), "%s/state", s->dir);
    snprintf(key_file, sizeof(key_file), "%s/key", s->dir);
    snprintf(log, sizeof(log), "%s/log", s->dir);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a bench that is killed leaves no server */
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    execl(program, "caisson", "serve", "--listen", listen, "--state", state, "--key-file", key_file,
          "--network", network, (char *) NULL);
    _exit(127);
}

static int wait_until_it_answers(const bench_server *s)
{
    for (int i = 0; i < 3000; i++) {
        bench_http h;
        int status = bench_http_open(&h, s->port, s->key) == 0 ? bench_http_ask(&h, "GET", "/health", NULL) : -1;
        bench_http_close(&h);
        if (status == 200)
            return 0;
        if (waitpid(s->pid, NULL, WNOHANG) != 0)
            return -1;
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    return -1;
}

int bench_server_start(bench_server *s, const char *build, const char *network)
{
    const char *base = getenv("TMPDIR");
    *s = (bench_server){ .port = free_port() };
    snprintf(s->dir, sizeof(s->dir), "%s/csn-bench.XXXXXX", base ? base : "/var/tmp");
    if (s->port < 0 || !mkdtemp(s->dir) || chmod(s->dir, 0711) < 0 || make_key(s) < 0)
        return -1;
    s->pid = fork();
    if (s->pid == 0)
        become_server(s, build, network);
    return s->pid > 0 ? wait_until_it_answers(s) : -1;
}

static int run_shell(const char *command)
{
    const char *const argv[] = { "/bin/sh", "-c", command, NULL };
    pid_t pid;
    int status = -1;
    if (posix_spawn(&pid, argv[0], NULL, NULL, (char *const *) argv, environ) != 0)
        return -1;
    return waitpid(pid, &status, 0) == pid ? status : -1;
}

void bench_server_stop(bench_server *s)
{
    char command[13000];
    kill(s->pid, SIGTERM);
    waitpid(s->pid, NULL, 0);
    snprintf(command, sizeof(command),
             "export CAISSON_STATE='%s/state/engine'; \"$CAISSON_LIBEXEC/caisson\" rm --all -q; "
             "run=$(readlink \"$CAISSON_STATE/run\") && rm -rf \"$run\"; "
             "run=$(readlink '%s/library/run') && rm -rf \"$run\"; rm -rf --one-file-system '%s'",
             s->dir, s->dir, s->dir);
    if (run_shell(command) != 0)
        fprintf(stderr, "bench: %s is left behind\n", s->dir);
}

static long pss_of(long pid)
{
    char path[64], line[256];
    long kib = 0;
    snprintf(path, sizeof(path), "/proc/%ld/smaps_rollup", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "Pss:", 4) == 0)
            kib = strtol(line + 4, NULL, 10);
    if (f)
        fclose(f);
    return kib;
}

static int is_front(long pid)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
    FILE *f = fopen(path, "re");
    if (f) {
        if (!fgets(name, sizeof(name), f))
            name[0] = '\0';
        fclose(f);
    }
    return strncmp(name, "caisson-serve", 13) == 0;
}

long bench_server_kib(const bench_server *s)
{
    char path[96];
    long pid, kib = pss_of(s->pid);
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int) s->pid, (int) s->pid);
    FILE *f = fopen(path, "re");
    char list[512] = "", *at = list, *end;
    if (f && !fgets(list, sizeof(list), f))
        list[0] = '\0';
    while ((pid = strtol(at, &end, 10)) > 0 && end != at) {
        if (is_front(pid))
            kib += pss_of(pid);
        at = end;
    }
    if (f)
        fclose(f);
    return kib;
}
