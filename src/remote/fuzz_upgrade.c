/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a server's answer to a WebSocket's handshake: read alike however it is cut, and never beyond its end. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "upgrade.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char accept[] = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
    const char *text = (const char *) data;
    csn_upgrade_answer whole = { 0 }, part = { 0 };
    int r = csn_upgrade_parse(text, size, accept, &whole);

    if (r < 0 && r != -EBADMSG)
        abort();
    if (r != 1)
        return 0;
    if (whole.status < 100 || whole.status > 999 || whole.head_len > size)
        abort();
    if (csn_upgrade_parse(text, whole.head_len, accept, &part) != 1 ||
        part.head_len != whole.head_len || part.is_switched != whole.is_switched ||
        csn_upgrade_parse(text, whole.head_len - 1, accept, &part) != 0)
        abort();
    return 0;
}
