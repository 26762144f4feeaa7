#include "leash.h"

#include <poll.h>

static int leash_fd = -1;
static unsigned n_asked;

void csn_leash_set(int fd)
{
    leash_fd = fd;
}

bool csn_leash_holds(void)
{
    struct pollfd p = { .fd = leash_fd, .events = 0 };

    if (leash_fd < 0 || n_asked++ % 64 != 0)
        return true;
    return poll(&p, 1, 0) <= 0 || !(p.revents & POLLERR);
}
