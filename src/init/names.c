/* SPDX-License-Identifier: Apache-2.0 */
/* Users and groups of the sandbox: "name:x:number:…" lines, read once per worker, as far as they fit. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "init/worker.h"

enum { FILE_BYTES = 64 * 1024, NAME_BYTES = 64 };

typedef struct name_file {
    const char *path;
    char *text; /* FILE_BYTES */
    size_t len;
    int is_read;
    uint32_t last_id; /* the answer given last: listings ask for the same one again and again */
    char last_name[NAME_BYTES];
    int has_last;
} name_file;

static char users_text[FILE_BYTES],
    groups_text[FILE_BYTES]; /* not in the struct: zeros need no room in the file */
static name_file users = { .path = "/etc/passwd", .text = users_text };
static name_file groups = { .path = "/etc/group", .text = groups_text };

static void read_names(name_file *f)
{
    int fd;

    if (f->is_read)
        return;
    f->is_read = 1;
    fd = csn_open_at(AT_FDCWD, f->path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return; /* then nobody has a name */
    for (;;) {
        ssize_t n = read(fd, f->text + f->len, FILE_BYTES - f->len);
        if (n <= 0)
            break;
        f->len += (size_t) n;
    }
    (void) close(fd); /* was only read */
}

/* Decimal digits alone, 0 … 2^32 - 2. */
static int parse_id(const char *s, size_t len, uint32_t *ret)
{
    uint64_t value = 0;

    if (len == 0 || len > 10)
        return -EINVAL;
    for (size_t i = 0; i < len; i++) {
        if (s[i] < '0' || s[i] > '9')
            return -EINVAL;
        value = value * 10 + (uint64_t) (s[i] - '0');
    }
    if (value >= UINT32_MAX)
        return -EINVAL;
    *ret = (uint32_t) value;
    return 0;
}

/* Cuts one line into name and number. Returns where the next begins; name_len 0: not a line of names. */
static size_t next_line(const name_file *f, size_t at, size_t *ret_name_len, uint32_t *ret_id)
{
    const char *line = f->text + at;
    const char *end = memchr(line, '\n', f->len - at);
    size_t len = end ? (size_t) (end - line) : f->len - at;
    const char *colon = memchr(line, ':', len);
    const char *number = colon ? memchr(colon + 1, ':', len - (size_t) (colon + 1 - line)) : NULL;
    size_t digits = 0;

    *ret_name_len = 0;
    if (number) {
        number++;
        while (number + digits < line + len && number[digits] != ':')
            digits++;
        if (parse_id(number, digits, ret_id) == 0)
            *ret_name_len = (size_t) (colon - line);
    }
    return at + len + 1;
}

static const char *name_of(name_file *f, uint32_t id)
{
    size_t at = 0, name_len;
    uint32_t line_id;

    read_names(f);
    if (f->has_last && f->last_id == id)
        return f->last_name;
    f->last_name[0] = '\0';
    f->last_id = id;
    f->has_last = 1;
    while (at < f->len) {
        size_t start = at;
        at = next_line(f, at, &name_len, &line_id);
        if (name_len == 0 || name_len >= NAME_BYTES || line_id != id)
            continue;
        if (memchr(f->text + start, '\0', name_len))
            continue;
        memcpy(f->last_name, f->text + start, name_len);
        f->last_name[name_len] = '\0';
        break;
    }
    return f->last_name;
}

static int id_of(name_file *f, const char *name, uint32_t *ret)
{
    size_t at = 0, name_len, want = strlen(name);
    uint32_t line_id;

    read_names(f);
    while (at < f->len) {
        size_t start = at;
        at = next_line(f, at, &name_len, &line_id);
        if (name_len == want && want > 0 && memcmp(f->text + start, name, want) == 0) {
            *ret = line_id;
            return 0;
        }
    }
    return parse_id(name, want, ret);
}

const char *csn_user_name(uid_t uid)
{
    return name_of(&users, uid);
}

const char *csn_group_name(gid_t gid)
{
    return name_of(&groups, gid);
}

int csn_user_id(const char *name, uid_t *ret)
{
    return id_of(&users, name, ret);
}

int csn_group_id(const char *name, gid_t *ret)
{
    return id_of(&groups, name, ret);
}
