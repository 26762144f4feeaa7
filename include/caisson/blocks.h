/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAISSON_BLOCKS_H
#define CAISSON_BLOCKS_H

#include <caisson/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Code blocks out of text, run one after another in one sandbox. Files and background processes live from block to
 * block and from call to call; each block is a process of its own, so its variables don't. */

typedef struct csn_code_block {
    const char *code; /* not necessarily NUL-terminated when you make one; csn_code_list's are */
    size_t code_len;
    const char *language; /* as written; "" when none was and none could be told */
} csn_code_block;

typedef struct csn_code_list {
    csn_code_block *blocks; /* the list's own, strings included; NULL when empty */
    size_t n;
} csn_code_list;
CSN_API void csn_code_list_done(csn_code_list *list);

enum {
    CSN_MD_COMPATIBLE =
        0, /* three backticks anywhere in a line open, the next line that begins with three closes */
    CSN_MD_COMMONMARK =
        1 /* fences of any length, tildes, info strings, lists and quotes, as CommonMark says */
};

/* Extracts the fenced blocks of a Markdown text, in order. No block: an empty list. Languages are as written; a block
 * without one gets "" here, see csn_blocks_infer(). Errors: CSN_E_INVALID, CSN_E_NO_MEMORY. */
CSN_API int csn_md_extract(const char *text, size_t len, int mode, csn_code_list *ret_list,
                           csn_error *err);

/* The text of a chat message given as JSON: null, a string, or a list of parts ({"type": "text", "text": …}, images and
 * calls become placeholders), joined by line feeds. *ret_text is malloc()ed. Errors: CSN_E_INVALID. */
CSN_API int csn_message_text(const char *json, size_t len, char **ret_text, size_t *ret_len,
                             csn_error *err);

/* The blocks an agent would run: `json` is a conversation, a list of {"role", "content"}. From the newest message backwards
 * the first that has blocks counts, among the last `last_n`; 0: "auto", the run of user messages at the end. None: an empty
 * list. Errors: CSN_E_INVALID. */
CSN_API int csn_messages_extract(const char *json, size_t len, int last_n, int mode,
                                 csn_code_list *ret_list, csn_error *err);

/* "python", "bash", "sh", "javascript", "typescript", NULL. */
CSN_API const char *const *csn_blocks_languages(void);
/* Lower case, trimmed, aliases resolved (py, js, ts, shell); what isn't known passes through. Cut to `size`. */
CSN_API void csn_blocks_normalize(const char *language, char *out, size_t size);

typedef struct csn_blocks csn_blocks;

typedef struct csn_blocks_options {
    size_t size;
    const double *timeout_s; /* of each block; NULL: 60. Less than 1 is refused */
    const char *snapshot;    /* name of an image; not together with `image` */
    const char *image;       /* name of an image, or path of a directory, tar or OCI layout */
    const char *name;        /* NULL: "ag2-" and 8 hex digits */
    const char *const *env;  /* "KEY=value", NULL at the end; in every block. Copied. */
    double cpu; /* cores; these three count with `image` only, 0: the engine's default */
    double memory_gb, disk_gb; /* GiB */
    int64_t output_bytes;      /* kept of each block; 0: 10 MiB */
    int is_kept;               /* the sandbox is detached and stays until somebody deletes it */
    int has_network;           /* outbound network, off by default */
} csn_blocks_options;

/* Checks the options, then creates the sandbox, at once. It ends with csn_blocks_delete(), with the engine, or when this
 * process dies, however. Errors: CSN_E_INVALID (options), else the engine's, the message in the words callers match:
 * "Failed to create Daytona sandbox: …", "Daytona sandbox creation timed out: …". */
CSN_API int csn_blocks_new(csn_engine *engine, const csn_blocks_options *opts,
                           csn_blocks **ret_blocks, csn_error *err);
/* The same by name, "daytona", and the constructor's arguments as a JSON object: timeout, snapshot, image, name, env_vars,
 * resources {cpu, memory, disk}. With api_key, api_url or target it has an engine of its own at that service, what is not given
 * of the three comes from the environment (see <caisson/config.h>), and `engine` may be NULL. NULL: none. */
CSN_API int csn_blocks_by_name(csn_engine *engine, const char *executor, const char *config_json,
                               csn_blocks **ret_blocks, csn_error *err);
CSN_API csn_blocks *
csn_blocks_free(csn_blocks *blocks); /* deletes, too (unless is_kept); NULL is fine */

CSN_API const char *csn_blocks_sandbox_id(const csn_blocks *blocks); /* NULL after delete */
CSN_API const char *csn_blocks_name(const csn_blocks *blocks);
CSN_API double csn_blocks_timeout_s(const csn_blocks *blocks);

typedef struct csn_block_run {
    int exit_code;
    char *output; /* stdout and stderr in the order they came; NUL-terminated */
    size_t output_len;
    int timed_out, is_cut;
    int64_t wall_us;
} csn_block_run;

typedef struct csn_blocks_result {
    int exit_code;
    /* all outputs joined by one line feed, or the failing block's alone, or an error text */
    char *output;
    size_t output_len;
    char sandbox_id[40];
    size_t n_run;         /* blocks that were started */
    int64_t failed_index; /* -1: none */
    int timed_out, is_cut;
    char *partial; /* what a block that timed out had printed; "" otherwise */
    size_t partial_len;
    csn_block_run *runs; /* one per block that ran */
} csn_blocks_result;

/* Runs the blocks in order and stops at the first that fails. Failures of code and of the engine are results (exit_code
 * not 0), not errors; CSN_E_STATE: "Executor has been deleted"; CSN_E_CANCELLED; CSN_E_NO_MEMORY. */
CSN_API int csn_blocks_execute(csn_blocks *blocks, const csn_code_block *list, size_t n,
                               csn_blocks_result *ret_result, csn_error *err);
CSN_API void csn_blocks_result_done(csn_blocks_result *result);

/* What the agent answers: "exitcode: 0 (execution succeeded)", a line feed, "Code output: " and the output. malloc()ed. */
CSN_API int csn_blocks_reply(const csn_blocks_result *result, char **ret_text, size_t *ret_len,
                             csn_error *err);

/* The language of code that names none: "sh" for what begins like a pip or python command, "python" if the sandbox's
 * Python compiles it, else "". Static string. */
CSN_API const char *csn_blocks_infer(csn_blocks *blocks, const char *code, size_t len);

/* A new sandbox with the same settings in place of the old one; also after delete. */
CSN_API int csn_blocks_restart(csn_blocks *blocks, csn_error *err);
/* Ends the sandbox; twice is fine, failures are swallowed. */
CSN_API void csn_blocks_delete(csn_blocks *blocks);

#ifdef __cplusplus
}
#endif
#endif
