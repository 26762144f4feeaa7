#include "lang.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <caisson/files.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/script.h"
#include "out.h"

static bool can_execute(int fd)
{
    char head[4];
    ssize_t n = pread(fd, head, sizeof(head), 0);

    return n > 0 && csn_is_executable_text(head, (size_t) n);
}

static char *text_of(csn_buf *buf)
{
    char *text = csn_buf_take(buf, NULL);

    if (!text)
        cli_out_of_memory();
    return text;
}

static void build_argv(const csn_language *lang, cli_script *s)
{
    csn_buf stem = CSN_BUF_INIT;

    if (!lang) {
        cli_list_add(&s->argv, s->path);
        return;
    }
    if (lang->program) {
        cli_list_add(&s->argv, lang->program);
        cli_list_add(&s->argv, s->path);
        return;
    }
    csn_buf_append(&stem, s->path, strlen(s->path) - strlen(lang->suffix));
    cli_list_add(&s->argv, "/bin/sh");
    cli_list_add(&s->argv, "-c");
    cli_list_add(&s->argv, lang->build);
    cli_list_add(&s->argv, "sh");
    cli_list_add(&s->argv, s->path);
    cli_list_add(&s->argv, text_of(&stem)); /* lives as long as the program */
}

static int open_file(const char *file, cli_script *ret)
{
    struct stat st;

    ret->fd =
        open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* a FIFO must not hang us */
    if (ret->fd < 0 && errno == ENOENT && !strchr(file, '/'))
        return cli_fail_with(CSN_E_NOT_FOUND, "caisson run -- COMMAND, for a program inside",
                             "run '%s': no such file", file);
    if (ret->fd < 0)
        return cli_fail_with(csn_code_of_errno(errno), NULL, "run '%s': %s", file,
                             csn_strerror(errno));
    if (fstat(ret->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return cli_fail_with(CSN_E_NOT_REGULAR, NULL, "run '%s': not a regular file", file);
    ret->mode = (st.st_mode & 0777) | 0400;
    return -1;
}

int cli_script_open(int argc, char **argv, cli_script *ret)
{
    const char *slash = strrchr(argv[0], '/');
    const char *name = slash ? slash + 1 : argv[0];
    const csn_language *lang = csn_language_of(name);
    csn_buf path = CSN_BUF_INIT;
    int status;

    *ret = (cli_script){ .fd = -1 };
    status = open_file(argv[0], ret);
    if (status >= 0)
        return status;
    if (!lang && !can_execute(ret->fd))
        return cli_fail_with(CSN_E_INVALID, "a suffix (.py .sh .js .ts .c) or a #! line",
                             "run '%s': can't tell what runs it", argv[0]);
    if (!lang)
        ret->mode |= 0500;
    csn_buf_printf(&path, "/home/daytona/%s", name);
    ret->path = text_of(&path);
    build_argv(lang, ret);
    for (int i = 1; i < argc; i++)
        cli_list_add(&ret->argv, argv[i]);
    return -1;
}

int cli_script_put(csn_sandbox *box, cli_script *script, csn_error *err)
{
    int64_t n;
    int r = csn_file_put_fd(box, script->path, script->fd, script->mode, &n, err);

    csn_close(&script->fd);
    return r;
}
