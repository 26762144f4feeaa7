/* A directory of this machine into a tree, by the same rules as an archive. */
#ifndef CSN_UNPACK_COPY_H
#define CSN_UNPACK_COPY_H

#include "writer.h"

/* Copies all below `dirfd`; other file systems mounted in it come as empty directories, and so do the directories in
 * `avoid` (those we write to: a copy of / must not go on for ever). csn_writer_finish() is the caller's. */
int csn_copy_tree(int dirfd, const int avoid[2], csn_writer *w, csn_error *err);

#endif
