#include "log.h"

#include <stdarg.h>
#include <string.h>

#include "buf.h"
#include "fd.h"
#include "time.h"
#include "utf8.h"

#define LINE_MAX_BYTES 4096

static csn_log_level lowest = CSN_LOG_INFO;
static int log_fd = 2;

void csn_log_set_level(csn_log_level level)
{
    lowest = level;
}

void csn_log_set_fd(int fd)
{
    log_fd = fd;
}

static bool needs_quotes(const char *text)
{
    return text[0] == '\0' || strpbrk(text, " \t\n\"=\\") != NULL;
}

/* Quoted where a reader of key=value lines would stumble; then made harmless for terminals. */
static void put_value(csn_buf *line, const char *text)
{
    if (!needs_quotes(text)) {
        csn_escape_terminal(text, strlen(text), line);
        return;
    }
    csn_buf_putc(line, '"');
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, "\n\t\"\\");
        csn_escape_terminal(at, n, line);
        at += n;
        if (!*at)
            break;
        csn_buf_putc(line, '\\');
        csn_buf_putc(line, *at == '\n' ? 'n' : *at == '\t' ? 't' : *at);
        at++;
    }
    csn_buf_putc(line, '"');
}

void csn_log(csn_log_level level, const char *msg, ...)
{
    static const char *const names[] = { "debug", "info", "warn", "error" };
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;
    char when[CSN_ISO8601_SIZE];
    const char *key;
    va_list args;

    if (level < lowest)
        return;
    csn_buf_printf(&line, "time=%s level=%s msg=", csn_iso8601(csn_wall_ms(), when), names[level]);
    put_value(&line, msg);
    va_start(args, msg);
    while ((key = va_arg(args, const char *))) {
        const char *value = va_arg(args, const char *);
        csn_buf_printf(&line, " %s=", key);
        put_value(&line, value ? value : "-");
    }
    va_end(args);
    csn_buf_truncate(&line, LINE_MAX_BYTES - 1);
    csn_buf_putc(&line, '\n');
    (void) csn_write(log_fd, line.data, line.len); /* there is no one left to tell */
}
