/* The inside of a cancel handle. */
#ifndef CSN_ARENA_CANCEL_H
#define CSN_ARENA_CANCEL_H

#include <caisson/arena.h>

int csn_cancel_fd(const csn_cancel *cancel); /* readable once fired */

#endif
