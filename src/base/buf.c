#include "buf.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"

char csn_buf_nothing[1] = "";

int csn_buf_reserve(csn_buf *buf, size_t extra)
{
    if (buf->error < 0)
        return buf->error;
    if (extra > buf->max || buf->len > buf->max - extra)
        return buf->error = -E2BIG;
    size_t need = buf->len + extra + 1;
    if (need <= buf->cap)
        return 0;

    size_t cap = buf->cap ? buf->cap : 64;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    char *data = csn_realloc(buf->cap ? buf->data : NULL, cap);
    if (!data)
        return buf->error = -ENOMEM;
    buf->data = data;
    buf->cap = cap;
    buf->data[buf->len] = '\0';
    return 0;
}

void csn_buf_grew(csn_buf *buf, size_t by)
{
    if (buf->cap == 0)
        return;
    buf->len += by;
    buf->data[buf->len] = '\0';
}

int csn_buf_append(csn_buf *buf, const void *data, size_t len)
{
    if (len == 0 || csn_buf_reserve(buf, len) < 0)
        return buf->error;
    memcpy(buf->data + buf->len, data, len);
    csn_buf_grew(buf, len);
    return 0;
}

int csn_buf_putc(csn_buf *buf, char c)
{
    return csn_buf_append(buf, &c, 1);
}

int csn_buf_puts(csn_buf *buf, const char *text)
{
    return csn_buf_append(buf, text, strlen(text));
}

int csn_buf_vprintf(csn_buf *buf, const char *fmt, va_list args)
{
    va_list again;

    if (csn_buf_reserve(buf, 0) < 0)
        return buf->error;
    size_t room = buf->cap - buf->len;
    va_copy(again, args);
    int n = vsnprintf(buf->data + buf->len, room, fmt, args);
    if (n >= 0 && (size_t) n >= room) {
        buf->data[buf->len] = '\0';
        if (csn_buf_reserve(buf, (size_t) n) == 0)
            n = vsnprintf(buf->data + buf->len, (size_t) n + 1, fmt, again);
    } else if (n >= 0 && buf->len + (size_t) n > buf->max) {
        buf->data[buf->len] = '\0';
        buf->error = -E2BIG;
    }
    va_end(again);
    if (n < 0 && buf->error == 0)
        buf->error = -EINVAL;
    if (buf->error < 0)
        return buf->error;
    csn_buf_grew(buf, (size_t) n);
    return 0;
}

int csn_buf_printf(csn_buf *buf, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    int r = csn_buf_vprintf(buf, fmt, args);
    va_end(args);
    return r;
}

void csn_buf_consume(csn_buf *buf, size_t n)
{
    if (n == 0 || buf->cap == 0)
        return;
    if (n > buf->len)
        n = buf->len;
    memmove(buf->data, buf->data + n, buf->len - n + 1);
    buf->len -= n;
}

void csn_buf_truncate(csn_buf *buf, size_t len)
{
    if (len >= buf->len)
        return;
    buf->len = len;
    buf->data[len] = '\0';
}

void csn_buf_clear(csn_buf *buf)
{
    buf->error = 0;
    csn_buf_truncate(buf, 0);
}

char *csn_buf_take(csn_buf *buf, size_t *ret_len)
{
    if (csn_buf_reserve(buf, 0) < 0) /* an empty buffer too is given as memory that can be freed */
        return NULL;
    char *data = buf->data;
    if (ret_len)
        *ret_len = buf->len;
    buf->data = csn_buf_nothing;
    buf->len = buf->cap = 0;
    return data;
}

void csn_buf_free(csn_buf *buf)
{
    if (buf->cap > 0)
        free(buf->data);
    buf->data = csn_buf_nothing;
    buf->len = buf->cap = 0;
    buf->error = 0;
}

void csn_buf_auto(csn_buf *buf)
{
    int saved = errno;

    csn_buf_free(buf);
    errno = saved;
}
