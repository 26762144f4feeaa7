/* File trees between the host and a sandbox. Inside, every path is resolved by the sandbox itself; outside, everything
 * below the destination is made by descriptor and never through a link, because names and types come from the sandbox. */
#ifndef CSN_CLI_COPY_H
#define CSN_CLI_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include <caisson/files.h>

typedef struct cli_copy {
    csn_sandbox *box; /* borrowed */
    bool raw, quiet;
    uint64_t n_files;
    int64_t n_bytes;
    uint64_t n_skipped; /* neither file, directory nor link; each was named on stderr */
} cli_copy;

/* `outside` may be "-". Return CSN_OK or CSN_E_…. */
int cli_copy_in(cli_copy *c, const char *outside, const char *inside, csn_error *err);
int cli_copy_out(cli_copy *c, const char *inside, const char *outside, csn_error *err);

enum {
    CLI_COPY_DEPTH = 256 /* directories below each other; each takes a descriptor */
};

/* The kind of a path inside, links followed; 0: not there. */
int cli_kind_inside(cli_copy *c, const char *path, csn_file_kind *ret_kind, csn_error *err);

/* "a/b/" → "b"; "" for "/", "." and "..". Copied into room. */
void cli_base_name(const char *path, char *room, size_t size);

#endif
