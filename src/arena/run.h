/* What one run and many have in common: options with their defaults, the backend, saved artifacts. */
#ifndef CSN_ARENA_RUN_H
#define CSN_ARENA_RUN_H

#include <stdbool.h>

#include <caisson/arena.h>

/* Fills every zero with its default; CSN_E_INVALID for what makes no sense. */
int csn_run_options_fill(csn_run_options *o, csn_error *err);

/* Why the wished backend can't be used: the documented text, or NULL. */
const char *csn_backend_refusal(const csn_run_options *o);

/* The engine of the call: the caller's where it is of the wished kind, or one opened for it, which *ret_own then holds. */
int csn_backend_open(csn_engine *engine, const csn_run_options *o, bool is_fallback,
                     csn_engine **ret_engine, csn_engine **ret_own, csn_error *err);

/* Writes the artifact of a result to dir/name, atomically; result->artifact_file says where. 0 or -errno. */
int csn_artifact_save(csn_candidate_result *result, const char *dir, const char *name);

/* Makes a directory and its parents: 0 or -errno. */
int csn_make_dirs(const char *path);

#endif
