/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of files, without a service: the answers read, and the look inside run by this machine's own shell. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "answer_files.h"
#include "base/buf.h"
#include "base/fd.h"
#include "csn_test.h"
#include "script.h"

static int read_file(const char *text, csn_file_info *ret)
{
    static csn_json *doc;

    doc = csn_json_free(doc);
    CHECK_INT(csn_json_parse(text, strlen(text), &doc, NULL), 0);
    return csn_file_answer_read(doc, ret, NULL);
}

TEST(a_file_of_the_service_is_read)
{
    csn_file_info info;

    CHECK_INT(read_file("{\"name\":\"a\",\"size\":7,\"mode\":\"-rw-r-----\",\"isDir\":false,"
                        "\"modifiedAt\":\"2024-01-02T03:04:05.006Z\",\"owner\":\"1000\","
                        "\"group\":\"staff\",\"permissions\":\"0640\"}",
                        &info),
              CSN_OK);
    CHECK_STR(info.path, "a");
    CHECK(info.kind == CSN_FILE_REGULAR && info.mode == 0640 && info.size_bytes == 7);
    CHECK(info.uid == 1000 && info.gid == UINT32_MAX);
    CHECK_STR(info.group, "staff");
    CHECK_INT(info.mtime_ns, INT64_C(1704164645006000000));
    CHECK(read_file("{\"name\":\"a\",\"mode\":\"dtrwxrwxrwx\"}", &info) == CSN_OK &&
          info.kind == CSN_FILE_DIRECTORY);
    CHECK(read_file("{\"name\":\"a\",\"mode\":\"Lrwxrwxrwx\"}", &info) == CSN_OK &&
          info.kind == CSN_FILE_SYMLINK);
    CHECK(read_file("{\"name\":\"a\",\"isDir\":true}", &info) == CSN_OK &&
          info.kind == CSN_FILE_DIRECTORY && info.size_bytes == -1);
    CHECK_INT(read_file("{\"size\":1}", &info), CSN_E_PROTOCOL);
    CHECK_INT(read_file("{\"name\":7}", &info), CSN_E_PROTOCOL);
    CHECK_INT(read_file("{\"name\":\"a\",\"size\":-1}", &info), CSN_E_PROTOCOL);
    CHECK_INT(read_file("{\"name\":\"a\",\"permissions\":\"rwx\"}", &info), CSN_E_PROTOCOL);
    CHECK_INT(read_file("{\"name\":\"a\",\"owner\":5}", &info), CSN_E_PROTOCOL);
    CHECK_INT(read_file("[]", &info), CSN_E_PROTOCOL);
}

static int next(const char *text, size_t len, csn_file_info *ret)
{
    static csn_file_records records;

    records = (csn_file_records){ .data = text, .len = len };
    return csn_file_records_next(&records, ret, NULL);
}
#define NEXT(literal, info) next("" literal, sizeof(literal) - 1, info)

TEST(a_record_is_read_or_refused)
{
    csn_file_info info;

    CHECK_INT(NEXT("f 4755 0 1000 5 1700000000.25 root staff\0a b\n\0\0", &info), 1);
    CHECK(info.kind == CSN_FILE_REGULAR && info.mode == 04755 && info.gid == 1000 && !info.target);
    CHECK_INT(info.mtime_ns, INT64_C(1700000000250000000));
    CHECK_STR(info.path, "a b\n");
    CHECK_STR(info.owner, "root");
    CHECK_INT(NEXT("a1ff 777 0 0 3 17 u g\0l\0to\0", &info), 1);
    CHECK(info.kind == CSN_FILE_SYMLINK);
    CHECK_STR(info.target, "to");
    CHECK_INT(NEXT("", &info), 0);
    CHECK_INT(NEXT("f 644 0 0 5 17 u g\0a\0", &info), CSN_E_PROTOCOL);
    CHECK_INT(NEXT("f 644 0 0 -5 17 u g\0a\0\0", &info), CSN_E_PROTOCOL);
    CHECK_INT(NEXT("? 644 0 0 5 17 u g\0a\0\0", &info), CSN_E_PROTOCOL);
    CHECK_INT(NEXT("f 9 0 0 5 17 u g\0a\0\0", &info), CSN_E_PROTOCOL);
    CHECK_INT(NEXT("f 644 0 0 5 17\0a\0\0", &info), CSN_E_PROTOCOL);
    CHECK_INT(NEXT("f 644 0 0 5 99999999999999999 u g\0a\0\0", &info), CSN_E_PROTOCOL);
    CHECK_INT(NEXT("hello\n", &info), CSN_E_PROTOCOL);
}

