#include "tar_maker.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "csn_test.h"

extern char **environ;

struct ustar {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[6],
        version[2], uname[32], gname[32], major[8], minor[8], prefix[155], pad[12];
};

static void put(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(fd, p, len);

        CHECK(n > 0);
        p += n;
        len -= (size_t) n;
    }
}

/* Numbers too large for octal digits are binary, with the top bit set. */
static void put_number(char *field, size_t size, uint64_t value)
{
    if (value < (UINT64_C(1) << (3 * (size - 1)))) {
        (void) snprintf(field, size, "%0*llo", (int) size - 1, (unsigned long long) value);
        return;
    }
    for (size_t i = 0; i < size; i++, value >>= 8)
        field[size - 1 - i] = (char) value;
    field[0] = (char) 0x80;
}

static void put_name(struct ustar *h, const char *name)
{
    size_t len = strlen(name);

    if (len <= sizeof(h->name)) {
        memcpy(h->name, name, len);
        return;
    }
    for (size_t cut = len - 1; cut > 0; cut--)
        if (name[cut] == '/' && cut <= sizeof(h->prefix) && len - cut - 1 <= sizeof(h->name)) {
            memcpy(h->prefix, name, cut);
            memcpy(h->name, name + cut + 1, len - cut - 1);
            return;
        }
    FAIL("'%.40s…' is too long for ustar", name);
}

void tar_begin(tar_maker *tar, const char *path)
{
    tar->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(tar->fd >= 0);
}

void tar_add(tar_maker *tar, const tar_entry *e)
{
    static const char zeros[512];
    struct ustar h = { .magic = "ustar", .version = { '0', '0' }, .type = e->type ? e->type : '0' };
    size_t size = e->size ? e->size : e->data ? strlen(e->data) : 0;
    unsigned sum = 0;

    put_name(&h, e->name);
    put_number(h.mode, sizeof(h.mode), e->mode ? e->mode : e->type == '5' ? 0755 : 0644);
    put_number(h.uid, sizeof(h.uid), e->uid);
    put_number(h.gid, sizeof(h.gid), e->gid);
    put_number(h.size, sizeof(h.size), e->claims ? (uint64_t) e->claims : size);
    put_number(h.mtime, sizeof(h.mtime), 1000000000);
    put_number(h.major, sizeof(h.major), e->type == '3' ? 1 : 0);
    put_number(h.minor, sizeof(h.minor), e->type == '3' ? 3 : 0);
    if (e->link)
        memcpy(h.link, e->link, strlen(e->link));
    memset(h.sum, ' ', sizeof(h.sum));
    for (size_t i = 0; i < sizeof(h); i++)
        sum += ((unsigned char *) &h)[i];
    (void) snprintf(h.sum, sizeof(h.sum), "%06o", sum);
    put(tar->fd, &h, sizeof(h));
    if (e->data)
        put(tar->fd, e->data, size);
    for (size_t left = e->data ? 0 : size; left > 0; left -= left < 512 ? left : 512)
        put(tar->fd, zeros, left < 512 ? left : 512);
    put(tar->fd, zeros, (512 - size % 512) % 512);
}

void tar_pax(tar_maker *tar, const char *key, const char *value)
{
    char record[1024];
    size_t len = strlen(key) + strlen(value) + 3, digits = 1;

    while ((size_t) snprintf(NULL, 0, "%zu", len + digits) > digits)
        digits++;
    (void) snprintf(record, sizeof(record), "%zu %s=%s\n", len + digits, key, value);
    TAR_ADD(tar, .name = "pax", .type = 'x', .data = record);
}

void tar_end(tar_maker *tar)
{
    static const char zeros[1024];

    put(tar->fd, zeros, sizeof(zeros));
    CHECK(close(tar->fd) == 0);
}

void tar_make_long(const char *path)
{
    const int64_t size = INT64_C(8) << 30;
    tar_maker tar;

    tar_begin(&tar, path);
    TAR_ADD(&tar, .name = "zeros", .claims = size);
    CHECK(close(tar.fd) == 0);
    CHECK(truncate(path, 512 + size + 1024) == 0);
}

void run_program(const char *const argv[])
{
    int status = -1;
    pid_t pid;

    if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *) argv, environ) != 0)
        SKIP("'%s' is missing", argv[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        FAIL("'%s' ended with %#x", argv[0], (unsigned) status);
}
