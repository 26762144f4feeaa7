/* The languages a block may be in, and how each is run. */
#ifndef CSN_BLOCKS_LANG_H
#define CSN_BLOCKS_LANG_H

#include <stdbool.h>

#include "base/buf.h"

enum { CSN_LANG_NAME_MAX = 64, CSN_RUNNER_ARGS = 8 };

/* One way to run a file. `argv` ends with NULL; the file's path comes behind. */
typedef struct csn_runner {
    const char *program; /* how it is called when it is missing */
    const char *argv[CSN_RUNNER_ARGS];
    const char *probe[CSN_RUNNER_ARGS]; /* NULL first: no need to ask; else must exit with 0 */
} csn_runner;

typedef struct csn_lang {
    const char *name;
    const char *suffix;        /* of the file; NULL: the code goes to stdin */
    const csn_runner *runners; /* tried in order; ends with a NULL program */
    bool wants_lf;             /* CRLF becomes LF before it is written */
    bool is_compiled;          /* into a file beside it */
} csn_lang;

extern const csn_lang csn_langs[]; /* ends with a NULL name */

/* By its normalized name; NULL: not supported. */
const csn_lang *csn_lang_find(const char *language);

/* Text as Python's repr() shows it. */
void csn_put_repr(csn_buf *out, const char *text);

#endif
