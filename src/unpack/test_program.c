#include "unpack/test_program.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"

enum { PATH_SIZE = 512 };

void write_text(const char *path, const char *text)
{
    csn_auto(fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    CHECK(fd >= 0);
    CHECK_INT(csn_write_all(fd, text, strlen(text)), 0);
}

const char *text_of(const char *path)
{
    static char text[4096];
    csn_auto(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (n < 0)
        return "(missing)";
    text[n] = '\0';
    return text;
}

void make_dirs(void)
{
    (void) mkdir(csn_test_path("out"), 0755); /* there from an earlier run in this test */
    (void) mkdir(csn_test_path("layers"), 0755);
}

pid_t start(const char *source, const char *option, int *ret_fd)
{
    const char *build = getenv("CSN_BUILD");
    char program[PATH_SIZE];
    int ends[2];
    pid_t pid;

    (void) snprintf(program, sizeof(program), "%s/caisson-unpack", build ? build : ".");
    if (access(program, X_OK) < 0)
        SKIP("'%s' isn't built", program);
    make_dirs();
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int fds[5] = { open(source, O_RDONLY), ends[1], open("/dev/null", O_RDWR),
                       open(csn_test_path("out"), O_RDONLY),
                       open(csn_test_path("layers"), O_PATH) };

        for (int i = 0; i < 5; i++)
            fds[i] = fcntl(fds[i], F_DUPFD, 10);
        for (int i = 0; i < 5; i++)
            (void) dup2(fds[i], i); /* a bad one shows in the result */
        execl(program, "caisson-unpack", option, (char *) NULL);
        _exit(127);
    }
    close(ends[1]);
    *ret_fd = ends[0];
    return pid;
}

static void read_outcome(const csn_json *doc, outcome *o)
{
    const csn_json *layers = csn_json_get(doc, "layers");

    o->result = (int) csn_json_get_int(doc, "result", -99);
    o->n_layers = csn_json_count(layers);
    o->n_fresh = csn_json_count(csn_json_get(doc, "fresh"));
    for (size_t i = 0; i < o->n_layers && i < 8; i++)
        (void) snprintf(o->layers[i], 80, "%s", csn_json_str(csn_json_at(layers, i), ""));
    (void) snprintf(o->message, sizeof(o->message), "%s", csn_json_get_str(doc, "message", ""));
    (void) snprintf(o->source, sizeof(o->source), "%s", csn_json_get_str(doc, "source", ""));
    (void) snprintf(o->cwd, sizeof(o->cwd), "%s", csn_json_get_str(doc, "cwd", ""));
    (void) snprintf(o->env0, sizeof(o->env0), "%s",
                    csn_json_str(csn_json_at(csn_json_get(doc, "env"), 0), ""));
    o->bytes = csn_json_get_int(doc, "bytes", -1);
    o->n_files = csn_json_get_int(doc, "files", -1);
    o->n_skipped = csn_json_get_int(doc, "skipped", -1);
}

outcome unpack_with(const char *source, const char *option)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(fd) int fd = -1;
    outcome o = { .result = -99 };
    int status = 0;
    pid_t pid;

    pid = start(source, option, &fd);
    CHECK_INT(csn_read_to_buf(fd, &text, 1 << 20), 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status))
        FAIL("killed by signal %d", WTERMSIG(status));
    CHECK_INT(csn_json_parse(text.data, text.len, &doc, NULL), 0);
    read_outcome(doc, &o);
    CHECK_INT(WEXITSTATUS(status), o.result == 0 ? 0 : 1);
    return o;
}

outcome unpack(const char *source)
{
    return unpack_with(source, NULL);
}

char *in_layer(const outcome *o, size_t layer, const char *path)
{
    return csn_test_path("out/%s/root/%s", o->layers[layer], path);
}

mode_t mode_of(const char *path)
{
    struct stat st;

    return lstat(path, &st) < 0 ? 0 : st.st_mode;
}

const char *link_of(const char *path)
{
    static char target[PATH_SIZE];
    ssize_t n = readlink(path, target, sizeof(target) - 1);

    target[n < 0 ? 0 : n] = '\0';
    return target;
}

void make_tree_tar(const char *path)
{
    tar_maker tar;

    tar_begin(&tar, path);
    TAR_ADD(&tar, .name = "./", .type = '5', .mode = 0711);
    TAR_ADD(&tar, .name = "./usr/", .type = '5');
    TAR_ADD(&tar, .name = "./usr/bin/", .type = '5', .mode = 02775);
    TAR_ADD(&tar, .name = "./usr/bin/su", .mode = 06755, .data = "program");
    TAR_ADD(&tar, .name = "./usr/bin/also", .type = '1', .link = "./usr/bin/su");
    TAR_ADD(&tar, .name = "./bin", .type = '2', .link = "usr/bin");
    TAR_ADD(&tar, .name = "./etc/deep/file", .data = "text", .uid = 1000, .gid = 2000000);
    TAR_ADD(&tar, .name = "./out", .type = '2', .link = "/etc/passwd");
    tar_end(&tar);
}
