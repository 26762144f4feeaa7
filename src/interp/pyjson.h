/* JSON as Python writes it: NaN and infinities as bare words, integers of any length, lone surrogates. It comes from
 * inside, so it is checked before anybody sees it. */
#ifndef CSN_INTERP_PYJSON_H
#define CSN_INTERP_PYJSON_H

#include "base/buf.h"
#include "base/str.h"

/* Appends the value as valid JSON: NaN, Infinity and -Infinity become strings of these names. 0 or -EBADMSG. */
int csn_py_render(csn_str text, csn_buf *out);

/* Appends the characters of a JSON string, a lone surrogate as U+FFFD. 0 or -EBADMSG if it is no string. */
int csn_py_string(csn_str text, csn_buf *out);

/* Calls fn for each member of an object: its name as JSON text, its value as JSON text, both checked. Stops when fn
 * returns non-zero and returns that; 0; -EBADMSG. */
int csn_py_each(csn_str object, int (*fn)(csn_str name, csn_str value, void *user), void *user);

#endif
