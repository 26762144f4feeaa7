/* SPDX-License-Identifier: Apache-2.0 */
#include "lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"

int csn_lines_open(csn_lines *lines, int dirfd, const char *path, size_t max)
{
    int r = csn_fault("open");

    if (r < 0)
        return r;
    int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    lines->fd = fd;
    lines->start = lines->end = 0;
    lines->budget = max;
    lines->skipping = false;
    return 0;
}

void csn_lines_done(csn_lines *lines)
{
    csn_close(&lines->fd);
}

/* Moves the rest to the front and reads more. 0 at the end of the file. */
static ssize_t refill(csn_lines *lines)
{
    size_t have = lines->end - lines->start;

    memmove(lines->data, lines->data + lines->start, have);
    lines->start = 0;
    lines->end = have;
    if (have == sizeof(lines->data)) { /* no newline in a whole buffer */
        lines->skipping = true;
        lines->end = have = 0;
    }
    size_t room = sizeof(lines->data) - have;
    if (room > lines->budget)
        room = lines->budget;
    if (room == 0)
        return 0;
    ssize_t n = csn_read(lines->fd, lines->data + have, room);
    if (n > 0) {
        lines->end += (size_t) n;
        lines->budget -= (size_t) n;
    }
    return n;
}

int csn_lines_next(csn_lines *lines, csn_str *ret_line)
{
    for (;;) {
        char *from = lines->data + lines->start;
        char *newline = memchr(from, '\n', lines->end - lines->start);
        if (newline) {
            bool skip = lines->skipping;
            lines->skipping = false;
            lines->start = (size_t) (newline - lines->data) + 1;
            if (skip)
                continue;
            *ret_line = csn_str_n(from, (size_t) (newline - from));
            return 1;
        }
        ssize_t n = refill(lines);
        if (n < 0)
            return (int) n;
        if (n > 0)
            continue;
        size_t rest = lines->end - lines->start; /* a last line without a newline */
        if (rest == 0 || lines->skipping || lines->budget == 0)
            return 0;
        *ret_line = csn_str_n(lines->data + lines->start, rest);
        lines->start = lines->end;
        return 1;
    }
}

csn_str csn_lines_field(csn_str *rest, char sep)
{
    while (rest->len && rest->data[0] == sep) {
        rest->data++;
        rest->len--;
    }
    csn_str field = { rest->data, 0 };
    while (rest->len && rest->data[0] != sep) {
        rest->data++;
        rest->len--;
        field.len++;
    }
    return field;
}

int csn_small_read(int dirfd, const char *path, char *out, size_t size)
{
    csn_auto(fd) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0)
        return -errno;
    ssize_t n = csn_read(fd, out, size - 1);
    if (n < 0)
        return (int) n;
    out[n] = '\0';
    return (int) n;
}

int csn_small_read_u64(int dirfd, const char *path, uint64_t *ret)
{
    char text[32];
    int n = csn_small_read(dirfd, path, text, sizeof(text));

    if (n < 0)
        return n;
    csn_str value = csn_str_trim(csn_str_n(text, (size_t) n));
    if (csn_str_is(value, "max")) {
        *ret = UINT64_MAX;
        return 0;
    }
    return csn_parse_u64(value, ret);
}

int csn_keyed_read_u64(int dirfd, const char *path, const char *key, uint64_t *ret)
{
    char text[4096];
    int n = csn_small_read(dirfd, path, text, sizeof(text));

    if (n < 0)
        return n;
    csn_str rest = csn_str_n(text, (size_t) n), line;
    while (csn_str_split(&rest, '\n', &line)) {
        csn_str name = csn_lines_field(&line, ' ');
        if (csn_str_is(name, key))
            return csn_parse_u64(csn_lines_field(&line, ' '), ret);
    }
    return -ENOENT;
}
