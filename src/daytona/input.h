/* SPDX-License-Identifier: Apache-2.0 */
/* The stdin of a session's command. The service's route for input takes lines of text, and has no end of file: so the bytes go
 * as lines of base64 and the end as a line ".", which the command's starter turns back (script.h). One request at a time. */
#ifndef CSN_DAYTONA_INPUT_H
#define CSN_DAYTONA_INPUT_H

#include "daytona.h"

typedef struct csn_input csn_input;

/* From the loop, at most once: the command can't get the rest of its input. */
typedef void csn_input_failed(const csn_error *err, void *user);

/* The data is borrowed until the end; the descriptor is copied. NULL: *err says why. */
csn_input *csn_input_new(csn_daytona *d, const csn_exec_spec *spec, csn_input_failed *failed,
                         void *user, csn_error *err);
csn_input *csn_input_free(csn_input *input); /* NULL is fine; always NULL */
/* The command's URL is known: what there is can go. An error stays until then. */
int csn_input_begin(csn_input *input, const char *command_url, csn_error *err);
/* CSN_STDIN_PIPE: takes what fits. */
size_t csn_input_write(csn_input *input, const void *data, size_t len);
void csn_input_close(csn_input *input);

#endif
