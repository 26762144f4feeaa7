/* SPDX-License-Identifier: Apache-2.0 */
/* A session command's log: both streams in one, told apart by three bytes 01 (stdout) or 02 (stderr) before what follows.
 * They may be cut anywhere. Such bytes in a command's own output are taken for a mark: a service can't tell them apart. */
#ifndef CSN_DAYTONA_MARKS_H
#define CSN_DAYTONA_MARKS_H

#include <stddef.h>

#include <caisson/process.h>

typedef struct csn_marks { /* zero: nothing read yet */
    csn_stream stream;     /* of what comes next; 0: stdout */
    char held[2];          /* may begin a mark */
    size_t n_held;
} csn_marks;

/* Takes bytes off `data` and returns how many; *ret_text (in `data`, or in `marks`) may be empty. To be called again with the
 * rest until that is empty; it may take nothing and still give text. */
size_t csn_marks_next(csn_marks *marks, const char *data, size_t len, csn_stream *ret_stream,
                      const char **ret_text, size_t *ret_len);

#endif
