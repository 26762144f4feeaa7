#include "term.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"

static struct termios before;
static volatile sig_atomic_t raw_fd = -1;
static volatile sig_atomic_t screen_fd = -1;

void cli_term_restore(void)
{
    static const char leave[] = "\033[?25h\033[?1049l";
    int saved = errno;

    if (screen_fd >= 0)
        (void) !write(screen_fd, leave, sizeof(leave) - 1); /* a closed terminal needs none */
    screen_fd = -1;
    if (raw_fd >= 0)
        (void) tcsetattr(raw_fd, TCSADRAIN, &before); /* likewise */
    raw_fd = -1;
    errno = saved;
}

static void on_crash(int number)
{
    cli_term_restore();
    (void) signal(number, SIG_DFL);
    (void) raise(number);
}

static void restore_at_any_end(void)
{
    static const int crashes[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };
    static bool is_done;
    struct sigaction act = { .sa_handler = on_crash, .sa_flags = SA_RESETHAND };

    if (is_done)
        return;
    is_done = true;
    (void) sigemptyset(&act.sa_mask);
    (void) atexit(cli_term_restore); /* else only the explicit calls remain */
    for (size_t i = 0; i < CSN_COUNT(crashes); i++)
        (void) sigaction(crashes[i], &act, NULL); /* the numbers are right: it can't fail */
}

int cli_term_raw(int fd)
{
    struct termios raw;

    if (tcgetattr(fd, &before) < 0)
        return -errno;
    restore_at_any_end();
    raw = before;
    cfmakeraw(&raw);
    raw_fd = fd;
    if (tcsetattr(fd, TCSADRAIN, &raw) < 0) {
        raw_fd = -1;
        return -errno;
    }
    return 0;
}

void cli_term_screen(int fd)
{
    static const char enter[] = "\033[?1049h\033[?25l";

    restore_at_any_end();
    screen_fd = fd;
    (void) !write(fd, enter, sizeof(enter) - 1); /* the next write tells */
}

void cli_term_size(int fd, uint16_t *rows, uint16_t *cols)
{
    struct winsize size = { 0 };

    (void) ioctl(fd, TIOCGWINSZ, &size); /* zeros mean: unknown */
    *rows = size.ws_row ? size.ws_row : 24;
    *cols = size.ws_col ? size.ws_col : 80;
}
