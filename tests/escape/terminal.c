/* SPDX-License-Identifier: Apache-2.0 */
/* Typing into somebody's shell is an escape (R18, CVE-2017-5226 and its bypass by high bits). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "attack.h"

enum { BYTE = 1, DISCIPLINE, HUNG_UP };

/* A pty of our own: with the filter down the kernel answers something that is not the filter's EPERM. */
static enum verdict on_own_pty(const struct attack *self)
{
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0) {
        printf("no /dev/ptmx\n");
        return CANNOT_TELL;
    }
    int unlock = 0;
    ioctl(master, TIOCSPTLCK, &unlock);
    int peer = ioctl(master, 0x5441 /* TIOCGPTPEER */, O_RDWR | O_NOCTTY);
    if (peer < 0) {
        printf("no pty peer\n");
        return CANNOT_TELL;
    }
    setsid();
    ioctl(peer, TIOCSCTTY, 0);
    if (self->arg[1] == HUNG_UP) {
        signal(SIGHUP, SIG_IGN);
        close(master);
    }
    static char byte = 'x';
    static int discipline = 9999; /* none with that number */
    long arg = self->arg[1] == DISCIPLINE ? (long) &discipline : (long) &byte;
    errno = 0;
    return refused(call(SYS_ioctl, peer, self->arg[0], arg, 0, 0, 0));
}

static enum verdict has_controlling_terminal(const struct attack *self)
{
    (void) self;
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);
    return fd < 0 ? CONTAINED : BREACH;
}

/* TIOCCONS would really take the host's console, so the terminal it is asked for is gone. TIOCLINUX wants a virtual
 * console and says ENOTTY elsewhere. */
const struct attack attacks_terminal[] = {
    { "tiocsti", "R18 (CVE-2017-5226)", W_SECCOMP, 0, on_own_pty, { TIOCSTI, BYTE }, NULL },
    { "tiocsti_high_bits",
      "R18 (CVE-2017-5226 bypass)",
      W_SECCOMP,
      0,
      on_own_pty,
      { (long) (0xffffffff00000000UL | TIOCSTI), BYTE },
      NULL },
    { "tioclinux", "R18", W_SECCOMP, 0, on_own_pty, { TIOCLINUX, BYTE }, NULL },
    { "tioclinux_high_bits",
      "R18",
      W_SECCOMP,
      0,
      on_own_pty,
      { (long) (0x100000000UL | TIOCLINUX), BYTE },
      NULL },
    { "tiocsetd", "R18", W_SECCOMP, 0, on_own_pty, { TIOCSETD, DISCIPLINE }, NULL },
    { "tiocsetd_high_bits",
      "R18",
      W_SECCOMP,
      0,
      on_own_pty,
      { (long) (0x100000000UL | TIOCSETD), DISCIPLINE },
      NULL },
    { "tioccons", "R18", W_SECCOMP, 0, on_own_pty, { TIOCCONS, HUNG_UP }, NULL },
    { "tioccons_high_bits",
      "R18",
      W_SECCOMP,
      0,
      on_own_pty,
      { (long) (0x100000000UL | TIOCCONS), HUNG_UP },
      NULL },
    { "hosts_controlling_terminal", "R18", 0, 0, has_controlling_terminal, { 0 }, NULL },
    { 0 },
};
