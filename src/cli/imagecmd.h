/* What an image says of running it, made into a command as `docker run` would: entrypoint, then the words given, else
 * the image's own. The user an image names is told, never followed: whose code runs decides its profile. */
#ifndef CSN_CLI_IMAGECMD_H
#define CSN_CLI_IMAGECMD_H

#include <caisson/engine.h>

#include "boxopt.h"

/* The whole command: `given` (NULL at the end) behind the entrypoint of the image, or behind `entrypoint` if that isn't
 * NULL ("" for none); without `given` the image's own command. Strings live as long as the program. -1, or the exit
 * status after reporting. */
int cli_image_command(csn_engine *engine, const cli_box *box, const char *entrypoint,
                      const char *const *given, cli_list *ret);

/* Says on stderr when the image asks for a user it doesn't get. */
void cli_image_note_user(csn_engine *engine, const cli_box *box);

#endif
