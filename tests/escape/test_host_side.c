/* SPDX-License-Identifier: Apache-2.0 */
/* What only the host can tell: who sandboxed code is in the kernel's own books, whichever way it was started (R2, R3, R5,
 * R19), and what it was given without being told (R10, R31, R33, R36). */
#include <fcntl.h>
#include <ftw.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host.h"

/* --- R2, R5: two at once ------------------------------------------------------------------------------------------ */

static void read_map(pid_t pid, const char *file, unsigned map[3])
{
    char path[64];

    (void) snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, file);
    FILE *f = fopen(path, "re");
    CHECK(f != NULL && fscanf(f, "%u %u %u", &map[0], &map[1], &map[2]) == 3);
    (void) fclose(f);
}

TEST(two_sandboxes_are_two_strangers_to_the_host)
{
    csn_sandbox *a = an_ephemeral(), *b = an_ephemeral();
    static const char *const files[] = { "uid_map", "gid_map" };

    check_policy(a, "the first of two", NULL);
    check_policy(b, "the second of two", NULL);
    for (size_t i = 0; i < 2; i++) {
        unsigned of_a[3], of_b[3];
        read_map(init_of(a), files[i], of_a);
        read_map(init_of(b), files[i], of_b);
        CHECK(of_a[1] != 0 && of_b[1] != 0);
        if (is_rootless()) { /* one host uid for all: the receipt says so */
            CHECK_INT(of_a[2], 1);
            CHECK_INT(sh(a, "true")->receipt.shares_host_uid, 1);
            continue;
        }
        CHECK_INT(of_a[2], 65536);
        CHECK_INT(of_b[2], 65536);
        CHECK(of_a[1] + 65536 <= of_b[1] || of_b[1] + 65536 <= of_a[1]);
        CHECK_INT(sh(a, "true")->receipt.shares_host_uid, 0);
    }
}

static void link_of(pid_t pid, const char *name, char *target, size_t size)
{
    char path[64];

    (void) snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int) pid, name);
    ssize_t n = readlink(path, target, size - 1);
    if (n <= 0)
        FAIL("%s can't be read", path);
    target[n] = '\0';
}

TEST(all_eight_namespaces_differ_from_the_hosts_and_the_neighbours)
{
    static const char *const names[] = {
        "user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"
    };
    csn_sandbox *a = an_ephemeral(), *b = an_ephemeral();

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char of_a[64], of_b[64], of_host[64];
        link_of(init_of(a), names[i], of_a, sizeof(of_a));
        link_of(init_of(b), names[i], of_b, sizeof(of_b));
        link_of(getpid(), names[i], of_host, sizeof(of_host));
        CHECK(strcmp(of_a, of_b) != 0 && strcmp(of_a, of_host) != 0 && strcmp(of_b, of_host) != 0);
    }
}

/* --- R3, R19: every way to start a process ------------------------------------------------------------------------ */

static csn_process *start(csn_sandbox *box, csn_process_options o)
{
    csn_process *process = NULL;

    o.size = sizeof(o);
    OK(csn_process_start(box, &o, &process, err));
    return process;
}

static bool is_sleeping(void *user)
{
    pid_t pids[64];
    size_t n = processes_of(user, pids, 64);

    for (size_t i = 0; i < n; i++)
        if (strcmp(status_of(pids[i], "Name"), "sleep") == 0)
            return true;
    return false;
}

static void check_started(csn_sandbox *box, const char *way, csn_process_options o)
{
    csn_process *process = start(box, o);

    if (!until(is_sleeping, box))
        FAIL("%s: it does not run", way);
    check_policy(box, way, "sleep");
    OK(csn_process_signal(process, 9, 1, err));
    OK(csn_process_wait(process, 0, NULL, err));
    csn_process_free(process);
}

