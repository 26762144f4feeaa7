/* SPDX-License-Identifier: Apache-2.0 */
/* Ids that /etc/subuid and /etc/subgid grant us, and the setuid helpers that write them. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "lines.h"
#include "pidfd.h"
#include "spawn.h"
#include "userns.h"

#define MAX_BYTES (1u << 20) /* of /etc/subuid: some 30 000 users */

static bool names_us(csn_str who, uid_t uid, const char *user)
{
    uint64_t number;

    if (user && *user && csn_str_is(who, user))
        return true;
    return csn_parse_u64(who, &number) == 0 && number == uid;
}

/* "name:start:count" */
static bool parse_line(csn_str line, uid_t uid, const char *user, uint64_t *start, uint64_t *count)
{
    csn_str who, first, number;

    return csn_str_split(&line, ':', &who) && csn_str_split(&line, ':', &first) &&
           csn_str_split(&line, ':', &number) && names_us(who, uid, user) &&
           csn_parse_u64(csn_str_trim(first), start) == 0 &&
           csn_parse_u64(csn_str_trim(number), count) == 0 && *start > 0 && *start < UINT32_MAX &&
           *count < UINT32_MAX - *start;
}

/* The name that /etc/passwd has for us; grants usually go by it. Empty when there is none. */
static void find_name(uid_t uid, char *out, size_t out_size)
{
    csn_lines lines;
    csn_str line, name, part;
    uint64_t number;

    out[0] = '\0';
    if (csn_lines_open(&lines, AT_FDCWD, "/etc/passwd", MAX_BYTES) < 0)
        return;
    while (out[0] == '\0' && csn_lines_next(&lines, &line) > 0)
        if (csn_str_split(&line, ':', &name) && csn_str_split(&line, ':', &part) &&
            csn_str_split(&line, ':', &part) && csn_parse_u64(part, &number) == 0 && number == uid)
            (void) csn_str_copy(out, out_size, name); /* too long: no grant goes by it */
    csn_lines_done(&lines);
}

int csn_subid_find(const char *path, uid_t uid, const char *user, uint32_t min_count,
                   uint32_t *ret_start, uint32_t *ret_count)
{
    char name[64];
    csn_lines lines;
    csn_str line;
    uint64_t start, count;
    int r;

    if (!user) {
        find_name(uid, name, sizeof(name));
        user = name;
    }
    r = csn_lines_open(&lines, AT_FDCWD, path, MAX_BYTES);
    if (r < 0)
        return r;
    while ((r = csn_lines_next(&lines, &line)) > 0)
        if (parse_line(line, uid, user, &start, &count) && count >= min_count) {
            *ret_start = (uint32_t) start;
            *ret_count = (uint32_t) count;
            break;
        }
    csn_lines_done(&lines);
    return r > 0 ? 0 : r < 0 ? r : -ENOENT;
}

static const char *find_helper(const char *const paths[2])
{
    for (int i = 0; i < 2; i++)
        if (access(paths[i], X_OK) == 0)
            return paths[i];
    return NULL;
}

static const char *const newuidmap[2] = { "/usr/bin/newuidmap", "/usr/local/bin/newuidmap" };
static const char *const newgidmap[2] = { "/usr/bin/newgidmap", "/usr/local/bin/newgidmap" };

bool csn_userns_have_helpers(void)
{
    return find_helper(newuidmap) && find_helper(newgidmap);
}

static int run(char *const argv[], int64_t deadline_ns)
{
    csn_auto(fd) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    csn_auto(fd) int pidfd = -1;
    char *envp[] = { NULL };
    csn_child_end ending;
    pid_t pid;

    if (null < 0)
        return -errno;
    int r = csn_spawn_program(argv, envp, (int[]){ null, null, null }, NULL, 0, &pid, &pidfd);
    if (r < 0)
        return r;
    r = csn_pidfd_reap_until(pidfd, deadline_ns, &ending);
    if (r < 0) {
        (void) csn_pidfd_signal(pidfd,
                                SIGKILL); /* a setuid program of the system: it ends by itself */
        return r;
    }
    return ending.by_signal || ending.status != 0 ? -EPERM : 0;
}

static int run_helper(const char *program, pid_t pid, const csn_idmap *map, size_t n,
                      int64_t deadline_ns)
{
    char numbers[1 + CSN_IDMAP_MAX * 3][12];
    char name[64];
    char *argv[3 + CSN_IDMAP_MAX * 3];
    size_t argc = 0;

    if (!program)
        return -ENOENT;
    if (n > CSN_IDMAP_MAX)
        return -E2BIG;
    (void) snprintf(name, sizeof(name), "%s", program); /* one of ours above: fits */
    (void) snprintf(numbers[0], sizeof(numbers[0]), "%d", (int) pid);
    argv[argc++] = name;
    argv[argc++] = numbers[0];
    for (size_t i = 0; i < n * 3; i++) {
        const csn_idmap *m = &map[i / 3];
        uint32_t value = i % 3 == 0 ? m->inside : i % 3 == 1 ? m->outside : m->count;
        (void) snprintf(numbers[1 + i], sizeof(numbers[0]), "%u", value);
        argv[argc++] = numbers[1 + i];
    }
    argv[argc] = NULL;
    return run(argv, deadline_ns);
}

int csn_userns_map_helper(pid_t pid, const csn_idmap *uids, size_t n_uids, const csn_idmap *gids,
                          size_t n_gids, int64_t deadline_ns)
{
    int r = run_helper(find_helper(newuidmap), pid, uids, n_uids, deadline_ns);

    return r < 0 ? r : run_helper(find_helper(newgidmap), pid, gids, n_gids, deadline_ns);
}
