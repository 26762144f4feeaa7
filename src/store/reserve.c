/* SPDX-License-Identifier: Apache-2.0 */
/* Room on the disk that belongs to the database alone: blocks behind the end of its two files, which nobody else can take. The
 * write-ahead log gets as much as it grows to between two checkpoints and some more, the database what a checkpoint may add.
 *
 * The database's descriptor is opened before SQLite opens the file and closed after: closing any descriptor of a file
 * releases the process's locks on it, those of SQLite too. */
#include <fcntl.h>
#include <unistd.h>

#include "store/db.h"

enum { WAL_BYTES = 4608 << 10, GROWTH_BYTES = 1 << 20, LEAST_BYTES = 64 << 10 };

/* Half of it is better than nothing. Blocks that are there already are kept. */
static void take_room(int fd, off_t from, off_t len)
{
    for (; len >= LEAST_BYTES; len /= 2)
        if (fallocate(fd, FALLOC_FL_KEEP_SIZE, from, len) == 0)
            return;
}

void csn_store_keep_room(csn_store *store)
{
    if (store->wal_fd >= 0)
        take_room(store->wal_fd, 0, WAL_BYTES);
}

void csn_store_reserve(csn_store *store)
{
    off_t end = store->file_fd >= 0 ? lseek(store->file_fd, 0, SEEK_END) : -1;
    const char *wal = sqlite3_filename_wal(sqlite3_db_filename(store->db, "main"));

    if (store->wal_fd < 0 && wal && *wal) /* SQLite makes it, and keeps it as long as it is open */
        store->wal_fd = open(wal, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    csn_store_keep_room(store);
    if (end >= 0)
        take_room(store->file_fd, end, GROWTH_BYTES);
}