static void check_all_commands(csn_sandbox *box, const char *where)
{
    static const char *const argv[] = { "sleep", "1000", NULL };
    static const struct {
        const char *way;
        csn_process_options options;
    } ways[] = {
        { "argv", { .argv = argv } },
        { "shell", { .shell = "sleep 1000; true" } },
        { "background", { .argv = argv, .is_background = 1 } },
        { "background with a channel", { .argv = argv, .is_background = 1, .has_channel = 1 } },
        { "terminal", { .argv = argv, .is_pty = 1 } },
        { "daemon", { .shell = "setsid sleep 1000 & exec sleep 1000" } },
        { "with stdin", { .argv = argv, .stdin_kind = CSN_STDIN_PIPE } },
    };
    char way[96];

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        (void) snprintf(way, sizeof(way), "%s in %s", ways[i].way, where);
        check_started(box, way, ways[i].options);
    }
}

static bool is_working(void *user)
{
    pid_t pids[8];

    return processes_of(user, pids, 8) >= 2;
}

static void note_end(int64_t n, int result, const csn_error *err, void *user)
{
    (void) n;
    (void) result;
    (void) err;
    *(bool *) user = true;
}

/* A worker that is busy for seconds: it reads all of /usr. It ends with its sandbox. */
static void check_worker(void)
{
    csn_sandbox *box = an_ephemeral();
    csn_file_request request = { .size = sizeof(request),
                                 .verb = CSN_FILE_SEARCH,
                                 .path = "/usr",
                                 .arg = "in no file of the world" };
    bool has_ended = false;

    (void) BEGUN(csn_file_request_async(box, &request, note_end, &has_ended, err));
    CHECK(until(is_working, box));
    check_policy(box, "file worker", "init");
    OK(csn_sandbox_delete(box, err));
    while (!has_ended)
        OK(csn_engine_dispatch(the_engine(), 1000, err));
}

TEST_TIMEOUT(every_way_to_start_a_process_has_the_same_policy, 240)
{
    csn_sandbox *box = a_sandbox(.name = "first"), *other = NULL;

    check_all_commands(box, "a new sandbox");
    check_worker();
    OK(csn_sandbox_fork(box, NULL, &other, err));
    check_all_commands(other, "a fork");
    OK(csn_sandbox_delete(other, err));
    csn_sandbox_free(other);
    OK(csn_sandbox_snapshot(box, "copy", err));
    check_all_commands(an_ephemeral(.image = "copy"), "a snapshot");
    OK(csn_sandbox_stop(box, -1, err));
    OK(csn_sandbox_start(box, err));
    check_all_commands(box, "a sandbox started again");
    OK(csn_sandbox_delete(box, err));
}

TEST(commands_of_a_second_engine_have_the_same_policy)
{
    csn_sandbox *box = a_sandbox(.is_detached = 1), *same = NULL;
    csn_engine *later = another_engine();

    OK(csn_sandbox_open(later, csn_sandbox_id(box), &same, err));
    check_all_commands(same, "a sandbox found again");
    csn_sandbox_free(same);
    csn_engine_free(later);
    OK(csn_sandbox_delete(box, err));
}

/* --- the keeper's own walls --------------------------------------------------------------------------------------- */

TEST(the_keeper_has_given_up_what_it_needs_no_more)
{
    static const char *const sets[] = { "CapInh", "CapPrm", "CapEff", "CapAmb" };
    csn_sandbox *box = an_ephemeral();
    pid_t keeper = keeper_of(box);

    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        CHECK_STR(status_of(keeper, sets[i]), "0000000000000000");
    if (!is_rootless()) /* who has no right to lower it has nothing to gain from it */
        CHECK_STR(status_of(keeper, "CapBnd"), "0000000000000000");
    CHECK_STR(status_of(keeper, "NoNewPrivs"), "1");
    CHECK_STR(status_of(keeper, "Seccomp"), "2");
#ifdef CSN_TEST_HOOKS
    CHECK_STR(status_of(keeper_of(an_ephemeral(.walls_off = CSN_WALL_KEEPER)), "Seccomp"), "0");
#endif
}

/* --- R10 ---------------------------------------------------------------------------------------------------------- */

#define OPEN_DESCRIPTORS \
    "import fcntl\n" \
    "def is_open(fd):\n" \
    "    try: return fcntl.fcntl(fd, fcntl.F_GETFD) >= 0\n" \
    "    except OSError: return False\n" \
    "print([fd for fd in range(16384) if is_open(fd)])\n"

