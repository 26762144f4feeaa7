/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_LINES_H
#define CSN_KERN_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* Reads a text file line by line with a fixed buffer: for procfs and small tables in /etc, between
 * clone and exec too. Lines that don't fit are skipped whole. */
typedef struct csn_lines {
    int fd;        /* owned */
    size_t start;  /* first unread byte */
    size_t end;    /* behind the last byte */
    size_t budget; /* bytes that may still be read */
    bool skipping; /* inside a line that is too long */
    char data[4096];
} csn_lines;

/* Reads at most `max` bytes in all: what lies beyond is as if it weren't there. */
int csn_lines_open(csn_lines *lines, int dirfd, const char *path, size_t max);

/* 1 and a line without its newline, valid until the next call; 0 at the end; -errno. */
int csn_lines_next(csn_lines *lines, csn_str *ret_line);
void csn_lines_done(csn_lines *lines);

/* Takes the next field off *rest (fields are separated by one or more `sep`); empty at the end. */
csn_str csn_lines_field(csn_str *rest, char sep);

/* Reads a short file whole into `out` with a NUL: its length or -errno. */
int csn_small_read(int dirfd, const char *path, char *out, size_t size);

/* A file that holds one decimal number. "max" reads as UINT64_MAX. */
int csn_small_read_u64(int dirfd, const char *path, uint64_t *ret);

/* "key value" lines: the value of `key`. -ENOENT: no such key. */
int csn_keyed_read_u64(int dirfd, const char *path, const char *key, uint64_t *ret);

#endif
