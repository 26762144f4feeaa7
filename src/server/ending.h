/* SPDX-License-Identifier: Apache-2.0 */
/* How a command ended, in a sentence for whoever waited for it. */
#ifndef CSN_SERVER_ENDING_H
#define CSN_SERVER_ENDING_H

#include <caisson/receipt.h>

/* "the command was killed: out of memory (limit 512 MiB)". */
void csn_ending_text(const csn_receipt *receipt, const char *what, char *out, size_t size);

/* Whether it is a limit's doing, and not the program's own. */
int csn_ending_is_limit(const csn_receipt *receipt);

#endif