/* Without cgroups the keeper watches the sandbox's processes by a procfs of theirs, which is mounted nowhere. */
static bool is_procfs(const char *path)
{
    struct statfs fs;

    return statfs(path, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

TEST(descriptors_and_directory_of_the_caller_stay_outside)
{
    const char *dir = a_host_directory();
    char path[128], target[256];
    int pair[2];

    CHECK(chdir(dir) == 0);
    CHECK(dup2(open("/", O_RDONLY | O_DIRECTORY), 77) == 77);
    CHECK(dup2(open("secret", O_RDWR), 200) == 200);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && dup2(pair[0], 9) == 9);

    csn_sandbox *box = an_ephemeral();
    CHECK_STR(sh(box, "pwd")->out, "/home/daytona\n");
    CHECK_STR(run(box, .argv = ARGV("python3", "-c", OPEN_DESCRIPTORS))->merged, "[0, 1, 2]\n");
    CHECK_STR(
        run(box, .argv = ARGV("python3", "-c", OPEN_DESCRIPTORS), .stdin_kind = CSN_STDIN_BYTES)
            ->merged,
        "[0, 1, 2]\n");
    pid_t both[] = { init_of(box), keeper_of(box) };
    for (size_t i = 0; i < 2; i++)
        for (int fd = 0; fd < 256; fd++) {
            (void) snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int) both[i], fd);
            ssize_t n = readlink(path, target, sizeof(target) - 1);
            target[n > 0 ? n : 0] = '\0';
            if ((strcmp(target, "/") == 0 && !is_procfs(path)) || strstr(target, dir))
                FAIL("%s is '%s'", path, target);
        }
    check_untouched(dir);
}

TEST(a_working_directory_is_never_a_magic_link)
{
    static const char *const places[] = {
        "/proc/self/fd/3",
        "/proc/self/fd/0",
        "/proc/self/cwd",
        "/proc/self/root",
        "/proc/1/root",
        "/proc/1/cwd",
        "/proc/self/root/home",
        "/proc/1/root/home",
        "/proc/self/fd/7/../../..",
        "/proc/thread-self/root/etc",
    };
    csn_sandbox *box = an_ephemeral();

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        csn_process_options o = { .size = sizeof(o), .argv = ARGV("true"), .cwd = places[i] };
        csn_run_result result = { 0 };
        csn_error err = { 0 };
        if (csn_run(box, &o, &result, &err) >= 0)
            FAIL("a command ran in %s", places[i]);
    }
    /* A link of the sandbox's own that leads to one is no better. */
    CHECK_STR(ending(sh(box, "ln -s /proc/self/root way")), "exit 0");
    csn_process_options o = { .size = sizeof(o),
                              .argv = ARGV("true"),
                              .cwd = "/home/daytona/way/etc" };
    csn_run_result result = { 0 };
    csn_error err = { 0 };
    CHECK(csn_run(box, &o, &result, &err) < 0);
}

/* --- R31 ---------------------------------------------------------------------------------------------------------- */

#define EVERYWHERE \
    "for d in / /bin /boot /dev /dev/shm /etc /home /home/daytona /lib /media /mnt /opt /proc /root /run /run/lock " \
    "/sbin /srv /tmp /usr /usr/bin /usr/lib /usr/local /usr/share /var /var/cache /var/lib /var/lock /var/log " \
    "/var/mail /var/run /var/spool /var/tmp; do echo x 2>/dev/null >$d/csn-trace-31 && echo $d; done; true"
#define SEARCH \
    "find / -xdev -name 'csn-trace-31*' 2>/dev/null; " \
    "find /usr /tmp /dev /dev/shm -xdev -name 'csn-trace-31*' 2>/dev/null; true"

