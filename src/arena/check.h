/* Questions to an artifact with a yes or no. The artifact is hostile: the work is linear in its size, line by line. */
#ifndef CSN_ARENA_CHECK_H
#define CSN_ARENA_CHECK_H

#include <stdbool.h>

#include <caisson/arena.h>

#include "base/buf.h"

/* Checks compiled once, asked many times. */
typedef struct csn_check_set csn_check_set;

/* Compiles all; a bad expression is CSN_E_INVALID and named. Copies what it needs. */
int csn_check_set_new(const csn_artifact_check *checks, size_t n, csn_check_set **ret_set,
                      csn_error *err);
csn_check_set *csn_check_set_free(csn_check_set *set); /* always NULL */

size_t csn_check_set_count(const csn_check_set *set);
const csn_artifact_check *csn_check_set_at(const csn_check_set *set, size_t i);

/* The i-th check asked of these bytes. `why` (may be NULL) gets half a sentence when the answer is no. */
bool csn_check_ask(const csn_check_set *set, size_t i, const char *data, size_t len, csn_buf *why);

/* "contains:TEXT" and so on: the form that csn_artifact_check_parse() reads. */
void csn_check_name(const csn_artifact_check *check, csn_buf *out);

#endif
