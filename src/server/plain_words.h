/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that need no shell: a program and plain words, which a shell would start the same way, only a millisecond later. */
#ifndef CSN_SERVER_PLAIN_WORDS_H
#define CSN_SERVER_PLAIN_WORDS_H

#include <stdbool.h>
#include <stddef.h>

enum { CSN_PLAIN_WORDS_MAX = 32 };

/* Cuts `text` (written to: spaces become NULs) into words. 0: it needs a shell, and text is as it was. */
size_t csn_plain_words(char *text, char *words[CSN_PLAIN_WORDS_MAX]);

#endif
