#include "out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/utf8.h"

static bool json_wanted;
static bool json_printed;

void cli_want_json(bool on)
{
    json_wanted = on;
}

/* The first error of standard output and standard error, by number. What follows would be a document with a hole. */
static int errors[3];

void cli_output_failed(int fd, int error)
{
    if (fd < STDOUT_FILENO || fd > STDERR_FILENO || errors[fd] < 0)
        return;
    errors[fd] = error;
    if (error != -EPIPE) /* a reader who went away had enough */
        cli_note("write to standard %s: %s", fd == STDOUT_FILENO ? "output" : "error",
                 csn_strerror(error));
}

int cli_fail_output(const csn_error *err)
{
    if (!err->sys_errno)
        return cli_fail(err, NULL);
    cli_output_failed(STDOUT_FILENO, -err->sys_errno);
    return CLI_ENGINE;
}

bool cli_output_is_lost(void)
{
    return errors[STDOUT_FILENO] < 0;
}

int cli_exit_status(int status)
{
    if (errors[STDOUT_FILENO] == 0 && close(STDOUT_FILENO) < 0 &&
        errno != EBADF) /* where a quota or a network disk tells */
        cli_output_failed(STDOUT_FILENO, -errno);
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (errors[fd] < 0 && errors[fd] != -EPIPE)
            return CLI_ENGINE;
    return errors[STDOUT_FILENO] < 0 && status == CLI_ENGINE ? 128 + SIGPIPE : status;
}

/* Somebody's descriptor must not get the number of a closed one, or he gets our output. Without permission to write, it is an
 * error as before. */
void cli_fill_stdio(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void) open("/dev/null", O_RDONLY); /* takes the lowest number, which is this one */
}

/* Like csn_write_all, but also content with a descriptor somebody else made non-blocking. */
int cli_write(int fd, const void *data, size_t len)
{
    const char *at = data;

    if (fd == STDOUT_FILENO && errors[fd] < 0)
        return errors[fd];
    while (len > 0) {
        ssize_t n = csn_write(fd, at, len);

        if (n == -EAGAIN) {
            struct pollfd p = { .fd = fd, .events = POLLOUT };

            (void) poll(&p, 1, -1); /* the next write tells what is wrong */
            continue;
        }
        if (n < 0) {
            if (fd == STDOUT_FILENO)
                cli_output_failed(fd, (int) n);
            return (int) n;
        }
        at += n;
        len -= (size_t) n;
    }
    return 0;
}

int cli_print(const csn_buf *text)
{
    if (text->error < 0)
        cli_out_of_memory();
    return cli_write(STDOUT_FILENO, text->data, text->len);
}

void cli_put_safe(csn_buf *out, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n\t");

        (void) csn_escape_terminal(text, n, out);
        text += n;
        if (*text)
            csn_buf_printf(out, "\\x%02x", (unsigned) (unsigned char) *text++);
    }
}

static void say(const csn_buf *line)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    csn_buf_puts(&out, "caisson: ");
    cli_put_safe(&out, line->data);
    csn_buf_putc(&out, '\n');
    (void) cli_write(STDERR_FILENO, out.data, out.len); /* nobody left to tell */
}

void cli_note(const char *fmt, ...)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;
    va_list args;

    va_start(args, fmt);
    csn_buf_vprintf(&line, fmt, args);
    va_end(args);
    say(&line);
}

void cli_out_of_memory(void)
{
    static const char text[] = "caisson: out of memory\n";

    (void) !write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(CLI_ENGINE);
}

static void complain_in_json(const char *code_name, const char *text, const char *cause,
                             const char *remedy)
{
    csn_auto(buf) csn_buf doc = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&doc, true);

    csn_jw_begin_object(&w);
    csn_jw_key(&w, "error");
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "code", code_name);
    csn_jw_kstr(&w, "message", text);
    if (cause)
        csn_jw_kstr(&w, "cause", cause);
    if (remedy)
        csn_jw_kstr(&w, "remedy", remedy);
    csn_jw_end_object(&w);
    csn_jw_end_object(&w);
    (void) cli_print_json(&doc);
}

