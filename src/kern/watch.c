/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "dents.h"
#include "lines.h"

#define KIB_MAX (UINT64_C(1) << 40) /* no machine has more */

struct process {
    uint64_t anon_kib, shared_kib, ticks, n_threads;
};

/* The nth blank-separated field, counted from 0, as a number; 0 if it is none. */
static uint64_t number_at(csn_str rest, int n)
{
    uint64_t value = 0;
    csn_str field = { NULL, 0 };

    for (int i = 0; i <= n; i++)
        field = csn_lines_field(&rest, ' ');
    return csn_parse_u64(field, &value) < 0 ? 0 : value;
}

/* "pid (name) state ppid …": the name is the process's own choice and may hold ") 1 2 3". */
static int read_stat(int proc_fd, const char *pid, struct process *p)
{
    char path[32], text[1024];

    (void) snprintf(path, sizeof(path), "%.10s/stat", pid); /* always fits */
    int n = csn_small_read(proc_fd, path, text, sizeof(text));
    if (n < 0)
        return n;
    const char *end = strrchr(text, ')');
    if (!end)
        return -EPROTO;
    csn_str rest = csn_str_of(end + 1);
    p->ticks = number_at(rest, 11) + number_at(rest, 12); /* utime, stime */
    p->n_threads = number_at(rest, 17);
    return 0;
}

static uint64_t kib_of(csn_str line)
{
    uint64_t value = number_at(line, 0);

    return value > KIB_MAX ? KIB_MAX : value;
}

/* "RssAnon:\t     88 kB" */
static int read_status(int proc_fd, const char *pid, struct process *p)
{
    char path[32], text[4096];

    (void) snprintf(path, sizeof(path), "%.10s/status", pid); /* always fits */
    int n = csn_small_read(proc_fd, path, text, sizeof(text));
    if (n < 0)
        return n;
    csn_str rest = csn_str_n(text, (size_t) n), line, key;
    while (csn_str_split(&rest, '\n', &line)) {
        if (!csn_str_split(&line, ':', &key) || !line.data)
            continue;
        if (csn_str_is(key, "RssAnon"))
            p->anon_kib += kib_of(csn_str_trim(line));
        else if (csn_str_is(key, "VmPTE")) /* one page touched in each 2 MiB makes as many of these */
            p->anon_kib += kib_of(csn_str_trim(line));
        else if (csn_str_is(key, "RssShmem"))
            p->shared_kib = kib_of(csn_str_trim(line));
    }
    return 0;
}

static void add(csn_watch_sample *sample, const struct process *p, uint64_t *shared_kib, long hz)
{
    sample->n_processes++;
    sample->n_threads += (uint32_t) (p->n_threads > 1 << 22 ? 1 << 22 : p->n_threads);
    sample->memory_bytes += p->anon_kib * 1024;
    sample->cpu_usec += p->ticks * (1000000 / (uint64_t) hz);
    if (p->shared_kib > *shared_kib)
        *shared_kib = p->shared_kib;
}

int csn_watch_processes(int proc_fd, unsigned max_processes, csn_watch_sample *ret_sample)
{
    csn_auto(fd) int dir = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    csn_watch_sample sample = { .memory_bytes = 0 };
    uint64_t shared_kib = 0;
    csn_dents dents;
    const char *name;
    long hz = sysconf(_SC_CLK_TCK);
    int r;

    if (dir < 0)
        return -errno;
    if (hz <= 0 || hz > 1000000)
        hz = 100;
    csn_dents_begin(&dents, dir);
    while ((r = csn_dents_next(&dents, &name, NULL)) > 0) {
        struct process p = { 0, 0, 0, 0 };
        if (name[0] < '1' || name[0] > '9')
            continue;
        if (sample.n_processes >= max_processes) {
            sample.is_partial = true;
            break;
        }
        /* gone between the two looks: as if it had never been there */
        if (read_stat(dir, name, &p) == 0 && read_status(dir, name, &p) == 0)
            add(&sample, &p, &shared_kib, hz);
    }
    if (r < 0)
        return r;
    sample.memory_bytes += shared_kib * 1024;
    *ret_sample = sample;
    return 0;
}

/* "0.20 0.18 0.12 1/80 11206" */
int csn_watch_machine(unsigned *ret_n_runnable)
{
    char text[128];
    int n = csn_small_read(AT_FDCWD, CSN_WATCH_MACHINE, text, sizeof(text));
    uint64_t n_runnable;

    if (n < 0)
        return n;
    csn_str rest = csn_str_n(text, (size_t) n), field = { NULL, 0 };
    for (int i = 0; i < 4; i++)
        field = csn_lines_field(&rest, ' ');
    if (csn_parse_u64(csn_lines_field(&field, '/'), &n_runnable) < 0 || n_runnable > 1 << 22)
        return -EPROTO;
    *ret_n_runnable = (unsigned) n_runnable;
    return 0;
}
