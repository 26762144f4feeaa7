/* SPDX-License-Identifier: Apache-2.0 */
#include "fsconf.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fault.h"
#include "missing.h"

int csn_fs_begin(const char *type, int *ret_fs)
{
    int r = csn_fault_as("fsopen", EPERM);

    if (r < 0)
        return r;
    int fd = (int) syscall(SYS_fsopen, type, CSN_FSOPEN_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_fs = fd;
    return 0;
}

int csn_fs_set(int fs, const char *key, const char *value)
{
    return syscall(SYS_fsconfig, fs, CSN_FSCONFIG_STRING, key, value, 0) < 0 ? -errno : 0;
}

int csn_fs_set_u64(int fs, const char *key, uint64_t value)
{
    char text[24];

    (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) value); /* always fits */
    return csn_fs_set(fs, key, text);
}

int csn_fs_set_octal(int fs, const char *key, unsigned value)
{
    char text[16];

    (void) snprintf(text, sizeof(text), "%o", value); /* always fits */
    return csn_fs_set(fs, key, text);
}

int csn_fs_flag(int fs, const char *key)
{
    return syscall(SYS_fsconfig, fs, CSN_FSCONFIG_FLAG, key, NULL, 0) < 0 ? -errno : 0;
}

int csn_fs_finish(int fs, unsigned attr, int *ret_mount)
{
    int r = csn_fault_as("fsmount", EPERM);

    if (r < 0)
        return r;
    if (syscall(SYS_fsconfig, fs, CSN_FSCONFIG_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    /* NOSYMFOLLOW came to fsmount with 5.14; all our attributes are known there */
    int fd = (int) syscall(SYS_fsmount, fs, CSN_FSMOUNT_CLOEXEC, attr);
    if (fd < 0)
        return -errno;
    *ret_mount = fd;
    return 0;
}
