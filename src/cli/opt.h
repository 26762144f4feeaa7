/* Commands and their options as data. One table says what the parser takes, what --help shows and what the completion
 * scripts know, so the three can't disagree. */
#ifndef CSN_CLI_OPT_H
#define CSN_CLI_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

typedef enum cli_kind {
    CLI_FLAG,     /* int: 1 */
    CLI_TEXT,     /* const char * */
    CLI_CHOICE,   /* const char *, one of `words` */
    CLI_LIST,     /* cli_list: appended */
    CLI_SIZE,     /* int64_t, bytes; "unlimited" or 0: CSN_UNLIMITED */
    CLI_DURATION, /* int64_t, ms; likewise */
    CLI_COUNT,    /* int64_t; likewise */
    CLI_CPU       /* int64_t, 1/1000 of a core; likewise */
} cli_kind;

/* Strings given by a repeated option, in order. Zero is empty. */
typedef struct cli_list {
    const char **items; /* NULL at the end; NULL when empty */
    size_t n;
} cli_list;

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the order in which one reads a row */
typedef struct cli_opt {
    char letter;      /* 0: none */
    const char *name; /* without dashes */
    cli_kind kind;
    size_t at;        /* where in the group's struct the value goes */
    const char *arg;  /* how --help calls the value; NULL for flags */
    const char *help; /* NULL: another spelling of an option above, taken but not shown */
    /* the values, separated by spaces, or for completion @box @image @volume @file @dir */
    const char *words;
    const char *bare; /* value when "--" or nothing follows; NULL: the value is needed */
} cli_opt;

/* Options under one heading, and where their struct lies in the command's own. */
typedef struct cli_group {
    const char *title;
    const cli_opt *opts; /* ends with a NULL name */
    size_t base;
} cli_group;

/* Where a command's sandboxes may be. */
typedef enum cli_reach {
    CLI_HERE,    /* it has none, or is about this machine */
    CLI_ANYWHERE /* here or at a service: session.h opens either */
} cli_reach;

typedef struct cli_command cli_command;
struct cli_command {
    const char *name;
    const char *alias;              /* NULL or another name */
    const char *summary;            /* one line, no full stop */
    const char *usage;              /* one or more lines, without "caisson " */
    const char *text;               /* further lines of --help; NULL: none */
    const cli_group *groups;        /* ends with NULL opts; NULL: no options but --help */
    const char *operands;           /* for completion, like cli_opt.words */
    const cli_command *const *subs; /* NULL-terminated; then `run` is not called */
    cli_reach reach;                /* all but CLI_HERE also take the options of place.h */
    /* after so many operands all that follows is taken as it is; 0: never */
    unsigned verbatim_after;
    int usage_status;   /* exit status of a misuse; 0: 2 */
    int (*run)(const cli_command *cmd, int argc, char **argv);
};

/* What is left when the options are taken out. */
typedef struct cli_args {
    char **argv; /* NULL at the end */
    int argc;
    bool has_dashes; /* "--" was there and was not itself taken as it is */
} cli_args;

#define CLI_END \
    { \
        0, NULL, CLI_FLAG, 0, NULL, NULL, NULL, NULL \
    }

/* Parses argv[1…]; argv[0] is the command's name. `values` must be zeroed. Returns -1 to go on, else the exit status:
 * help was shown or the misuse was reported. */
int cli_parse(const cli_command *cmd, int argc, char **argv, void *values, cli_args *ret_args);

/* Every option a command takes, in order: its own, then those of place.h. What one before it has the name of is left out. */
typedef struct cli_walk {
    const cli_command *cmd;
    const cli_group *group;
    const cli_opt *opt;
    char letter; /* 0: none, or one before it has it */
} cli_walk;

/* Begins with { .cmd = … }; false: there are no more. */
bool cli_walk_next(cli_walk *w);

/* "caisson CMD: …" and where to read on. Returns the command's usage status. */
int cli_usage(const cli_command *cmd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Checks the number of operands: -1, or the exit status after reporting. max < 0: no upper end. */
int cli_want(const cli_command *cmd, const cli_args *args, int min, int max);

/* Looks a name (or alias) up among `cmds`; NULL: none. */
const cli_command *cli_find(const cli_command *const *cmds, const char *name);

/* The name among `cmds` that `name` may have meant, or NULL. */
const char *cli_guess(const cli_command *const *cmds, const char *name);

/* The whole --help text of a command. */
void cli_help(const cli_command *cmd, csn_buf *out);

void cli_list_add(cli_list *list, const char *item); /* borrowed */

/* Dispatches to a subcommand of `cmd` (image, volume …). */
int cli_run_sub(const cli_command *cmd, int argc, char **argv);

/* "image ls" for a subcommand, else the name: what the user types. Static buffer. */
const char *cli_full_name(const cli_command *cmd);

#endif
