/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAISSON_INTERP_H
#define CAISSON_INTERP_H

#include <caisson/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A Python interpreter in a sandbox whose state lives from one execute to the next. Code returns results with
 * SUBMIT(field=value, …) over a private channel; it can call back into the host (llm_query, sub_rlm, registered tools).
 * One execution at a time; an interpreter belongs to one thread, like the engine it was made with. */

typedef struct csn_interp csn_interp;
typedef struct csn_exec_result csn_exec_result;

/* Asks a model. Write the answer with malloc() to *ret_text, or return a CSN_E_… with `err` filled (CSN_E_DENIED: the
 * credentials were refused; no more calls are made then). Called on a worker thread unless is_sync is set, several at
 * once; must not use the interpreter or its engine. */
typedef int (*csn_llm_fn)(const char *prompt, size_t len, int64_t timeout_ms, char **ret_text,
                          csn_error *err, void *user);
/* A host function that sandbox code can call. `args` and `kwargs` are JSON texts (a list, an object) written by untrusted
 * code. *ret_json: the value as JSON text, malloc()ed. Errors: CSN_E_INVALID is raised as ValueError, others as
 * RuntimeError. Same rules for threads as above. */
typedef int (*csn_tool_fn)(const char *args, const char *kwargs, char **ret_json, csn_error *err,
                           void *user);
/* One event as a JSON object: "start", "complete", "progress". On the interpreter's thread. */
typedef void (*csn_event_fn)(const char *json, void *user);
/* Output as it comes; stream is 1 (stdout) or 2 (stderr). On the interpreter's thread. */
typedef void (*csn_live_fn)(int stream, const char *data, size_t len, void *user);

/* Zero is the default everywhere; where 0 itself means something, -1 stands for it. */
typedef struct csn_interp_options {
    size_t size;
    /* Time. */
    int64_t timeout_s;         /* lifetime of the sandbox: 900; -1: none */
    int64_t execute_timeout_s; /* of one execute: timeout_s */
    int64_t health_timeout_s;  /* until the driver answers: 20 */
    int64_t tool_timeout_s;    /* of one host callback: 180 */
    int start_retries;         /* 1; -1: none */
    /* Sandbox. */
    const char *name; /* NULL: fleet-rlm-<UTC date and time> */
    /* NULL: snapshot, else "fleet-rlm-base" if there is one, else the engine's default */
    const char *image;
    const char *snapshot;
    const char *const *labels; /* "key=value"; added to managed-by=fleet-rlm */
    const char *const *env;
    int64_t memory_bytes, cpu_milli, disk_bytes;
    int has_network; /* outbound, and cloning from remote URLs */
    int is_kept;     /* shutdown leaves the sandbox and its interpreter running, to be resumed */
    int deletes_context; /* with is_kept: shutdown ends the interpreter process, not the sandbox */
    /* Sources. */
    const char *volume_name; /* mounted at /home/daytona/memory; made when absent */
    const char *volume_subpath;
    const char *repo_url; /* directory, file:// or (with has_network) a remote URL */
    const char *repo_ref;
    const char *const *context_paths;
    /* Models. */
    csn_llm_fn llm; /* or */
    /* an OpenAI-compatible endpoint; the key comes from the environment (see caisson-interp docs) */
    const char *llm_url;
    const char *llm_model;
    const char *llm_cmd;         /* or a shell command: prompt on stdin, answer on stdout */
    int64_t max_llm_calls;       /* 50; -1: none allowed */
    int64_t llm_call_timeout_s;  /* 60 */
    int max_recursion_depth;     /* 2; -1: 0 */
    int is_depth_strict;         /* sub_rlm at the limit raises instead of asking the model */
    int delegate_max_iterations; /* 8 */
    int rlm_max_iterations;      /* 30 */
    int64_t delegate_execution_timeout_s; /* 300, at most execute_timeout_s */
    int64_t delegate_result_chars;        /* 8000 */
    const char *child_isolation_mode;     /* "auto" or "context" */
    const char *child_fork_fallback;      /* "clean" or "fail" */
    /* Behaviour. */
    const char *profile;  /* RLM_DELEGATE; ROOT_INTERLOCUTOR, RLM_ROOT, MAINTENANCE */
    int is_sync;          /* callbacks on the caller's thread, one at a time */
    int has_final_global; /* a global named Final ends an execute, too */
    int64_t output_bytes; /* kept per stream and execute: 10 MiB */
    int64_t submit_bytes; /* of a final value: 64 MiB */
    csn_event_fn on_event;
    csn_live_fn on_output;
    void *user_data; /* of llm, on_event and on_output */
    /* with a volume: what is executed is kept in sessions/<id>/conversation.json on it */
    const char *session_id;
    int delegate_max_calls; /* csn_interp_delegate() between two executes: 8 */
} csn_interp_options;

