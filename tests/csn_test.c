#include "csn_test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT_S 60
#define EXIT_SKIP         77
#define MAX_DEFERRED      32

static csn_test *first_test, **last_link = &first_test;

static struct {
    bool no_fork;
    int timeout_s;
    char root[64];      /* the directory of this run; empty: not made yet */
    char dir[96];       /* of this test */
    int why_fd;         /* to the parent: why a test was skipped */
    char why[256];      /* … as it read it */
    sigjmp_buf way_out; /* of a test that runs in the process itself */
    int n_deferred;
    struct {
        void (*fn)(void *user);
        void *user;
    } deferred[MAX_DEFERRED];
} run = { .why_fd = -1 };

void csn_test_register(csn_test *t)
{
    *last_link = t;
    last_link = &t->next;
}

/* ---- inside a test ------------------------------------------------------------------------------------------- */

static void run_deferred(void)
{
    while (run.n_deferred > 0) {
        run.n_deferred--;
        run.deferred[run.n_deferred].fn(run.deferred[run.n_deferred].user);
    }
}

void csn_test_defer(void (*fn)(void *user), void *user)
{
    if (run.n_deferred == MAX_DEFERRED)
        csn_test_fail(__FILE__, __LINE__, "more than %d deferred calls", MAX_DEFERRED);
    run.deferred[run.n_deferred].fn = fn;
    run.deferred[run.n_deferred].user = user;
    run.n_deferred++;
}

/* Not exit(): what a test that stopped half-way holds is no leak. */
static _Noreturn void leave(int status)
{
    run_deferred();
    fflush(stdout);
    if (run.no_fork)
        siglongjmp(run.way_out, status);
    _exit(status);
}

__attribute__((format(printf, 1, 0))) static void print_note(const char *fmt, va_list args)
{
    char text[2048];

    (void) vsnprintf(text, sizeof(text), fmt, args);
    for (char *line = text, *end; line; line = end ? end + 1 : NULL) {
        end = strchr(line, '\n');
        printf("# %.*s\n", (int) (end ? end - line : (ptrdiff_t) strlen(line)), line);
    }
}

void csn_test_note(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    print_note(fmt, args);
    va_end(args);
}

void csn_test_fail(const char *file, int line, const char *fmt, ...)
{
    va_list args;

    printf("# %s:%d:\n", file, line);
    va_start(args, fmt);
    print_note(fmt, args);
    va_end(args);
    leave(1);
}

void csn_test_skip(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(run.why, sizeof(run.why), fmt, args);
    va_end(args);
    if (run.why_fd >= 0 && write(run.why_fd, run.why, strlen(run.why)) < 0)
        csn_test_note("write: %s", strerror(errno));
    leave(EXIT_SKIP);
}

void csn_check_int(const char *file, int line, const char *expr, intmax_t got, intmax_t want)
{
    if (got != want)
        csn_test_fail(file, line, "%s\n  is   %jd\n  want %jd", expr, got, want);
}

void csn_check_str(const char *file, int line, const char *expr, const char *got, const char *want)
{
    if (!got || !want ? got != want : strcmp(got, want) != 0)
        csn_test_fail(file, line, "%s\n  is   %s%.900s%s\n  want %s%.900s%s", expr, got ? "\"" : "",
                      got ? got : "NULL", got ? "\"" : "", want ? "\"" : "", want ? want : "NULL",
                      want ? "\"" : "");
}

static const char *hex_of(const unsigned char *data, size_t len, char out[200])
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < len && n + 4 < 200; i++)
        n += (size_t) snprintf(out + n, 200 - n, "%02x ", data[i]);
    return out;
}

void csn_check_mem(const char *file, int line, const char *expr, const void *got, size_t got_len,
                   const void *want, size_t want_len)
{
    char a[200], b[200];

    if (got_len != want_len || (got_len > 0 && memcmp(got, want, got_len) != 0))
        csn_test_fail(file, line, "%s\n  is   %zu bytes: %s\n  want %zu bytes: %s", expr, got_len,
                      hex_of(got, got_len, a), want_len, hex_of(want, want_len, b));
}

