/* Filling a csn_error: used from keeper/ and core/ upward. Everything below returns 0 or -errno. */
#ifndef CSN_BASE_ERR_H
#define CSN_BASE_ERR_H

#include <stdarg.h>

#include <caisson/error.h>

/* Says what went wrong. `code` is a CSN_E_…; it is returned. `err` may be NULL in all of these. */
int csn_fail(csn_error *err, int code, const char *fmt, ...) CSN_PRINTF(3, 4);
int csn_failv(csn_error *err, int code, const char *fmt, va_list args) CSN_PRINTF(3, 0);

/* For a failed call: `neg_errno` is -errno. Appends ": <strerror>", sets sys_errno and picks the code with
 * csn_code_of_errno(). Returns that code. */
int csn_fail_sys(csn_error *err, int neg_errno, const char *fmt, ...) CSN_PRINTF(3, 4);

/* Prepends where the caller stood: "ctx: old message". `code` (what the callee returned) is returned. When the
 * callee said nothing (err->message empty) the code's name stands in for it. */
int csn_fail_in(csn_error *err, int code, const char *fmt, ...) CSN_PRINTF(3, 4);

/* ENOMEM -> CSN_E_NO_MEMORY, ENOENT -> CSN_E_NOT_FOUND, EEXIST -> CSN_E_EXISTS, ETIMEDOUT -> CSN_E_TIMEOUT,
 * everything else CSN_E_SYSTEM. Takes errno with either sign. */
int csn_code_of_errno(int e);

/* The words for an errno (either sign), the same under every libc as far as the libc allows. Static. */
const char *csn_strerror(int e);

#endif