/* Checks the options; makes nothing else yet. Errors: CSN_E_INVALID. */
CSN_API int csn_interp_new(csn_engine *engine, const csn_interp_options *opts,
                           csn_interp **ret_interp, csn_error *err);
/* Shuts down, too. NULL is fine. */
CSN_API csn_interp *csn_interp_free(csn_interp *interp);

/* Ensures sandbox, workspace and interpreter process. Idempotent; csn_interp_execute() does it by itself. */
CSN_API int csn_interp_start(csn_interp *interp, csn_error *err);
/* Deletes the sandbox, or what the options say. Idempotent; starting again is allowed. */
CSN_API int csn_interp_shutdown(csn_interp *interp, csn_error *err);

/* Fields that SUBMIT must give, "name" or "name:type", NULL at the end; NULL: any. */
CSN_API int csn_interp_set_output_fields(csn_interp *interp, const char *const *fields,
                                         csn_error *err);
/* `signature` (may be NULL) is Python's, "(query, limit=10)"; arguments are then bound inside. fn NULL: forget it. */
CSN_API int csn_interp_register_tool(csn_interp *interp, const char *name, const char *signature,
                                     csn_tool_fn fn, void *user, csn_error *err);
/* Other sources for the same session; see csn_interp_metadata() for what came of it. NULL: none. */
CSN_API int csn_interp_configure_workspace(csn_interp *interp, const char *repo_url,
                                           const char *repo_ref, const char *const *context_paths,
                                           const char *volume_name, int force_new_session,
                                           csn_error *err);

/* Writes a file inside, whole or not at all; a relative path starts at the workspace. Tells on_event before and after. */
CSN_API int csn_interp_write_file(csn_interp *interp, const char *path, const void *data,
                                  size_t len, csn_error *err);

/* A second session with a copy of this one's files, sources and settings, and an interpreter process of its own. */
CSN_API int csn_interp_fork(csn_interp *interp, csn_interp **ret_copy, csn_error *err);
/* The session's files as an image: {"name", "sandbox_id", "status": "created"}, malloc()ed. */
CSN_API int csn_interp_snapshot(csn_interp *interp, const char *name, char **ret_json,
                                csn_error *err);
/* Other limits, see csn_sandbox_resize(). */
CSN_API int csn_interp_resize(csn_interp *interp, int64_t memory_bytes, int64_t cpu_milli,
                              int64_t disk_bytes, csn_error *err);
/* A sign of life: the sandbox counts as used. Never fails. */
CSN_API void csn_interp_touch(csn_interp *interp);
/* The conversation of a session with a session_id as JSON, malloc()ed: {"session_id", "turns": [{"code", "kind", "output"}…]}. */
CSN_API int csn_interp_history(csn_interp *interp, char **ret_json, csn_error *err);

typedef struct csn_execute_options {
    size_t size;
    /* a JSON object: globals set before the code runs; NaN and long integers may be in it */
    const char *vars;
    const char *const *envs; /* "KEY=value" for this execute alone */
    const char *profile;     /* NULL: the interpreter's */
    int is_interactive;      /* shows the value of a last expression, as a prompt does */
} csn_execute_options;