const char *csn_test_dir(void)
{
    if (mkdir(run.dir, 0700) < 0 && errno != EEXIST)
        csn_test_fail(__FILE__, __LINE__, "mkdir %s: %s", run.dir, strerror(errno));
    return run.dir;
}

char *csn_test_path(const char *fmt, ...)
{
    static char paths[16][512];
    static unsigned next;
    char *path = paths[next++ % 16];
    int n = snprintf(path, sizeof(paths[0]), "%s/", csn_test_dir());
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(path + n, sizeof(paths[0]) - (size_t) n, fmt, args);
    va_end(args);
    return path;
}

int csn_test_count_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* ---- around the tests ---------------------------------------------------------------------------------------- */

/* Follows no symlink and crosses no mount. What can't be removed is left. */
static void remove_tree(int parent, const char *name, dev_t dev)
{
    struct stat st;

    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0)
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir && fstat(fd, &st) == 0 && st.st_dev == dev) {
        (void) fchmod(fd, 0700);
        for (struct dirent *e; (e = readdir(dir));)
            if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
                unlinkat(fd, e->d_name, 0) < 0)
                remove_tree(fd, e->d_name, dev);
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    (void) unlinkat(parent, name, AT_REMOVEDIR);
}

void csn_test_remove(const char *path)
{
    struct stat st;

    if (path[0] && lstat(path, &st) == 0)
        remove_tree(AT_FDCWD, path, st.st_dev);
}

static int make_root(void)
{
    const char *tmp = getenv("TMPDIR");

    if (!tmp || strlen(tmp) > 40)
        tmp = "/tmp";
    (void) snprintf(run.root, sizeof(run.root), "%s/csn-test-XXXXXX", tmp);
    if (mkdtemp(run.root))
        return 0;
    perror(run.root);
    run.root[0] = '\0';
    return -1;
}

static int run_in_process(const csn_test *t)
{
    int status = sigsetjmp(run.way_out, 1);

    if (status)
        return status;
    t->run();
    run_deferred();
    return 0;
}

/* Whoever started us may have ignored or blocked signals (nohup, a shell's `&`). First of all: a test's own constructor may
 * set some as its program does. */
__attribute__((constructor(101))) static void reset_signals(void)
{
    sigset_t none;

    for (int sig = 1; sig < NSIG; sig++)
        (void) signal(sig, SIG_DFL); /* fails for those that can't be changed */
    sigemptyset(&none);
    (void) sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void run_as_child(const csn_test *t)
{
    (void) setsid();
    t->run();
    run_deferred();
    exit(0); /* with all exit handlers: this is where a leak checker speaks */
}

int csn_test_slow(void)
{
    const char *text = getenv("CSN_SLOW");
    long n = text ? strtol(text, NULL, 10) : 1;

    return n < 1 ? 1 : n > 10 ? 10 : (int) n;
}

static int remaining_ms(const struct timespec *start, int timeout_s)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    long ms = (long) (start->tv_sec - now.tv_sec + timeout_s) * 1000 +
              (start->tv_nsec - now.tv_nsec) / 1000000;
    return ms > 0 ? (int) ms : 0;
}

