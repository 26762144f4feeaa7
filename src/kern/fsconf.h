/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_FSCONF_H
#define CSN_KERN_FSCONF_H

#include <stdint.h>

/* One file system under construction: fsopen, fsconfig …, fsmount. Used by mount.c and overlay.c. */

int csn_fs_begin(const char *type, int *ret_fs);
int csn_fs_set(int fs, const char *key, const char *value); /* value at most 255 bytes */
int csn_fs_set_u64(int fs, const char *key, uint64_t value);
int csn_fs_set_octal(int fs, const char *key, unsigned value);
int csn_fs_flag(int fs, const char *key);
int csn_fs_finish(int fs, unsigned attr, int *ret_mount);

#endif
