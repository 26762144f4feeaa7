/* tar, plain or packed with gzip, zstd or xz, into a tree. */
#ifndef CSN_UNPACK_TAR_H
#define CSN_UNPACK_TAR_H

#include <stdbool.h>

#include "digest.h"
#include "writer.h"

/* Reads the whole of `fd` from where it stands and puts every entry through the writer; csn_writer_finish() is the
 * caller's. ret_sha256 (may be NULL) gets the digest of all bytes of `fd`, those after the archive's end included. */
int csn_tar_unpack(int fd, csn_writer *w, char ret_sha256[CSN_DIGEST_SIZE], csn_error *err);

typedef enum csn_tar_kind {
    CSN_TAR_TREE,   /* a root file system */
    CSN_TAR_LAYOUT, /* holds an OCI layout or what `docker save` writes */
} csn_tar_kind;

/* Reads names until they tell what it is. Leaves `fd` anywhere. */
int csn_tar_sniff(int fd, csn_tar_kind *ret, csn_error *err);

#endif
