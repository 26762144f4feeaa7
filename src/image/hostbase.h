/* The synthetic root below the machine's own /usr: what image `host` has for everything but /usr. */
#ifndef CSN_IMAGE_HOSTBASE_H
#define CSN_IMAGE_HOSTBASE_H

#include <caisson/error.h>

/* The name the base layer has now, made or not. */
void csn_hostbase_name(char ret_layer[65]);

/* Makes layers/host-<stamp> if the machine's sources changed since the last time (or it was never made) and names it in
 * ret_layer. When it is there already this costs eight stat calls. May run on any thread. */
int csn_hostbase_prepare(int state_fd, char ret_layer[65], csn_error *err);

/* The same, but 1 instead of making it. */
int csn_hostbase_find(int state_fd, char ret_layer[65]);

#endif