TEST(nothing_written_in_one_sandbox_shows_in_another_or_on_the_host)
{
    csn_sandbox *first = an_ephemeral(), *beside = an_ephemeral();
    const csn_run_result *wrote = sh(first, EVERYWHERE " 2>/dev/null");

    CHECK(strstr(wrote->out, "/home/daytona\n") && strstr(wrote->out, "/tmp\n") &&
          strstr(wrote->out, "/dev/shm\n"));
    CHECK(strstr(sh(first, SEARCH)->out, "csn-trace-31"));
    CHECK_STR(sh(beside, SEARCH)->out, "");
    CHECK(wrote->out != NULL);
    for (const char *at = wrote->out; *at;
         at += strcspn(at, "\n") + 1) { /* the same names on the host */
        char path[128];
        size_t n = strcspn(at, "\n");
        CHECK(n + sizeof("/csn-trace-31") <= sizeof(path));
        memcpy(path, at, n);
        memcpy(path + n, "/csn-trace-31", sizeof("/csn-trace-31"));
        if (access(path, F_OK) == 0)
            FAIL("%s is on the host", path);
    }
    OK(csn_sandbox_delete(first, err));
    CHECK_STR(sh(an_ephemeral(), SEARCH)->out, "");
}

static void wait_for(csn_process *process, const char *word)
{
    csn_log_chunk chunk = { 0 };

    OK(csn_process_read_log(process, 0, 20000, &chunk, err));
    if (chunk.len < strlen(word) || memcmp(chunk.data, word, strlen(word)) != 0)
        FAIL("it says '%.*s'", (int) chunk.len, chunk.data);
}

