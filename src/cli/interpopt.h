/* The options that describe an interpreter: shared by interp and rlm. And sessions: interpreters that outlive us. */
#ifndef CSN_CLI_INTERPOPT_H
#define CSN_CLI_INTERPOPT_H

#include <caisson/interp.h>

#include "base/buf.h"
#include "opt.h"

typedef struct cli_interp_values {
    const char *session, *volume, *subpath, *repo, *ref, *image, *profile;
    cli_list context, env, env_files, fields, optional;
    const char *llm_url, *llm_model, *llm_cmd, *isolation, *fallback;
    int64_t timeout, execute_timeout, llm_timeout, memory, cpu, max_calls, depth;
    int net, sync;
} cli_interp_values;

extern const cli_opt cli_interp_options[]; /* place, sources, limits */
extern const cli_opt cli_model_options[];  /* same struct, second heading */

/* Fills `o` (and `env`, which it points to) from the values; -1, or the exit status of a misuse. */
int cli_interp_fill(const cli_command *cmd, const cli_interp_values *v, csn_interp_options *o,
                    cli_list *env);

/* Makes the interpreter and, with --session, finds the session again; starts it and writes down where it is. -1, or the
 * exit status after reporting. */
int cli_interp_open(csn_engine *engine, const cli_interp_values *v, const csn_interp_options *o,
                    csn_interp **ret_interp);

/* Writes the session's state; nothing without --session. */
void cli_session_save(csn_engine *engine, const char *session, csn_interp *interp);

/* Where those files are: beside the engine's state, or, of a service, in a place of ours. 0 or -errno. */
int cli_session_dir(csn_engine *engine, csn_buf *out);
/* The file of a session's state: malloc()ed; NULL after reporting a bad name. */
char *cli_session_path(csn_engine *engine, const char *session);

void csn_interp_auto(csn_interp **interp);

/* cmd_interp.c, with or without a line editor. */
typedef struct cli_line_reader {
    void *(*open)(void);
    /* Without its end, malloc()ed; NULL: the end, or with errno EINTR a signal came. */
    char *(*line)(void *reader, const char *prompt);
    void (*close)(void *reader);
} cli_line_reader;
extern const cli_line_reader *cli_reader; /* NULL: there is none in this program */

#endif