/* Waits for the child until the deadline; then, and for anything the child left in its session, SIGKILL. */
static int wait_for(pid_t pid, int timeout_s)
{
    struct timespec start;
    int status = 0, n;

    (void) clock_gettime(CLOCK_MONOTONIC, &start);
    struct pollfd p = { .fd = (int) syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
    do {
        n = p.fd >= 0 ? poll(&p, 1, remaining_ms(&start, timeout_s)) : 1;
    } while (n < 0 && errno == EINTR);
    (void) kill(-pid, SIGKILL);
    if (n == 0)
        (void) kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (p.fd >= 0)
        close(p.fd);
    if (n == 0) {
        printf("# timed out after %d s\n", timeout_s);
        return 1;
    }
    if (WIFSIGNALED(status))
        printf("# killed by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void read_why(int fd)
{
    ssize_t n = read(fd, run.why, sizeof(run.why) - 1);

    run.why[n > 0 ? n : 0] = '\0';
}

static int run_forked(const csn_test *t)
{
    int why[2];

    fflush(stdout);
    if (pipe2(why, O_CLOEXEC | O_NONBLOCK) < 0)
        return 1;
    pid_t pid = fork();
    if (pid == 0) {
        run.why_fd = why[1];
        run_as_child(t);
    }
    close(why[1]);
    int timeout_s = (t->timeout_s ? t->timeout_s : run.timeout_s) * csn_test_slow();
    int status = pid < 0 ? 1 : wait_for(pid, timeout_s);
    if (status == EXIT_SKIP)
        read_why(why[0]);
    close(why[0]);
    return status;
}

/* What nobody could change on this machine, in this build, as this user is no failure even where all must run. */
static bool is_excused(const char *why)
{
    static const char *const excuses[] = { "kernel: ", "build: ", "user: ", "net: " };

    for (size_t i = 0; i < sizeof(excuses) / sizeof(excuses[0]); i++)
        if (strncmp(why, excuses[i], strlen(excuses[i])) == 0)
            return true;
    return false;
}

static bool run_one(const csn_test *t, int number)
{
    const char *must = getenv("CSN_MUST_RUN");

    (void) snprintf(run.dir, sizeof(run.dir), "%s/%d", run.root, number);
    int status = run.no_fork ? run_in_process(t) : run_forked(t);
    csn_test_remove(run.dir);
    for (char *c = run.why; *c; c++)
        if (*c == '\n' || *c == '#')
            *c = ' ';
    if (status == EXIT_SKIP && must && strcmp(must, "1") == 0 && !is_excused(run.why))
        printf("# must run, but: %s\n", run.why);
    else if (status == EXIT_SKIP) {
        printf("ok %d - %s # SKIP %s\n", number, t->name, run.why);
        return true;
    }
    printf("%s %d - %s\n", status == 0 ? "ok" : "not ok", number, t->name);
    fflush(stdout);
    return status == 0;
}

static bool is_wanted(const csn_test *t, int argc, char **argv)
{
    bool has_pattern = false;

    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-')
            continue;
        has_pattern = true;
        if (strstr(t->name, argv[i]))
            return true;
    }
    return !has_pattern;
}

static int read_options(int argc, char **argv, bool *ret_list)
{
    run.timeout_s = DEFAULT_TIMEOUT_S;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0)
            *ret_list = true;
        else if (strcmp(argv[i], "--no-fork") == 0)
            run.no_fork = true;
        else if (strncmp(argv[i], "--timeout=", 10) == 0)
            run.timeout_s = (int) strtol(argv[i] + 10, NULL, 10);
        else if (argv[i][0] == '-') {
            fprintf(stderr, "usage: %s [--list] [--no-fork] [--timeout=SECONDS] [PATTERN...]\n",
                    argv[0]);
            return -1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    int n_tests = 0, n_failed = 0, number = 0;
    bool list = false;

    if (read_options(argc, argv, &list) < 0)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (csn_test *t = first_test; t; t = t->next) {
        if (!is_wanted(t, argc, argv))
            continue;
        n_tests++;
        if (list)
            printf("%s\n", t->name);
    }
    if (list)
        return 0;
    if (make_root() < 0)
        return 2;
    printf("1..%d\n", n_tests);
    for (csn_test *t = first_test; t; t = t->next)
        if (is_wanted(t, argc, argv) && !run_one(t, ++number))
            n_failed++;
    csn_test_remove(run.root);
    return n_failed > 0;
}
