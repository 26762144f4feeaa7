/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of the attacks. Without arguments: every attempt from inside a complete sandbox must be contained.
 * In test builds, with --walls-off: for every attempt the walls that its row names are switched off, all of them, and the
 * attempt must then succeed; otherwise the first half proves nothing about those walls. With --each-wall: all of them but
 * one, for each in turn, and it must be contained again (or the sandbox refuse to start). */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <caisson.h>

#include "attack.h"

enum { ATTACKS_MAX = 512, SHM_KEYS = 0x43000000, RED_MIN = 150 };

struct row {
    char name[64], requirement[48];
    uint32_t walls, needs;
    char host[96];
};

static struct row rows[ATTACKS_MAX];
static size_t n_rows;
static int n_tests, n_failed, n_red;
static const char *program;

static struct {
    char dir[64], file[96], socket[96], abstract[48];
    int tcp, abstract_socket, unix_socket, terminal, shm, port;
    pid_t process;
    char words[16][160];
    const char *argv[24];
} planted;

static void result(int ok, const char *name, const char *what, const char *why)
{
    printf("%sok %d - %s: %s%s%s\n", ok ? "" : "not ", ++n_tests, name, what, *why ? " # " : "",
           why);
    n_failed += !ok;
}

/* Said by the attempt itself: something it needs was not given to it. */
static void skipped(const char *name, const char *why)
{
    int must = getenv("CSN_MUST_RUN") != NULL;
    printf("%sok %d - %s # SKIP %s\n", must ? "not " : "", ++n_tests, name, why);
    n_failed += must;
}

/* Not to be had here, whatever we do: no test, so not even CSN_MUST_RUN makes it a failure. */
static void out_of_reach(const char *name, const char *why)
{
    printf("# %s: %s\n", name, why);
}

static long ns_inode(const char *name)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
    return stat(path, &st) == 0 ? (long) st.st_ino : 0;
}

static void plant_listeners(void)
{
    struct sockaddr_in in = { .sin_family = AF_INET };
    socklen_t len = sizeof(in);
    planted.tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bind(planted.tcp, (struct sockaddr *) &in, sizeof(in));
    listen(planted.tcp, 64);
    getsockname(planted.tcp, (struct sockaddr *) &in, &len);
    planted.port = ntohs(in.sin_port);

    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int n = snprintf(planted.abstract, sizeof(planted.abstract), "csn-canary-%d", getpid());
    memcpy(un.sun_path + 1, planted.abstract, (size_t) n);
    planted.abstract_socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bind(planted.abstract_socket, (struct sockaddr *) &un,
         (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) n));
    listen(planted.abstract_socket, 64);

    un = (struct sockaddr_un){ .sun_family = AF_UNIX };
    snprintf(planted.socket, sizeof(planted.socket), "%s/socket", planted.dir);
    memcpy(un.sun_path, planted.socket, strlen(planted.socket) + 1);
    planted.unix_socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bind(planted.unix_socket, (struct sockaddr *) &un, sizeof(un));
    chmod(planted.socket, 0777);
    listen(planted.unix_socket, 64);
}

static void plant_file(void)
{
    /* Not below /tmp or a home: those are private inside whatever the root is. */
    snprintf(planted.dir, sizeof(planted.dir), "/var/tmp/csn-canary-XXXXXX");
    if (!mkdtemp(planted.dir)) {
        perror(planted.dir);
        exit(1);
    }
    chmod(planted.dir, 0755);
    snprintf(planted.file, sizeof(planted.file), "%s/secret", planted.dir);
    int fd = open(planted.file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, "canary-of-the-host\n", 19) != 19)
        exit(1);
    close(fd);
}

/* Unless the caller has one for us. */
static void plant_state(void)
{
    char path[96];

    snprintf(path, sizeof(path), "%s/state", planted.dir);
    if (mkdir(path, 0700) < 0)
        exit(1);
    setenv("CAISSON_STATE", path, 0);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void) st, (void) kind, (void) where;
    return remove(path);
}