static int shell(const char *text)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        (void) execl("/bin/sh", "sh", "-c", text, NULL);
        _exit(127);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* What the shell of a service would do with it: the text on stdin, output to a file. */
static int run_look(const char *dir, const char *path, int levels, const char *pattern,
                    csn_buf *out)
{
    csn_auto(buf) csn_buf command = CSN_BUF_INIT;
    char line[2000];
    int status;

    CHECK_INT(csn_script_look(&command, path, levels, pattern), 0);
    CHECK_INT(setenv("CSN_TEST_LOOK", command.data, 1), 0);
    (void) snprintf(
        line, sizeof(line),
        "cd '%s' && printf '%%s\n' \"$CSN_TEST_LOOK\" | PATH='%s/bin':$PATH sh > look.out", dir,
        dir);
    status = shell(line);
    (void) snprintf(line, sizeof(line), "%s/look.out", dir);
    csn_buf_clear(out);
    CHECK_INT(csn_read_file(AT_FDCWD, line, out, 1 << 20), 0);
    return status;
}

/* Sums up what was found, whatever the order. */
static void sum_up(const csn_buf *out, csn_buf *text, int *ret_n)
{
    csn_file_records records = { .data = out->data, .len = out->len };
    csn_file_info info;
    int r;

    csn_buf_clear(text);
    for (*ret_n = 0; (r = csn_file_records_next(&records, &info, NULL)) == 1; ++*ret_n)
        if (strcmp(info.path, "look.out") != 0 && strncmp(info.path, "bin", 3) != 0)
            csn_buf_printf(text, "%s %d %o %s;", info.path, (int) info.kind, info.mode,
                           info.target ? info.target : "");
    CHECK_INT(r, 0);
}

static void look_around(const char *dir)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT, text = CSN_BUF_INIT;
    int n;

    CHECK_INT(run_look(dir, "d", 1, NULL, &out), 0);
    sum_up(&out, &text, &n);
    CHECK_INT(n, 3);
    CHECK(strstr(text.data, "-n 'x\" $y\n 1 640 ;") && strstr(text.data, "l 3 777 to  there;") &&
          strstr(text.data, "e 2 755 ;"));
    CHECK_INT(run_look(dir, "d/l", 0, NULL, &out), 0);
    sum_up(&out, &text, &n);
    CHECK_INT(n, 1);
    CHECK_INT(run_look(dir, ".", -1, "l*", &out), 0);
    sum_up(&out, &text, &n);
    CHECK_STR(text.data, "d/l 3 777 to  there;");
    CHECK_INT(run_look(dir, "none", 0, NULL, &out), CSN_LOOK_MISSING);
    CHECK_INT(run_look(dir, "look.out", 1, NULL, &out), CSN_LOOK_NO_DIRECTORY);
    CHECK_INT(out.len, 0);
}

static const char *a_tree(void)
{
    static char dir[256];
    char line[2000];

    (void) snprintf(dir, sizeof(dir), "%s/look", csn_test_dir());
    (void) snprintf(
        line, sizeof(line),
        "umask 022; mkdir -p '%s/d/e' '%s/bin' && cd '%s/d' && : > './-n '\\''x\" $y\n' && "
        "chmod 640 ./-n* && ln -s 'to  there' l",
        dir, dir, dir);
    CHECK_INT(shell(line), 0);
    return dir;
}

TEST(a_look_tells_names_as_they_are)
{
    look_around(a_tree());
}

TEST(a_look_without_gnu_find_tells_the_same)
{
    char line[2000];
    const char *dir = a_tree();

    (void) snprintf(
        line, sizeof(line),
        "cd '%s/bin' && b=$(command -v busybox) && for p in find stat readlink; do ln -s $b $p; "
        "done && ! ./find / -maxdepth 0 -printf x 2>/dev/null",
        dir);
    if (shell(line) != 0)
        SKIP("build: no busybox whose find can't print");
    look_around(dir);
}