/* Runs code. `code_opts` may be NULL. Errors of the code are results; a failure of the machinery (or a time-out) returns
 * a CSN_E_… and still gives a result of kind FAILURE, which says more. Free it in any case it was written. */
CSN_API int csn_interp_execute(csn_interp *interp, const char *code, size_t len,
                               const csn_execute_options *code_opts, csn_exec_result **ret_result,
                               csn_error *err);
/* The same without waiting: `done` runs inside csn_interp_dispatch() (or any blocking call) and gets the result. Calls
 * queue in order. The sandbox is started before this returns. */
typedef void (*csn_execute_done_fn)(csn_exec_result *result, int code, void *user);
CSN_API int csn_interp_execute_start(csn_interp *interp, const char *code, size_t len,
                                     const csn_execute_options *code_opts, csn_execute_done_fn done,
                                     void *user, csn_error *err);
CSN_API int csn_interp_fd(csn_interp *interp); /* readable: call dispatch */
CSN_API int csn_interp_dispatch(csn_interp *interp, int timeout_ms, csn_error *err);
/* Interrupts what runs; it ends as FAILURE, cancelled. */
CSN_API void csn_interp_cancel(csn_interp *interp);
/* For line editors: 1 a whole statement, 0 more is needed, -1 not Python; CSN_E_… below -1 is not told apart. */
CSN_API int csn_interp_probe(csn_interp *interp, const char *code, size_t len);

typedef enum csn_exec_kind {
    CSN_EXEC_TEXT = 0,
    CSN_EXEC_FINAL,
    CSN_EXEC_ERROR,
    CSN_EXEC_FAILURE
} csn_exec_kind;

/* Borrowed from the result. Texts are UTF-8 (bad bytes are U+FFFD); the raw streams are exact. */
CSN_API csn_exec_kind csn_result_kind(const csn_exec_result *result);
CSN_API const char *csn_result_text(const csn_exec_result *result,
                                    size_t *ret_len); /* what a caller would print */
CSN_API const char *csn_result_stream(const csn_exec_result *result, int stream, size_t *ret_len);
CSN_API const char *csn_result_error_name(const csn_exec_result *result); /* "" unless ERROR */
CSN_API const char *csn_result_error_value(const csn_exec_result *result);
CSN_API const char *csn_result_traceback(const csn_exec_result *result);
CSN_API const char *
csn_result_category(const csn_exec_result *result); /* of a FAILURE: "execution_timeout" … */
CSN_API const char *csn_result_phase(const csn_exec_result *result);

enum {
    CSN_RESULT_HAD_STDERR = 1,
    CSN_RESULT_STDOUT_CUT = 2,
    CSN_RESULT_STDERR_CUT = 4,
    CSN_RESULT_STATE_RESET = 8,      /* a new process: what was there before is gone */
    CSN_RESULT_STATE_PRESERVED = 16, /* after a time-out: the state survived */
    CSN_RESULT_HAS_FINAL = 32        /* fields are there, also beside an ERROR */
};
CSN_API uint32_t csn_result_flags(const csn_exec_result *result);
CSN_API int64_t csn_result_bytes(const csn_exec_result *result,
                                 int stream); /* produced, kept or not */
CSN_API int64_t csn_result_callbacks(const csn_exec_result *result);
CSN_API int64_t csn_result_duration_us(const csn_exec_result *result);

/* Fields of a final output, in order. csn_final_get: the value as JSON text as Python wrote it (NaN, Infinity and integers
 * of any length are possible), NULL: no such field. */
CSN_API size_t csn_final_count(const csn_exec_result *result);
CSN_API const char *csn_final_name(const csn_exec_result *result, size_t i);
CSN_API const char *csn_final_get(const csn_exec_result *result, const char *name);
CSN_API int csn_final_int(const csn_exec_result *result, const char *name,
                          int64_t *ret); /* CSN_E_LIMIT: too long */
