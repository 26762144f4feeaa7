/* Whoever started us waits at the other end of the result pipe. When he is gone, so is the reason to go on. */
#ifndef CSN_UNPACK_LEASH_H
#define CSN_UNPACK_LEASH_H

#include <stdbool.h>

/* The pipe to look at; -1: none, which always holds. */
void csn_leash_set(int fd);

/* Cheap: looks every 64th time. */
bool csn_leash_holds(void);

#endif
