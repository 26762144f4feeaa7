/* UTF-8: strict check, lossy conversion of a stream in pieces, and text that is safe to show on a terminal. */
#ifndef CSN_BASE_UTF8_H
#define CSN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

/* Decodes one character at data[0]: returns its length (1…4) and its code point; 0 if the bytes are not valid UTF-8
 * (overlong forms, surrogates and > U+10FFFF are not); -1 if they are a proper beginning cut short by `len`. */
int csn_utf8_next(const char *data, size_t len, unsigned *ret_code_point);

bool csn_utf8_valid(const char *data, size_t len);

/* Remembers the cut character between two pieces. Zero is the start. */
typedef struct csn_utf8_state {
    char held[4];
    unsigned n_held;
} csn_utf8_state;

/* Appends `data` as valid UTF-8, every maximal bad part as one U+FFFD. A character cut at the end of the piece waits
 * in `state` for the next; csn_utf8_finish() turns what is left into U+FFFD. `state` NULL: the piece is all. */
int csn_utf8_lossy(csn_utf8_state *state, const char *data, size_t len, csn_buf *out);
int csn_utf8_finish(csn_utf8_state *state, csn_buf *out);

/* Appends `data` so that it can't drive a terminal: C0 (but \n and \t), DEL and C1 controls become \xNN, bad UTF-8
 * \xNN, U+2028/2029 and the bidirectional overrides \u{NNNN}. Everything else is as it was. */
int csn_escape_terminal(const char *data, size_t len, csn_buf *out);

#endif
