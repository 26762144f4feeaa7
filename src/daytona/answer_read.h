/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of answers share. */
#ifndef CSN_DAYTONA_ANSWER_READ_H
#define CSN_DAYTONA_ANSWER_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <caisson/error.h>

#include "base/json.h"

/* "the service's answer is not as agreed: …" */
int csn_answer_wrong(csn_error *err, const char *what);
int csn_answer_parse(const char *data, size_t len, csn_json **ret_doc, csn_error *err);
/* An optional string of at most `max` bytes; "" for absent and null. NULL: of another type, or too long. */
const char *csn_answer_text(const csn_json *v, const char *key, size_t max);
/* [A-Za-z0-9_-]{1,64} */
bool csn_answer_is_id(const char *s);
/* An optional amount in the service's unit, in ours; -1 for absent and null. False: no number, or none that makes sense. */
bool csn_answer_amount(const csn_json *v, const char *key, int64_t unit, int64_t *ret);

#endif
