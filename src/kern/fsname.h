/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_FSNAME_H
#define CSN_KERN_FSNAME_H

enum { CSN_FS_NAME_SIZE = 32 };

/* What people call the file system that `fd` is on: "overlay", "nfs", …; "type 0x1234" for one we don't know, "an unknown
 * file system" when it can't be asked. Returns `out`. */
const char *csn_fs_name(int fd, char out[CSN_FS_NAME_SIZE]);

#endif
