/* Linked into a test's program: whoever makes a call that may wait is written down, with its stack.
 *
 * Theory of operation. A definition in the program stands before the one in libc, also for the libraries the program uses, so
 * this works in every build, sanitized or not. Every call below that could put the thread to sleep becomes a line
 *     nowait(PROGRAM): NAME OFFSET OFFSET …
 * with the offsets of the callers in the program, innermost first, and is then made. nowait.py knows which of them ran inside of
 * a callback. Lines go to the file CSN_NOWAIT_FILE names, or to stderr.
 *
 * With CSN_NOWAIT_CPU_MS the same is written ("cpu") when the thread has computed for that long since its loop last waited. */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES_MAX = 64, FIRST_FD = 900, SEEN_MAX = 4096 };

extern const char __executable_start[], _end[]; /* the linker's */

static int report_fd = STDERR_FILENO;
static timer_t cpu_timer;
static int cpu_ms;
static pid_t timer_owner; /* a forked child has none */

/* Each stack is told once per process: a loop waits often. */
static int is_seen(const char *text)
{
    static uint64_t seen[SEEN_MAX]; /* 0: free */
    uint64_t hash = 14695981039346656037u;

    for (; *text; text++)
        hash = (hash ^ (unsigned char) *text) * 1099511628211u;
    for (size_t i = 0; i < SEEN_MAX; i++) {
        uint64_t *at = &seen[(hash + i) % SEEN_MAX];

        if (*at == hash)
            return 1;
        if (*at == 0) {
            *at = hash;
            return 0;
        }
    }
    return 0;
}

/* One write, so that lines of several processes don't mix. */
static void report(const char *call)
{
    static _Thread_local int is_busy;
    void *frames[FRAMES_MAX];
    char line[FRAMES_MAX * 12 + 256];
    int saved = errno, n_frames, len;

    if (is_busy++) {
        is_busy--;
        return;
    }
    n_frames = backtrace(frames, FRAMES_MAX);
    len = snprintf(line, sizeof(line), "nowait(%s): %s", program_invocation_short_name, call);
    for (int i = 0; i < n_frames; i++) {
        const char *at = frames[i];

        if (at > __executable_start && at < _end) /* minus one: inside of the call, not behind it */
            len += snprintf(line + len, sizeof(line) - (size_t) len, " %zx",
                            (size_t) (at - __executable_start - 1));
    }
    if (!is_seen(line)) {
        line[len++] = '\n';
        if (write(report_fd, line, (size_t) len) != len)
            abort();
    }
    is_busy--;
    errno = saved;
}

static void on_cpu(int number)
{
    (void) number;
    report("cpu");
}

static void set_cpu_timer(int ms)
{
    struct itimerspec its = { .it_value = { .tv_nsec = ms * 1000000L } };

    if (cpu_ms > 0 && timer_owner == getpid() && timer_settime(cpu_timer, 0, &its, NULL) < 0)
        abort();
}

static void make_cpu_timer(void)
{
    struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF };
    struct sigaction act = { .sa_handler = on_cpu, .sa_flags = SA_RESTART };

    if (sigaction(SIGPROF, &act, NULL) < 0 ||
        timer_create(CLOCK_THREAD_CPUTIME_ID, &ev, &cpu_timer) < 0)
        abort();
    timer_owner = getpid();
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CSN_NOWAIT_FILE"), *ms = getenv("CSN_NOWAIT_CPU_MS");
    void *frame;

    (void) backtrace(&frame, 1); /* loads what it needs, before walls stand */
    if (path) {
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

        report_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
        if (report_fd < 0)
            abort();
        close(fd);
    }
    cpu_ms = ms ? (int) strtol(ms, NULL, 10) : 0;
}

#define REAL(name) ((__typeof__(&(name))) dlsym(RTLD_NEXT, #name))

/* A loop waits: what it computes afterwards counts anew. */
static int wait_events(int fd, struct epoll_event *events, int max, int ms)
{
    int n;

    if (ms != 0)
        report("epoll_wait");
    if (cpu_ms > 0 && timer_owner != getpid())
        make_cpu_timer();
    set_cpu_timer(0);
    n = REAL(epoll_wait)(fd, events, max, ms);
    set_cpu_timer(cpu_ms);
    return n;
}

int epoll_wait(int fd, struct epoll_event *events, int max, int ms)
{
    return wait_events(fd, events, max, ms);
}

int epoll_pwait(int fd, struct epoll_event *events, int max, int ms, const sigset_t *mask)
{
    if (ms != 0)
        report("epoll_pwait");
    return REAL(epoll_pwait)(fd, events, max, ms, mask);
}

int fsync(int fd)
{
    report("fsync");
    return REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    report("fdatasync");
    return REAL(fdatasync)(fd);
}

int syncfs(int fd)
{
    report("syncfs");
    return REAL(syncfs)(fd);
}

void sync(void)
{
    report("sync");
    REAL(sync)();
}

int sync_file_range(int fd, off64_t offset, off64_t n, unsigned flags)
{
    if (flags & (SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER))
        report("sync_file_range");
    return REAL(sync_file_range)(fd, offset, n, flags);
}

int msync(void *at, size_t len, int flags)
{
    if (flags & MS_SYNC)
        report("msync");
    return REAL(msync)(at, len, flags);
}

pid_t wait(int *status)
{
    report("wait");
    return REAL(wait)(status);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
    if (!(options & WNOHANG))
        report("waitpid");
    return REAL(waitpid)(pid, status, options);
}

int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    if (!(options & WNOHANG))
        report("waitid");
    return REAL(waitid)(type, id, info, options);
}

int poll(struct pollfd *fds, nfds_t n, int ms)
{
    if (ms != 0)
        report("poll");
    return REAL(poll)(fds, n, ms);
}

int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size);
int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size)
{
    (void) size;
    return poll(fds, n, ms);
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts, const sigset_t *mask)
{
    if (!ts || ts->tv_sec > 0 || ts->tv_nsec > 0)
        report("ppoll");
    return REAL(ppoll)(fds, n, ts, mask);
}

int select(int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *tv)
{
    if (!tv || tv->tv_sec > 0 || tv->tv_usec > 0)
        report("select");
    return REAL(select)(n, in, out, except, tv);
}

int flock(int fd, int how)
{
    if (!(how & (LOCK_NB | LOCK_UN)))
        report("flock");
    return REAL(flock)(fd, how);
}

#define LOCKS(command) ((command) == F_SETLKW || (command) == F_OFD_SETLKW)

int fcntl(int fd, int command, ...)
{
    va_list list;
    void *arg;

    va_start(list, command);
    arg = va_arg(list, void *); /* an int, a pointer, nothing: passed on as it is */
    va_end(list);
    if (LOCKS(command))
        report("fcntl");
    return REAL(fcntl)(fd, command, arg);
}

int fcntl64(int fd, int command, ...)
{
    va_list list;
    void *arg;

    va_start(list, command);
    arg = va_arg(list, void *); /* likewise */
    va_end(list);
    if (LOCKS(command))
        report("fcntl");
    return REAL(fcntl64)(fd, command, arg);
}

int nanosleep(const struct timespec *ts, struct timespec *left)
{
    report("nanosleep");
    return REAL(nanosleep)(ts, left);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *ts, struct timespec *left)
{
    report("clock_nanosleep");
    return REAL(clock_nanosleep)(clock, flags, ts, left);
}

int usleep(useconds_t us)
{
    report("usleep");
    return REAL(usleep)(us);
}

unsigned sleep(unsigned seconds)
{
    report("sleep");
    return REAL(sleep)(seconds);
}
