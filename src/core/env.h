/* The environment of a command: the base set, then the image's, the sandbox's and the command's own; the later wins. */
#ifndef CSN_CORE_ENV_H
#define CSN_CORE_ENV_H

#include <stdbool.h>

#include "core/wish.h"

/* Strings are borrowed from the arguments or static; free() the list alone. NULL: no memory. */
char **csn_env_compose(const csn_wish *wish, const char *const *own, bool as_root, bool is_pty);
const char *csn_home_of(bool as_root);

#endif
