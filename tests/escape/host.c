/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROCESSES_MAX = 64 };

static csn_sandbox_info info_of(csn_sandbox *box)
{
    csn_sandbox_info info;

    OK(csn_sandbox_inspect(box, &info, err));
    return info;
}

pid_t init_of(csn_sandbox *box)
{
    return info_of(box).init_pid;
}

pid_t keeper_of(csn_sandbox *box)
{
    return info_of(box).keeper_pid;
}

const char *status_of(pid_t pid, const char *key)
{
    static char line[512];
    char path[64];
    size_t len = strlen(key);
    const char *value = "";

    (void) snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, key, len) == 0 && line[len] == ':') {
            line[strcspn(line, "\n")] = '\0';
            value = line + len + 1 + strspn(line + len + 1, " \t");
            break;
        }
    if (f)
        (void) fclose(f);
    return value;
}

static bool descends_from(pid_t pid, pid_t ancestor)
{
    for (int depth = 0; depth < 32 && pid > 1; depth++) {
        if (pid == ancestor)
            return true;
        pid = (pid_t) strtol(status_of(pid, "PPid"), NULL, 10);
    }
    return false;
}

size_t processes_of(csn_sandbox *box, pid_t *pids, size_t max)
{
    const pid_t init = init_of(box);
    DIR *dir = opendir("/proc");
    size_t n = 0;

    CHECK(dir != NULL && init > 1);
    for (struct dirent *d; n < max && (d = readdir(dir));) {
        pid_t pid = (pid_t) strtol(d->d_name, NULL, 10);
        if (pid > 1 && descends_from(pid, init))
            pids[n++] = pid;
    }
    closedir(dir);
    return n;
}

/* All four ids of a Uid or Gid line: the same one, not 0, and with privilege one of the sandbox's own. */
static void check_ids(pid_t pid, const char *key, const char *way)
{
    unsigned id[4] = { 0 };

    if (sscanf(status_of(pid, key), "%u %u %u %u", &id[0], &id[1], &id[2], &id[3]) != 4)
        FAIL("%s: process %d has no %s", way, (int) pid, key);
    for (int i = 0; i < 4; i++)
        if (id[i] == 0 || id[i] != id[0] || (!is_rootless() && id[i] < 0x40000000))
            FAIL("%s: %s of process %d is %u", way, key, (int) pid, id[i]);
}

static void check_field(pid_t pid, const char *key, const char *want, const char *way)
{
    const char *got = status_of(pid, key);

    if (strcmp(got, want) != 0)
        FAIL("%s: %s of process %d is '%s', not '%s'", way, key, (int) pid, got, want);
}

static void check_process(pid_t pid, const char *way)
{
    static const char *const sets[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };

    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        check_field(pid, sets[i], "0000000000000000", way);
    check_field(pid, "NoNewPrivs", "1", way);
    check_field(pid, "Seccomp", "2", way);
    check_ids(pid, "Uid", way);
    check_ids(pid, "Gid", way);
    if (geteuid() ==
        0) /* without privilege setgroups() is denied, and the caller's groups mean nobody inside */
        check_field(pid, "Groups", "", way);
}

void check_policy(csn_sandbox *box, const char *way, const char *comm)
{
    pid_t pids[PROCESSES_MAX];
    size_t n = processes_of(box, pids, PROCESSES_MAX);
    bool has_comm = comm == NULL;

    for (size_t i = 0; i < n; i++) {
        has_comm = has_comm || strcmp(status_of(pids[i], "Name"), comm) == 0;
        check_process(pids[i], way);
    }
    if (!has_comm)
        FAIL("%s: no process named '%s' among %zu", way, comm, n);
}

/* --- a canary ----------------------------------------------------------------------------------------------------- */

static char host_dir[64];

static void remove_host_directory(void *user)
{
    char path[96];

    (void) user;
    (void) snprintf(path, sizeof(path), "%s/secret", host_dir);
    (void) unlink(path);
    (void) rmdir(host_dir);
}

const char *a_host_directory(void)
{
    char path[96];

    (void) the_state(); /* privilege is dropped by now, if it is to be */
    (void) snprintf(host_dir, sizeof(host_dir), "/var/tmp/csn-host-XXXXXX");
    CHECK(mkdtemp(host_dir) != NULL && chmod(host_dir, 0755) == 0);
    csn_test_defer(remove_host_directory, NULL);
    (void) snprintf(path, sizeof(path), "%s/secret", host_dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    CHECK(fd >= 0 && write(fd, HOST_TEXT, strlen(HOST_TEXT)) == (ssize_t) strlen(HOST_TEXT));
    close(fd);
    return host_dir;
}

void check_untouched(const char *dir)
{
    char path[96], text[64] = "";
    struct stat st;
    int n = 0;
    DIR *d = opendir(dir);

    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        CHECK_STR(e->d_name, "secret");
        n++;
    }
    closedir(d);
    CHECK_INT(n, 1);
    (void) snprintf(path, sizeof(path), "%s/secret", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && read(fd, text, sizeof(text) - 1) >= 0);
    close(fd);
    CHECK_STR(text, HOST_TEXT);
    CHECK_INT(st.st_mode & 07777, 0644);
    CHECK(stat(dir, &st) == 0);
    CHECK_INT(st.st_mode & 07777, 0755);
}