static void put_line(const char *label, const char *text)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;

    csn_buf_puts(&line, label);
    cli_put_safe(&line, text);
    csn_buf_putc(&line, '\n');
    (void) cli_write(STDERR_FILENO, line.data, line.len); /* nobody left to tell */
}

void cli_try(const char *remedy)
{
    put_line("  try: ", remedy);
}

void cli_note_cause(const char *cause)
{
    put_line("  cause: ", cause);
}

/* `text` is for the JSON document, `shown` for people. */
static void complain(const char *code_name, const char *text, const char *shown, const char *cause,
                     const char *remedy)
{
    cli_note("%s", shown);
    if (cause)
        cli_note_cause(cause);
    if (remedy)
        cli_try(remedy);
    if (json_wanted && !json_printed)
        complain_in_json(code_name, text, cause, remedy);
}

void cli_complain(const char *code_name, const char *text, const char *remedy)
{
    complain(code_name, text, text, NULL, remedy);
}

static int (*explainer)(csn_check_fn fn, void *user);
static const char *(*remote_remedy)(const csn_error *err);

void cli_set_remedies(const char *(*remedy)(const csn_error *err))
{
    remote_remedy = remedy;
}

void cli_set_explainer(int (*explain)(csn_check_fn fn, void *user))
{
    explainer = explain;
}

static void keep_cause(const csn_check *check, void *user)
{
    csn_buf *out = user;

    csn_buf_printf(out, "%s: %s", check->name, check->detail);
    if (check->remedy && strstr(check->remedy, "--optional")) /* the way out of one missing wall */
        csn_buf_printf(out, "; %s", check->remedy);
}

/* 1 and the cause, 0: every wall stands, -1: nobody can say. */
static int find_cause(csn_buf *out)
{
    return explainer && !remote_remedy ? explainer(keep_cause, out) : -1;
}

bool cli_find_cause(csn_buf *out)
{
    return find_cause(out) > 0 && out->error == 0;
}

/* What the kernel refused, and not what the caller did wrong. */
static bool is_of_this_machine(const csn_error *err)
{
    return err->code == CSN_E_SYSTEM || err->code == CSN_E_UNSUPPORTED || err->code == CSN_E_LOST ||
           err->code == CSN_E_PROTOCOL;
}

/* One way on for each kind of refusal; the library's message says what, this says how. */
static const char *remedy_of(const csn_error *err)
{
    if (err->sys_errno == EFBIG)
        return "ulimit -f unlimited";
    if (remote_remedy)
        return remote_remedy(err);
    switch (err->code) {
    case CSN_E_UNSUPPORTED:
        return "caisson doctor";
    case CSN_E_NOT_FOUND:
        if (strstr(err->message, "image '"))
            return "caisson image ls";
        if (strstr(err->message, "volume '"))
            return "caisson volume ls";
        if (strstr(err->message, "there is no command "))
            return "caisson inspect BOX";
        return strstr(err->message, "sandbox '") ? "caisson ls" : NULL;
    case CSN_E_STATE:
        return strstr(err->message, "' is stopped") ? "caisson start BOX" : NULL;
    case CSN_E_LOST:
        if (strstr(err->message, "ended before it was ready"))
            return NULL; /* it says why */
        return "caisson gc, then caisson ls";
    default:
        return NULL;
    }
}

/* The library speaks in the words of the seed documents, which name a service; people are told of this machine. */
static const char *without_service(const char *message)
{
    static const char *const words[] = { "Failed to create Daytona sandbox: ",
                                         "Daytona sandbox creation timed out: ",
                                         "Daytona rate limit exceeded during sandbox creation: " };

    for (size_t i = 0; i < CSN_COUNT(words); i++)
        if (csn_starts_with(message, words[i]))
            return message + strlen(words[i]);
    return NULL;
}

static void put_shown(const csn_error *err, const char *text, csn_buf *out)
{
    const char *why = without_service(err->message);
    bool is_asked_wrong = err->code == CSN_E_NOT_FOUND || err->code == CSN_E_INVALID;

    if (!why)
        csn_buf_puts(out, text);
    else
        csn_buf_printf(out, "%s%s",
                       is_asked_wrong  ? ""
                       : remote_remedy ? "no sandbox could be made in Daytona: "
                                       : "no sandbox could be made here: ",
                       why);
}

