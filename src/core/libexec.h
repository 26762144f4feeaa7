/* Where the library's own programs are. */
#ifndef CSN_CORE_LIBEXEC_H
#define CSN_CORE_LIBEXEC_H

#include <caisson/error.h>

/* The directory with `program`: `wished`, else $CAISSON_LIBEXEC, else beside the running program, else the installed one.
 * *ret_dir is malloc()ed. CSN_E_UNSUPPORTED: it is not there. */
int csn_libexec_find(const char *wished, const char *program, char **ret_dir, csn_error *err);

#endif