CSN_API int csn_final_double(const csn_exec_result *result, const char *name, double *ret);
CSN_API int csn_final_bool(const csn_exec_result *result, const char *name, int *ret);
CSN_API const char *csn_final_str(const csn_exec_result *result, const char *name,
                                  size_t *ret_len); /* NULL: no string */
/* All fields as one valid JSON object: NaN and infinities are strings. */
CSN_API const char *csn_final_json(const csn_exec_result *result);
CSN_API csn_exec_result *csn_result_free(csn_exec_result *result);

/* Session state as JSON ({"daytona": {…}}), malloc()ed; import forgets the present session without deleting it and
 * never fails for what is missing or malformed in it. */
CSN_API int csn_interp_export_state(csn_interp *interp, char **ret_json, csn_error *err);
CSN_API int csn_interp_import_state(csn_interp *interp, const char *json, size_t len,
                                    csn_error *err);
/* sandbox_active, sandbox_transition, runtime_degraded … as a JSON object, malloc()ed. */
CSN_API int csn_interp_metadata(csn_interp *interp, char **ret_json, csn_error *err);
CSN_API const char *csn_interp_sandbox_id(const csn_interp *interp); /* NULL: none */
CSN_API const char *csn_interp_workspace(const csn_interp *interp);

/* Budget of semantic model calls. */
CSN_API void csn_interp_budget(const csn_interp *interp, int64_t *ret_used, int64_t *ret_max);

/* The recursive loop: asks the model for code, executes it, feeds the outcome back, until SUBMIT gave all of `fields`
 * ("name" or "name:type"; NULL: "answer"). */
typedef struct csn_rlm_options {
    size_t size;
    const char *context; /* given to the code as the variable `context_text`; NULL: none */
    const char *const *fields;
    int max_iterations; /* 0: rlm_max_iterations */
    void (*on_step)(int iteration, const char *code, const char *output, void *user);
    void *user_data;
} csn_rlm_options;
typedef struct csn_rlm_result {
    char *final_json; /* the fields; NULL on failure */
    int iterations, planner_calls;
    int is_extracted; /* taken from the history by a last call */
} csn_rlm_result;
CSN_API int csn_rlm_run(csn_interp *interp, const char *task, const csn_rlm_options *opts,
                        csn_rlm_result *ret_result, csn_error *err);
CSN_API void csn_rlm_result_done(csn_rlm_result *result);

/* {"status": "ok", "answer": …} or {"status": "error", "reason": …}: hands one query to a child. malloc()ed. */
CSN_API int csn_interp_delegate(csn_interp *interp, const char *query, const char *context,
                                char **ret_json, csn_error *err);

/* Several queries (NULL at the end), four at once: {"status", "results": [as above, in order], "errors": [{"index", "reason",
 * "error"}]}. `document_url` (may be NULL): its text, fetched inside the session, goes before the context. A blank query refuses
 * the whole call. */
CSN_API int csn_interp_delegate_batch(csn_interp *interp, const char *const *queries,
                                      const char *context, const char *document_url,
                                      char **ret_json, csn_error *err);

/* Volumes, looked at from outside: a tree as JSON (depth 0: 4, at most 10), a file's beginning as JSON (max 0: 200,000). A
 * path with ".." is refused. The volume's files are read by a sandbox, never walked by the host. */
CSN_API int csn_volume_tree(csn_engine *engine, const char *volume, const char *path, int depth,
                            char **ret_json, csn_error *err);
CSN_API int csn_volume_cat(csn_engine *engine, const char *volume, const char *path,
                           int64_t max_bytes, char **ret_json, csn_error *err);

/* The smoke test: two executes on a repository. *ret_json is the report (malloc()ed), also on failure. */
CSN_API int csn_interp_smoke(csn_engine *engine, const char *repo, const char *ref, int has_network,
                             char **ret_json, csn_error *err);

#ifdef __cplusplus
}
#endif
#endif
