/* Everything the program says. stdout carries data, stderr carries talk; a document asked for with --json is the one
 * thing on stdout, also when the command failed. */
#ifndef CSN_CLI_OUT_H
#define CSN_CLI_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <caisson/engine.h>
#include <caisson/error.h>

#include "base/buf.h"
#include "base/json.h"

enum {
    CLI_TIMEOUT = 124,
    CLI_ENGINE = 125, /* the engine, not the command, failed */
    CLI_CANNOT = 126, /* the command can't be executed */
    CLI_MISSING = 127 /* there is no such command */
};

/* From here on a failure is also one JSON document on stdout. */
void cli_want_json(bool on);

/* Writes to stdout: 0, or -errno after saying so on stderr (a closed pipe is silent). */
int cli_print(const csn_buf *text);
int cli_write(int fd, const void *data, size_t len);

/* What can't be written is an error of every command. cli_write() and streams tell this one, which says it once; nothing
 * more is written there. cli_exit_status() makes 125 of the command's status then, and 141 of its 125 where the reader of a
 * pipe went away. */
void cli_output_failed(int fd, int error);
int cli_fail_output(
    const csn_error *err); /* of a function of the library that wrote to stdout: CLI_ENGINE */
bool cli_output_is_lost(void);
int cli_exit_status(int status);
void cli_fill_stdio(void); /* first of all */

/* Whom cli_fail() asks why the kernel refused something: csn_engine_explain() of an engine, set by what opens it. */
void cli_set_explainer(int (*explain)(csn_check_fn fn, void *user));

/* Sandboxes are elsewhere: cli_fail() asks this one what to do about an error, and nothing of this machine. */
void cli_set_remedies(const char *(*remedy)(const csn_error *err));

/* Why no sandbox starts on this machine, as the first failed wall of `caisson doctor` says it: "user namespace: …". False
 * when every wall stands, or the command makes no sandboxes. */
bool cli_find_cause(csn_buf *out);

/* "caisson: TEXT" and, when there is one, "  try: REMEDY"; `code_name` goes into the JSON document. */
void cli_complain(const char *code_name, const char *text, const char *remedy);

void cli_note_cause(const char *cause); /* "  cause: CAUSE" alone */
void cli_try(const char *remedy);       /* "  try: REMEDY" alone */

/* Reports a library error, `fmt` (may be NULL) before it, with the remedy that fits. Returns CLI_ENGINE. */
int cli_fail(const csn_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Reports a mistake of our own finding. Returns CLI_ENGINE. */
int cli_fail_with(int code, const char *remedy, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* "caisson: …" on stderr: a remark, not an error. */
void cli_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

_Noreturn void cli_out_of_memory(void);

/* Text from a sandbox for a terminal or one line of a table: no control character survives, no line break either. */
void cli_put_safe(csn_buf *out, const char *text);

bool cli_is_terminal(int fd);
bool cli_has_color(int fd); /* a terminal, and neither NO_COLOR nor TERM=dumb */
bool cli_can_draw(int fd);  /* a terminal that knows how to move its cursor */
bool cli_has_utf8(void);    /* by LC_ALL, LC_CTYPE or LANG */
size_t cli_columns(void);   /* $COLUMNS, the terminal's width, or 80 */
size_t cli_rows(void);

/* Columns a UTF-8 text takes, one per character. */
size_t cli_width(const char *text, size_t len);

/* "key": text; where the bytes are not UTF-8 also "key_base64". */
void cli_jw_bytes(csn_jw *w, const char *key, const char *data, size_t len);

/* Prints the one document with a line feed: exit status 0 or CLI_ENGINE. */
int cli_print_json(csn_buf *doc);

/* "3.1 MiB", "12 ms", "5m" (an age); into a ring of static buffers, good for a few calls. */
const char *cli_size(int64_t bytes);
const char *cli_limit_size(int64_t bytes); /* "none" for CSN_UNLIMITED */
const char *cli_duration_ms(int64_t ms);
const char *cli_age(int64_t since_wall_ms);

#endif
