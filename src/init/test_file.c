/* SPDX-License-Identifier: Apache-2.0 */
#include "init/test_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "csn_test.h"

box a_box(void)
{
    box b = box_start((box_options){ .in_memory = true });

    CHECK(chdir(b.dir) == 0);
    return b;
}

const char *at(const box *b, const char *name)
{
    static char paths[8][8192];
    static unsigned next;
    char *path = paths[next++ % 8];

    (void) snprintf(path, sizeof(paths[0]), "%s/%s", b->dir, name);
    return path;
}

static void give(const char *name)
{
    CHECK(lchown(name, 1000, 1000) == 0);
}

void put(const char *name, const void *data, size_t len)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    CHECK(fd >= 0);
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        CHECK(n > 0);
        data = (const char *) data + n;
        len -= (size_t) n;
    }
    close(fd);
    give(name);
}

void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

const char *get_text(const char *name)
{
    static char text[65536];
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    CHECK(fd >= 0);
    n = read(fd, text, sizeof(text) - 1);
    CHECK(n >= 0);
    text[n] = '\0';
    close(fd);
    return text;
}

void put_dir(const char *name)
{
    CHECK(mkdir(name, 0755) == 0);
    give(name);
}

int mode_of(const char *name)
{
    struct stat st;

    CHECK(lstat(name, &st) == 0);
    return st.st_mode & 07777;
}

static void keep(results *r, csn_msg *msg)
{
    size_t fixed =
        msg->head.type == CSN_FRAME_FILE_ENTRY ? sizeof(csn_file_entry) : sizeof(csn_file_hit);
    csn_unpack u = csn_msg_rest(msg, fixed);
    int i = r->n++;

    if (i >= 64)
        return;
    (void) snprintf(r->path[i], sizeof(r->path[i]), "%s", csn_unpack_str(&u));
    if (msg->head.type == CSN_FRAME_FILE_ENTRY) {
        csn_msg_fixed(msg, &r->entry[i], sizeof(r->entry[i]));
        (void) snprintf(r->target[i], sizeof(r->target[i]), "%s", csn_unpack_str(&u));
        (void) snprintf(r->owner[i], sizeof(r->owner[i]), "%s", csn_unpack_str(&u));
        (void) snprintf(r->group[i], sizeof(r->group[i]), "%s", csn_unpack_str(&u));
    } else {
        csn_file_hit hit;
        const char *text = csn_unpack_bytes(&u, &r->text_len[i]);
        csn_msg_fixed(msg, &hit, sizeof(hit));
        r->line[i] = hit.line;
        CHECK(r->text_len[i] <= 4096);
        memcpy(r->text[i], text, r->text_len[i] + 1);
    }
    CHECK_INT(csn_unpack_end(&u), 0);
}

const results *collect(box *b, const csn_filereq *req)
{
    static results r;
    static char buf[CSN_FRAME_MAX];
    int sock = box_ask(b, req, 1000);

    memset(&r, 0, sizeof(r));
    for (;;) {
        csn_msg msg = hear_on(sock, CSN_SAID_BY_WORKER, buf);
        csn_file_done done;
        if (msg.head.type != CSN_FRAME_FILE_DONE) {
            keep(&r, &msg);
            continue;
        }
        csn_msg_fixed(&msg, &done, sizeof(done));
        r.is_cut = (int) done.is_cut;
        r.error = done.sys_errno;
        r.value = done.value;
        break;
    }
    close(sock);
    return &r;
}

int index_of(const results *r, const char *path)
{
    for (int i = 0; i < r->n && i < 64; i++)
        if (strcmp(r->path[i], path) == 0)
            return i;
    FAIL("'%s' is not among %d results", path, r->n);
}