int cli_fail(const csn_error *err, const char *fmt, ...)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT, shown = CSN_BUF_INIT, cause = CSN_BUF_INIT;
    va_list args;
    int found;

    if (fmt) {
        va_start(args, fmt);
        csn_buf_vprintf(&text, fmt, args);
        va_end(args);
        csn_buf_puts(&text, ": ");
    }
    csn_buf_puts(&text, err->message[0] ? err->message : csn_error_name(err->code));
    put_shown(err, text.data, &shown);
    found = is_of_this_machine(err) ? find_cause(&cause) : -1;
    const char *remedy = found > 0 ? "caisson doctor" : remedy_of(err);
    if (found == 0 && err->code == CSN_E_SYSTEM && !remedy)
        remedy = "caisson doctor";
    complain(csn_error_name(err->code), text.data, shown.data, found > 0 ? cause.data : NULL, remedy);
    return CLI_ENGINE;
}

int cli_fail_with(int code, const char *remedy, const char *fmt, ...)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;
    va_list args;

    va_start(args, fmt);
    csn_buf_vprintf(&line, fmt, args);
    va_end(args);
    cli_complain(csn_error_name(code), line.data, remedy);
    return CLI_ENGINE;
}

bool cli_is_terminal(int fd)
{
    return isatty(fd) == 1;
}

bool cli_can_draw(int fd)
{
    const char *term = getenv("TERM");

    return cli_is_terminal(fd) && term && *term && !csn_streq(term, "dumb");
}

bool cli_has_color(int fd)
{
    const char *no_color = getenv("NO_COLOR");

    return cli_can_draw(fd) && !(no_color && *no_color);
}

/* The first that is set decides, as for setlocale(), which a static program has no data for. */
bool cli_has_utf8(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

    for (size_t i = 0; i < CSN_COUNT(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

static size_t terminal_size(bool rows)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0)
        return 0;
    return rows ? size.ws_row : size.ws_col;
}

size_t cli_columns(void)
{
    const char *text = getenv("COLUMNS");
    size_t columns = terminal_size(false);
    uint64_t asked;

    if (text && csn_parse_u64(csn_str_of(text), &asked) == 0 && asked >= 20 && asked <= 1000)
        return (size_t) asked;
    return columns >= 20 ? columns : 80;
}

size_t cli_rows(void)
{
    size_t rows = terminal_size(true);

    return rows >= 4 ? rows : 24;
}

size_t cli_width(const char *text, size_t len)
{
    size_t width = 0;

    while (len > 0) {
        unsigned c;
        int n = csn_utf8_next(text, len, &c);
        size_t step = n > 0 ? (size_t) n : 1;

        text += step;
        len -= step;
        width++;
    }
    return width;
}

static void put_base64(csn_buf *out, const char *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *at = (const unsigned char *) data;

    for (; len > 0; at += 3) {
        size_t n = len < 3 ? len : 3;
        unsigned v = (unsigned) at[0] << 16 | (n > 1 ? (unsigned) at[1] << 8 : 0) |
                     (n > 2 ? (unsigned) at[2] : 0);
        char four[4] = { digits[v >> 18], digits[v >> 12 & 63], n > 1 ? digits[v >> 6 & 63] : '=',
                         n > 2 ? digits[v & 63] : '=' };

        csn_buf_append(out, four, sizeof(four));
        len -= n;
    }
}

void cli_jw_bytes(csn_jw *w, const char *key, const char *data, size_t len)
{
    csn_auto(buf) csn_buf coded = CSN_BUF_INIT_MAX((size_t) 1 << 30);
    char second[64];

    csn_jw_key(w, key);
    csn_jw_string(w, data, len);
    if (csn_utf8_valid(data, len))
        return;
    put_base64(&coded, data, len);
    if (coded.error < 0)
        cli_out_of_memory();
    (void) snprintf(second, sizeof(second), "%s_base64", key);
    csn_jw_key(w, second);
    csn_jw_string(w, coded.data, coded.len);
}

int cli_print_json(csn_buf *doc)
{
    json_printed = true;
    csn_buf_putc(doc, '\n');
    return cli_print(doc) < 0 ? CLI_ENGINE : 0;
}