/* Devices are no files one can fill, but they have times and locks like all others. */
TEST(the_hosts_own_devices_keep_their_times)
{
    csn_sandbox *box = an_ephemeral();
    struct stat before, after;

    CHECK(stat("/dev/null", &before) == 0);
    sh(box, "for f in /proc/* /dev/*; do [ -c $f ] && touch -c $f; done");
    CHECK(stat("/dev/null", &after) == 0);
    CHECK_INT(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
    CHECK_INT(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
    if (is_rootless())
        return; /* nodes can only be borrowed then */
    CHECK_STR(sh(box, "grep -c devtmpfs /proc/self/mountinfo")->out, "0\n");
}

TEST(locks_sockets_and_shared_memory_end_at_the_wall)
{
    csn_sandbox *a = an_ephemeral(), *b = an_ephemeral();
    char real[4096];

    CHECK(realpath("/usr/bin/python3", real) != NULL);
    wait_for(start(a,
                   (csn_process_options){
                       .shell = "exec flock /usr/bin/python3 sh -c 'echo held; sleep 1000'",
                       .is_background = 1 }),
             "held");
    CHECK_STR(ending(sh(a, "flock -n /usr/bin/python3 true")), "exit 1");
    CHECK_STR(ending(sh(b, "flock -n /usr/bin/python3 true")), "exit 0");
    int fd = open(real, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    close(fd);

    wait_for(
        start(
            a,
            (csn_process_options){
                .shell =
                    "exec python3 -c \"import socket,time; s=socket.socket(socket.AF_UNIX); "
                    "s.bind('\\0csn-31'); s.listen(); print('listening', flush=True); time.sleep(1000)\"",
                .is_background = 1 }),
        "listening");
    CHECK_STR(
        ending(sh(
            a, "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('\\0csn-31')\"")),
        "exit 0");
    CHECK_STR(
        ending(sh(
            b, "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('\\0csn-31')\" "
               "2>/dev/null")),
        "exit 1");
    CHECK_STR(ending(sh(a, "ipcmk -M 4096 >/dev/null && ipcs -m | grep -q 4096")), "exit 0");
    CHECK_STR(ending(sh(b, "ipcs -m | grep -q 4096")), "exit 1");
}

/* --- R33 ---------------------------------------------------------------------------------------------------------- */

#define SECRET "s3cr3t-of-the-engine"

static bool file_has(const char *path, const char *word)
{
    static char buf[1 << 20];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? 0 : read(fd, buf, sizeof(buf));

    if (fd >= 0)
        close(fd);
    return n > 0 && memmem(buf, (size_t) n, word, strlen(word)) != NULL;
}

static const char *sought;

static int look_in(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void) st;
    (void) where;
    if (kind == FTW_F && file_has(path, sought))
        FAIL("'%s' is in %s", sought, path);
    return 0;
}

static void check_state_lacks(const char *word)
{
    sought = word;
    CHECK(nftw(the_state(), look_in, 32, FTW_PHYS | FTW_MOUNT) == 0);
}

TEST(what_the_engine_knows_by_its_environment_is_nowhere_inside)
{
    setenv("CSN_HOST_API_KEY", SECRET, 1);
    csn_sandbox *box = an_ephemeral();
    pid_t pids[64];
    char path[64];

    CHECK_STR(sh(box, "env | sort")->err, "");
    CHECK(!strstr(sh(box, "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null")->out, SECRET));
    CHECK_STR(sh(box, "grep -rl " SECRET " /etc /home /run /tmp /var /dev/shm 2>/dev/null")->out,
              "");
    csn_process *process = start(box, (csn_process_options){ .argv = ARGV("sleep", "1000") });
    CHECK(until(is_sleeping, box));
    size_t n = processes_of(box, pids, 63);
    pids[n++] = keeper_of(box);
    for (size_t i = 0; i < n; i++) {
        static const char *const files[] = { "environ", "cmdline" };
        for (size_t k = 0; k < 2; k++) {
            (void) snprintf(path, sizeof(path), "/proc/%d/%s", (int) pids[i], files[k]);
            if (file_has(path, SECRET))
                FAIL("it is in %s (%s)", path, status_of(pids[i], "Name"));
        }
    }
    csn_process_free(process);
    check_state_lacks(SECRET);
}

/* --- R36 ---------------------------------------------------------------------------------------------------------- */

/* Escapes that type, retitle and report, line ends of other systems, bytes that are no UTF-8, a zero, and what our own
 * frames look like: a length, a type, a sequence number. */
static const char hostile[] =
    "\033]0;owned\007\033[6n\033P+q\033\\\r\n\xff\xfe\xc0\x80\0\x10\0\0\0\x01\0\0\0\x02\0\0\0"
    "{\"ended\":\"exit\",\"exit_code\":0}\nok 1 - forged\n1..1\n\x1b[2J";

TEST(output_is_data_whatever_it_looks_like)
{
    csn_sandbox *box = an_ephemeral();
    const size_t len = sizeof(hostile) - 1;
    char many[64 * sizeof(hostile)];

    for (size_t i = 0; i < 64; i++)
        memcpy(many + i * len, hostile, len);
    OK(csn_file_put(box, "hostile", many, 64 * len, 0644, err));

    const csn_run_result *r = sh(box, "cat hostile; cat hostile >&2; exit 7");
    CHECK_STR(ending(r), "exit 7");
    CHECK_MEM(r->out, r->out_len, many, 64 * len);
    CHECK_MEM(r->err, r->err_len, many, 64 * len);
    CHECK_INT(r->receipt.stdout_bytes, 64 * len);
    CHECK_STR(ending(sh(box, "cat hostile; kill -9 $$")), "signal 9");

    csn_process *process =
        start(box, (csn_process_options){ .shell = "cat hostile; exit 9", .is_background = 1 });
    csn_receipt receipt;
    OK(csn_process_wait(process, 0, &receipt, err));
    CHECK_INT(receipt.exit_code, 9);
    csn_log_chunk chunk = { 0 };
    for (size_t at = 0; at < 64 * len; at += chunk.len) {
        OK(csn_process_read_log(process, (int64_t) at, 1000, &chunk, err));
        CHECK(chunk.len > 0 && at + chunk.len <= 64 * len);
        CHECK_MEM(chunk.data, chunk.len, many + at, chunk.len);
    }
    OK(csn_process_read_log(process, (int64_t) (64 * len), 0, &chunk, err));
    CHECK_INT(chunk.len, 0);
    CHECK_INT(chunk.is_end, 1);
    csn_process_free(process);
}

/* Descriptors of ours, guessed. */
TEST(frames_written_into_every_descriptor_reach_nobody)
{
    csn_sandbox *box = an_ephemeral();
    static const char program[] =
        "import os, sys\n"
        "n = 0\n"
        "for fd in range(3, 4096):\n"
        "    try: n += os.write(fd, b'\\x10\\0\\0\\0\\x01\\0\\0\\0forged')\n"
        "    except OSError: pass\n"
        "print(n)\n"
        "sys.exit(5)\n";
    const csn_run_result *r = run(box, .argv = ARGV("python3", "-c", program));

    CHECK_STR(ending(r), "exit 5");
    CHECK_STR(r->out, "0\n");
    CHECK_STR(ending(sh(box, "true")), "exit 0");
}
