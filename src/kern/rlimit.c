/* SPDX-License-Identifier: Apache-2.0 */
#include "rlimit.h"

#include <errno.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"

#define LEFT_ALONE UINT64_MAX

enum { FILES = 16384, FEWEST_FILES = 256, MANY_PROCESSES = 4096 };

struct row {
    int resource;
    uint64_t fallback; /* when the caller names nothing */
    size_t field;      /* in csn_rlimits, or FIXED */
};

#define FIXED       SIZE_MAX
#define FIELD(name) offsetof(csn_rlimits, name)

static const struct row table[] = {
    { RLIMIT_CORE, 0, FIELD(core_bytes) }, /* a core dump is written where the host says */
    { RLIMIT_NOFILE, FILES, FIELD(n_files) },
    { RLIMIT_MEMLOCK, 8u << 20, FIELD(locked_bytes) },
    { RLIMIT_SIGPENDING, 4096, FIELD(n_pending) },
    { RLIMIT_MSGQUEUE, 409600, FIXED }, /* half the kernel's default */
    { RLIMIT_RTPRIO, 0, FIXED },        /* R23: no real-time class, no negative nice */
    { RLIMIT_NICE, 0, FIXED },
    { RLIMIT_NPROC, LEFT_ALONE, FIELD(n_processes) },
    { RLIMIT_FSIZE, LEFT_ALONE, FIELD(file_bytes) },
    { RLIMIT_AS, LEFT_ALONE, FIELD(memory_bytes) },
};

/* The raw call: glibc's wrapper wants an enum, musl's an int. */
static int lower(int resource, uint64_t value)
{
    uint64_t now[2], want[2]; /* soft, hard */

    if (syscall(SYS_prlimit64, 0, resource, NULL, now) < 0)
        return -errno;
    want[0] = want[1] = value < now[1] ? value : now[1];
    if (want[0] == now[0] && want[1] == now[1])
        return 0;
    return syscall(SYS_prlimit64, 0, resource, want, NULL) < 0 ? -errno : 0;
}

static uint64_t wanted(const struct row *row, const csn_rlimits *limits)
{
    uint64_t value = 0;

    if (row->field != FIXED && limits)
        value = *(const uint64_t *) (const void *) ((const char *) limits + row->field);
    return value ? value : row->fallback;
}

uint64_t csn_rlimit_core(const char *pattern)
{
    return pattern[0] == '|' ? 1 : 0;
}

uint64_t csn_rlimit_files(uint64_t wanted, uint64_t n_processes, uint64_t file_max)
{
    uint64_t share = file_max / 4 / (n_processes ? n_processes : MANY_PROCESSES);
    uint64_t most = share > FEWEST_FILES ? share : FEWEST_FILES;

    if (wanted == 0)
        wanted = FILES;
    return wanted < most ? wanted : most;
}

int csn_rlimit_apply(const csn_rlimits *limits)
{
    int r = csn_fault("setrlimit");

    for (size_t i = 0; r == 0 && i < sizeof(table) / sizeof(table[0]); i++) {
        uint64_t value = wanted(&table[i], limits);
        if (value != LEFT_ALONE)
            r = lower(table[i].resource, value);
    }
    return r;
}
