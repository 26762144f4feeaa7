/* Owned bytes that grow. Never NULL, always NUL-terminated, with a hard ceiling, since the writer may be
 * hostile. Errors stick: append many times, check `error` once. */
#ifndef CSN_BASE_BUF_H
#define CSN_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

#include <caisson/api.h>

#include "auto.h"

#define CSN_BUF_MAX_DEFAULT ((size_t) 64 << 20)

typedef struct csn_buf {
    char *data; /* points at a static empty string while cap == 0; never write through it then */
    size_t len; /* bytes before the terminating NUL */
    size_t cap; /* allocated bytes, NUL included; 0: nothing allocated */
    size_t max; /* len never exceeds it */
    int error;  /* 0, -ENOMEM or -E2BIG (the ceiling); once set, writers do nothing */
} csn_buf;

extern char csn_buf_nothing[1];

#define CSN_BUF_INIT \
    { \
        csn_buf_nothing, 0, 0, CSN_BUF_MAX_DEFAULT, 0 \
    }
#define CSN_BUF_INIT_MAX(max_len) \
    { \
        csn_buf_nothing, 0, 0, (max_len), 0 \
    }

/* All writers return 0 or the sticky error. */
int csn_buf_append(csn_buf *buf, const void *data, size_t len);
int csn_buf_putc(csn_buf *buf, char c);
int csn_buf_puts(csn_buf *buf, const char *text);
int csn_buf_printf(csn_buf *buf, const char *fmt, ...) CSN_PRINTF(2, 3);
int csn_buf_vprintf(csn_buf *buf, const char *fmt, va_list args) CSN_PRINTF(2, 0);

/* Makes room for `extra` more bytes after len; then data[len … len+extra-1] may be written and made part of the
 * buffer by csn_buf_grew(). */
int csn_buf_reserve(csn_buf *buf, size_t extra);
void csn_buf_grew(csn_buf *buf, size_t by);

/* Drops the first n bytes (all, if fewer). */
void csn_buf_consume(csn_buf *buf, size_t n);

/* Shortens to len bytes; a larger len is ignored. */
void csn_buf_truncate(csn_buf *buf, size_t len);

/* Empty again, memory and ceiling kept, error forgotten. */
void csn_buf_clear(csn_buf *buf);

/* Gives the bytes away (free() them); the buffer is empty after. NULL if an error stuck or memory is out.
 * ret_len may be NULL. */
char *csn_buf_take(csn_buf *buf, size_t *ret_len);

/* Frees; usable again after. */
void csn_buf_free(csn_buf *buf);
void csn_buf_auto(csn_buf *buf);

#endif
