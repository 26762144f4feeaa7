#include "err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "auto.h"

static const char *const code_names[] = {
    [-CSN_OK] = "ok",
    [-CSN_E_INVALID] = "invalid",
    [-CSN_E_NOT_FOUND] = "not_found",
    [-CSN_E_EXISTS] = "exists",
    [-CSN_E_STATE] = "state",
    [-CSN_E_TIMEOUT] = "timeout",
    [-CSN_E_LIMIT] = "limit",
    [-CSN_E_DENIED] = "denied",
    [-CSN_E_UNSUPPORTED] = "unsupported",
    [-CSN_E_SYSTEM] = "system",
    [-CSN_E_NO_MEMORY] = "no_memory",
    [-CSN_E_PROTOCOL] = "protocol",
    [-CSN_E_LOST] = "lost",
    [-CSN_E_CANCELLED] = "cancelled",
    [-CSN_E_BUSY] = "busy",
    [-CSN_E_TOO_LARGE] = "too_large",
    [-CSN_E_NOT_REGULAR] = "not_regular",
};

const char *csn_error_name(int code)
{
    if (code > 0 || code <= -(int) CSN_COUNT(code_names))
        return "unknown";
    return code_names[-code];
}

const char *csn_strerror(int e)
{
    e = e < 0 ? -e : e;
    switch (e) {
    case EUSERS: /* as csn_clone() means it */
        return "a limit on namespaces is reached";
    case ETOOMANYREFS: /* which musl has no words for */
        return "too many descriptors are being passed at once (ulimit -n)";
    default:
        return strerror(e);
    }
}

int csn_code_of_errno(int e)
{
    switch (e < 0 ? -e : e) {
    case ENOMEM:
        return CSN_E_NO_MEMORY;
    case ENOENT:
        return CSN_E_NOT_FOUND;
    case EEXIST:
        return CSN_E_EXISTS;
    case ETIMEDOUT:
        return CSN_E_TIMEOUT;
    default:
        return CSN_E_SYSTEM;
    }
}

/* A message is one line that is safe to print, whatever name a caller put into it. A character that was cut in
 * two at the end goes away whole. */
static void tidy(char *message, size_t size)
{
    size_t len = strlen(message);

    for (size_t i = 0; i < len; i++)
        if ((unsigned char) message[i] < 0x20 || message[i] == 0x7f)
            message[i] = '?';
    if (len + 1 < size) /* not cut */
        return;
    size_t lead = len;
    while (lead > 0 && ((unsigned char) message[lead - 1] & 0xc0) == 0x80)
        lead--;
    if (lead == 0)
        return;
    unsigned char c = (unsigned char) message[lead - 1];
    size_t want = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
    if (len - (lead - 1) < want)
        message[lead - 1] = '\0';
}

enum { TEXT_MAX = 4096 + 512 }; /* a path and some words */

static bool is_middle(char c)
{
    return ((unsigned char) c & 0xc0) == 0x80; /* of a character */
}

/* What is too long loses its middle, which is some path's: the end says why. */
static void copy_ends(char *out, size_t size, const char *text)
{
    size_t len = strlen(text), head = size / 2, tail = size - 1 - strlen("…") - head;

    if (len < size) {
        memcpy(out, text, len + 1);
        return;
    }
    while (head > 0 && is_middle(text[head]))
        head--;
    while (tail > 0 && is_middle(text[len - tail]))
        tail--;
    (void) snprintf(out, size, "%.*s…%s", (int) head, text, text + len - tail); /* fits */
}

/* Built aside first: the arguments may point into err->message. */
static void set(csn_error *err, int code, int sys_errno, const char *head, const char *tail)
{
    char text[TEXT_MAX + sizeof(err->message)], whole[sizeof(err->message)];

    (void) snprintf(text, sizeof(text), "%s%s%s", head, *head && *tail ? ": " : "",
                    tail); /* fits */
    copy_ends(whole, sizeof(whole), text);
    tidy(whole, sizeof(whole));
    err->code = code;
    err->sys_errno = sys_errno;
    memcpy(err->message, whole, sizeof(whole));
}

int csn_failv(csn_error *err, int code, const char *fmt, va_list args)
{
    char text[TEXT_MAX];

    if (!err)
        return code;
    (void) vsnprintf(text, sizeof(text), fmt, args);
    set(err, code, 0, text, "");
    return code;
}

int csn_fail(csn_error *err, int code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void) csn_failv(err, code, fmt, args);
    va_end(args);
    return code;
}

int csn_fail_sys(csn_error *err, int neg_errno, const char *fmt, ...)
{
    char text[TEXT_MAX];
    int e = neg_errno < 0 ? -neg_errno : neg_errno;
    int code = csn_code_of_errno(e);
    va_list args;

    if (!err)
        return code;
    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    set(err, code, e, text, csn_strerror(e));
    return code;
}

int csn_fail_in(csn_error *err, int code, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;

    if (!err)
        return code;
    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    set(err, code, err->sys_errno, text, err->message[0] ? err->message : csn_error_name(code));
    return code;
}
