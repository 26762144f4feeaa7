/* What is known of a sandbox, as JSON and as the id alone. */
#ifndef CSN_CLI_BOXJSON_H
#define CSN_CLI_BOXJSON_H

#include <stdbool.h>

#include <caisson/sandbox.h>

#include "base/json.h"

/* Appends the members of one sandbox to an open object. */
void cli_jw_box(csn_jw *w, const csn_sandbox_info *info);

/* {"key": "value", …} from "key=value" strings. */
void cli_jw_pairs(csn_jw *w, const char *key, const char *const *pairs);

/* A limit: null when there is none. */
void cli_jw_limit(csn_jw *w, const char *key, int64_t value);

/* Prints the id, or the JSON document, of a sandbox just made: an exit status. */
int cli_print_new_box(csn_sandbox *box, bool json);

#endif
