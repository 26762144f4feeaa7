/* From a file on the host to a command inside: which interpreter, which path. */
#ifndef CSN_CLI_LANG_H
#define CSN_CLI_LANG_H

#include <caisson/sandbox.h>

#include "opt.h"

typedef struct cli_script {
    int fd; /* the file, open for reading */
    uint32_t mode;
    char *path;    /* where it goes inside */
    cli_list argv; /* the whole command */
} cli_script;

/* Opens FILE and decides how it is run: by suffix, else by its #! line or ELF head (base/script.h).
 * argv[0…argc-1] are FILE and its arguments. It is put into the ordinary user's home directory, also
 * for root: files are put in with that user's rights, who has no way into /root. -1, or the exit status
 * after reporting. */
int cli_script_open(int argc, char **argv, cli_script *ret);

/* Copies it in. */
int cli_script_put(csn_sandbox *box, cli_script *script, csn_error *err);

#endif