static void plant(void)
{
    static const char *const ns[] = { "net", "ipc", "uts", "pid", "mnt", "user", "cgroup", "time" };
    size_t n = 0;

    plant_file();
    plant_state();
    plant_listeners();
    planted.terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    planted.shm = shmget(SHM_KEYS | getpid(), 4096, IPC_CREAT | 0666); /* our own: others test beside us */
    planted.process = fork();
    if (planted.process == 0) {
        prctl(PR_SET_NAME, "csn-canary");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    setenv("CSN_CANARY_SECRET", "of-the-engine", 1);
    snprintf(planted.words[n++], sizeof(planted.words[0]), "file=%s", planted.file);
    snprintf(planted.words[n++], sizeof(planted.words[0]), "text=canary-of-the-host");
    snprintf(planted.words[n++], sizeof(planted.words[0]), "socket=%s", planted.socket);
    snprintf(planted.words[n++], sizeof(planted.words[0]), "abstract=%s", planted.abstract);
    snprintf(planted.words[n++], sizeof(planted.words[0]), "port=%d", planted.port);
    snprintf(planted.words[n++], sizeof(planted.words[0]), "shm=%d", SHM_KEYS | getpid());
    for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++)
        snprintf(planted.words[n++], sizeof(planted.words[0]), "%s=%ld", ns[i], ns_inode(ns[i]));
    planted.argv[0] = "/home/daytona/attacks";
    planted.argv[1] = "run";
    for (size_t i = 0; i < n; i++)
        planted.argv[3 + i] = planted.words[i];
}

static void uproot(void)
{
    nftw(planted.dir, remove_one, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    close(planted.tcp);
    close(planted.abstract_socket);
    close(planted.unix_socket);
    close(planted.terminal);
    if (planted.shm >= 0)
        shmctl(planted.shm, IPC_RMID, NULL);
    kill(planted.process, SIGKILL);
    waitpid(planted.process, NULL, 0);
}

static void read_table(void)
{
    int p[2];
    if (pipe2(p, O_CLOEXEC) < 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(p[1], 1);
        execl(program, program, "list", (char *) NULL);
        _exit(127);
    }
    close(p[1]);
    FILE *f = fdopen(p[0], "r");
    char line[256];
    while (n_rows < ATTACKS_MAX && fgets(line, sizeof(line), f)) {
        struct row *r = &rows[n_rows];
        if (sscanf(line, "%63[^\t]\t%47[^\t]\t%u\t%u\t%95[^\n]", r->name, r->requirement, &r->walls,
                   &r->needs, r->host) == 5)
            n_rows++;
    }
    fclose(f);
    waitpid(pid, NULL, 0);
}

static csn_sandbox *a_sandbox(csn_engine *engine, uint32_t walls_off, csn_error *err)
{
    csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1, .walls_off = walls_off };
    csn_sandbox *box = NULL;
    int fd;

    if (csn_sandbox_create(engine, &o, &box, err) < 0)
        return NULL;
    fd = open(program, O_RDONLY | O_CLOEXEC);
    int r = csn_file_put_fd(box, planted.argv[0], fd, 0755, NULL, err);
    close(fd);
    if (r < 0) {
        csn_sandbox_delete(box, NULL);
        return csn_sandbox_free(box);
    }
    return box;
}

/* The attempt's verdict, or -1 and a reason. */
static int attempt(csn_sandbox *box, const struct row *row, char *why, size_t why_size)
{
    csn_error err = { 0 };
    csn_run_result run = { 0 };
    csn_process_options o = { .size = sizeof(o), .argv = planted.argv, .timeout_ms = 20000 };

    planted.argv[2] = row->name;
    if (csn_run(box, &o, &run, &err) < 0) {
        snprintf(why, why_size, "%s", err.message);
        return -1;
    }
    int verdict = run.receipt.ended == CSN_ENDED_EXIT ? run.receipt.exit_code : -1;
    if (verdict < 0)
        snprintf(why, why_size, "ended by %s", csn_ending_name(run.receipt.ended));
    else
        snprintf(why, why_size, "%.*s", (int) strcspn(run.merged, "\n"), run.merged);
    csn_run_result_done(&run);
    return verdict;
}

static void all_walls_up(csn_engine *engine)
{
    csn_error err = { 0 };
    csn_sandbox *box = NULL;
    for (size_t i = 0; i < n_rows; i++) {
        char why[256] = "";
        if (!box && !(box = a_sandbox(engine, 0, &err))) {
            result(0, rows[i].name, "no sandbox", err.message);
            return;
        }
        int verdict = attempt(box, &rows[i], why, sizeof(why));
        char what[96];
        snprintf(what, sizeof(what), "contained (%s)", rows[i].requirement);
        if (verdict == CANNOT_TELL)
            skipped(rows[i].name, why);
        else
            result(verdict == CONTAINED, rows[i].name, what, verdict == CONTAINED ? "" : why);
        if (verdict <
            0) { /* the attempt took its sandbox with it: that is its own sandbox; go on in a new one */
            csn_sandbox_delete(box, NULL);
            box = csn_sandbox_free(box);
        }
    }
    if (box)
        csn_sandbox_delete(box, NULL);
    csn_sandbox_free(box);
}

/* --- without walls ------------------------------------------------------------------------------------------------ */

