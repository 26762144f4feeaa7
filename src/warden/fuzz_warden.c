/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a message of the front: refused, or every text in it ends and its length is its own. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int is_true)
{
    if (!is_true)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static csn_ask ask;
    static csn_answer answer;

    if (size <= sizeof(ask)) {
        memset(&ask, 0x41, sizeof(ask)); /* what a message before it may have left */
        memcpy(&ask, data, size);
        if (csn_ask_check(&ask, size) == 0) {
            must(size == csn_ask_size(&ask));
            must(strlen(ask.id) < sizeof(ask.id) && strlen(ask.other) < sizeof(ask.other));
            must(strlen(ask.image) < sizeof(ask.image) && strlen(ask.user) < sizeof(ask.user));
        }
    }
    if (size == sizeof(answer)) {
        memcpy(&answer, data, size);
        if (csn_answer_check(&answer, size) == 0)
            must(strlen(answer.message) < sizeof(answer.message));
    }
    return 0;
}
