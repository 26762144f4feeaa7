/* SPDX-License-Identifier: Apache-2.0 */
/* Whose an attached sandbox is whose files outlive a stop.
 *
 * Its engine holds a lock on boxes/<id>/lease for as long as it runs, also while the sandbox is stopped and has no keeper. When
 * nobody holds it any more the sandbox belongs to nobody: its keeper removes it, or whoever opens an engine next. Boxes without that
 * file are detached, ephemeral, or of a version that kept them. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "local/local.h"

/* In a directory that is locked and has no record yet, so nobody looks at it meanwhile. */
int csn_lease_claim(csn_local_box *box, csn_error *err)
{
    csn_auto(fd) int fd = -1;
    int r = csn_fault_as("open", EMFILE);

    if (r == 0) {
        fd = openat(box->dir_fd, CSN_BOX_LEASE,
                    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        r = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
    }
    if (r < 0)
        return csn_fail_sys(err, r, "lock sandbox '%s' for this program", box->base.wish.id);
    box->lease_fd = csn_take_fd(&fd);
    return CSN_OK;
}

csn_lease csn_lease_of(int dir_fd)
{
    csn_auto(fd) int fd = openat(dir_fd, CSN_BOX_LEASE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return CSN_LEASE_NONE;
    return flock(fd, LOCK_SH | LOCK_NB) == 0 ? CSN_LEASE_GONE : CSN_LEASE_HELD;
}

void csn_lease_drop(csn_local_box *box)
{
    bool had_lease = box->has_lease;

    box->has_lease = false;
    csn_close(&box->lease_fd);
    if (had_lease)
        csn_box_unref(&box->base);
}

void csn_lease_remove(csn_local_box *box)
{
    if (box->lease_fd < 0 || box->base.state == CSN_STATE_DELETED || csn_box_lock_now(box->dir_fd) < 0)
        return;
    if (!csn_box_has_keeper(box->dir_fd))
        (void) csn_box_remove(csn_local_of(&box->base), &box->base.wish, box->dir_fd,
                              NULL); /* else the sweep does */
    csn_box_unlock(box->dir_fd);
    box->base.state = CSN_STATE_DELETED;
}
