/* What an execute came to. */
#ifndef CSN_INTERP_RESULT_H
#define CSN_INTERP_RESULT_H

#include <caisson/interp.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"

typedef struct csn_final_field {
    csn_buf name, text, plain; /* JSON text; plain: the characters when it is a string */
    bool is_string;
} csn_final_field;

struct csn_exec_result {
    csn_exec_kind kind;
    csn_buf raw[2];      /* stdout, stderr as they came */
    int64_t produced[2]; /* bytes */
    csn_buf text;
    csn_buf name, value, trace;
    const char *category, *phase; /* static */
    uint32_t flags;
    int64_t n_callbacks, duration_us;
    csn_final_field *fields;
    size_t n_fields;
    csn_buf final_json;
    int code; /* CSN_OK or the failure's */
};

csn_exec_result *csn_exec_result_new(size_t output_max);
/* The `fields` of a "final" frame, and what stands behind the frame: 0, -EBADMSG or -ENOMEM. */
int csn_result_take_final(csn_exec_result *r, const csn_json *fields, csn_str behind);
/* The `error` of a "done" frame, null or three texts. */
int csn_result_take_error(csn_exec_result *r, const csn_json *error);
/* kind and text from what is there; a FAILURE was said before and stays. */
void csn_exec_result_finish(csn_exec_result *r);
void csn_exec_result_fail(csn_exec_result *r, int code, const char *category, const char *phase,
                          const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif
