#include "cancel.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"

struct csn_cancel {
    int fd; /* an eventfd that is never read: the only state, and write() is safe anywhere */
};

int csn_cancel_new(csn_cancel **ret_cancel, csn_error *err)
{
    csn_cancel *c = csn_calloc(1, sizeof(*c));

    if (!c)
        return csn_fail(err, CSN_E_NO_MEMORY, "out of memory");
    c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->fd < 0) {
        int r = csn_fail_sys(err, -errno, "make a cancel handle");

        free(c);
        return r;
    }
    *ret_cancel = c;
    return CSN_OK;
}

csn_cancel *csn_cancel_free(csn_cancel *cancel)
{
    if (cancel)
        csn_close(&cancel->fd);
    free(cancel);
    return NULL;
}

void csn_cancel_fire(csn_cancel *cancel)
{
    int saved = errno;
    uint64_t one = 1;

    if (write(cancel->fd, &one, sizeof(one)) < 0) {
        /* full after 2^64 - 2 calls, and then it is long fired */
    }
    errno = saved;
}

int csn_cancel_is_fired(const csn_cancel *cancel)
{
    struct pollfd p = { cancel->fd, POLLIN, 0 };

    return poll(&p, 1, 0) > 0;
}

int csn_cancel_fd(const csn_cancel *cancel)
{
    return cancel->fd;
}