static int host_has(const char *what)
{
    struct rlimit limit;
    int resource;
    unsigned long long number;
    char name[IF_NAMESIZE];

    if (strcmp(what, "interface") == 0) {
        for (unsigned i = 1; i < 64; i++)
            if (if_indextoname(i, name) && strcmp(name, "lo") != 0)
                return 1;
        return 0;
    }
    if (sscanf(what, "limit:%d:%llu", &resource, &number) == 2)
        return syscall(SYS_prlimit64, 0, resource, NULL, &limit) == 0 && limit.rlim_max > number;
    if (sscanf(what, "call:%llu", &number) == 1) /* without arguments it changes nothing */
        return syscall((long) number, 0L, 0L, 0L) >= 0 || errno != ENOSYS;
    return strcmp(what, "-") == 0 || access(what, F_OK) == 0;
}

static int is_out_of_reach(const struct row *row)
{
    char why[160];

    if (geteuid() != 0 && (row->needs & NEEDS_ROOT_ENGINE || row->walls & (W_USERNS | W_IDS))) {
        out_of_reach(row->name, "its walls come down only in a privileged engine");
        return 1;
    }
    if (host_has(row->host))
        return 0;
    snprintf(why, sizeof(why), "this host has none: %s", row->host);
    out_of_reach(row->name, why);
    return 1;
}

static csn_sandbox *give_up(csn_sandbox *box)
{
    if (box)
        csn_sandbox_delete(box, NULL);
    return csn_sandbox_free(box);
}

/* All attempts of the rows that name `walls`, in sandboxes without `off`. The attempts share one, until it is spoilt. */
static void attempts_without(csn_engine *engine, uint32_t walls, uint32_t off, int wanted,
                             const char *what)
{
    csn_error err = { 0 };
    csn_sandbox *box = NULL;

    for (size_t i = 0; i < n_rows; i++) {
        char why[256] = "";
        if (rows[i].walls != walls || is_out_of_reach(&rows[i]))
            continue;
        if (!box && !(box = a_sandbox(engine, off, &err))) {
            result(wanted == CONTAINED, rows[i].name, what,
                   err.message); /* no sandbox, no attack */
            continue;
        }
        int verdict = attempt(box, &rows[i], why, sizeof(why));
        result(verdict == wanted, rows[i].name, what, verdict == wanted ? "" : why);
        n_red += verdict == BREACH;
        if (verdict < 0 || (verdict == BREACH && rows[i].needs & SPOILS_SANDBOX))
            box = give_up(box);
    }
    give_up(box);
}

static void all_but(csn_engine *engine, uint32_t walls, unsigned wall)
{
    static const char *const names[] = { "userns",  "namespaces", "netns",  "root",    "proc",
                                         "dev",     "caps",       "nnp",    "seccomp", "landlock",
                                         "rlimits", "id range",   "nesting" };
    char what[64];

    snprintf(what, sizeof(what), "contained by %s alone", names[wall]);
    attempts_without(engine, walls, walls & ~(1u << wall), CONTAINED, what);
}

static void each_set_of_walls(csn_engine *engine, int is_each)
{
    for (size_t i = 0; i < n_rows; i++) {
        size_t first;
        for (first = 0; rows[first].walls != rows[i].walls; first++)
            ;
        if (first != i || rows[i].walls == 0)
            continue;
        if (!is_each)
            attempts_without(engine, rows[i].walls, rows[i].walls, BREACH,
                             "goes red without its walls");
        for (unsigned wall = 0; is_each && wall < 13; wall++)
            if (rows[i].walls >> wall & 1)
                all_but(engine, rows[i].walls, wall);
    }
}

int main(int argc, char **argv)
{
    csn_error err = { 0 };
    csn_engine *engine = NULL;

    if (argc < 2) {
        fprintf(stderr, "usage: test_escape ATTACKS-PROGRAM [--walls-off | --each-wall]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    program = argv[1];
    read_table();
    plant();
    if (csn_engine_open(NULL, &engine, &err) < 0) {
        result(0, "engine", "opens", err.message);
    } else if (argc > 2 && strcmp(argv[2], "--walls-off") == 0) {
        each_set_of_walls(engine, 0);
        char what[64];
        snprintf(what, sizeof(what), "%d attempts went red", n_red);
        result(n_red >= RED_MIN, "walls", what, "");
    } else if (argc > 2 && strcmp(argv[2], "--each-wall") == 0) {
        each_set_of_walls(engine, 1);
    } else {
        size_t n_walled = 0;
        for (size_t i = 0; i < n_rows; i++)
            n_walled += rows[i].walls != 0;
        result(n_walled >= RED_MIN, "table", "holds at least 150 attempts that name their walls",
               "");
        all_walls_up(engine);
    }
    csn_engine_free(engine);
    uproot();
    printf("1..%d\n", n_tests);
    return n_failed ? 1 : 0;
}
