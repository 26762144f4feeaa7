/* Errors: one flat struct on the caller's stack and a short list of codes. */
#ifndef CAISSON_ERROR_H
#define CAISSON_ERROR_H

#include <caisson/api.h>

CSN_BEGIN_DECLS

/* The numbers are part of the ABI: only appended, never reused. */
enum {
    CSN_OK = 0,
    CSN_E_INVALID = -1,     /* an argument makes no sense; nothing was done */
    CSN_E_NOT_FOUND = -2,   /* no such sandbox, image, volume, command or file */
    CSN_E_EXISTS = -3,      /* the name is taken */
    CSN_E_STATE = -4,       /* not possible in the object's present state */
    CSN_E_TIMEOUT = -5,     /* the deadline passed */
    CSN_E_LIMIT = -6,       /* a limit the caller (or the engine) set was reached */
    CSN_E_DENIED = -7,      /* refused by policy or by the kernel's permissions */
    CSN_E_UNSUPPORTED = -8, /* this host or this build can't do it */
    CSN_E_SYSTEM = -9,      /* a system call failed; see sys_errno */
    CSN_E_NO_MEMORY = -10,
    CSN_E_PROTOCOL = -11,   /* the other side sent what it must not */
    CSN_E_LOST = -12,       /* the sandbox or its keeper is gone */
    CSN_E_CANCELLED = -13,  /* the caller interrupted it */
    CSN_E_BUSY = -14,       /* in use; try again later */
    CSN_E_TOO_LARGE = -15,  /* larger than the stated bound */
    CSN_E_NOT_REGULAR = -16 /* the path names something other than a regular file */
};

/* Owns nothing: it can report out-of-memory and can't leak. */
typedef struct csn_error {
    int code;          /* CSN_E_…, the same number the function returned */
    int sys_errno;     /* the errno behind it, or 0 */
    char message[248]; /* one line: "start sandbox 'a1': mount image 'py': Permission denied" */
} csn_error;

/* A stable lower-case word for a code: "not_found", "timeout", … "ok" for 0, "unknown" for others.
 * The string is static. */
CSN_API const char *csn_error_name(int code);

CSN_END_DECLS

#endif
