/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "relay_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a relay may say: lines, then the frames they make. Every frame that was made can be taken again, whole. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_buf frames = CSN_BUF_INIT_MAX(1 << 20);
    csn_str rest = csn_str_n((const char *) data, size), line, one;
    size_t n_lines = 0, n_frames = 0, n;
    char kind;

    while (csn_str_split(&rest, '\n', &line))
        n_lines += csn_relay_line_read(line, &frames) == 0;
    while ((n = csn_relay_next(&frames, &kind, &one)) > 0) {
        if (one.len > CSN_RELAY_DATA_MAX)
            __builtin_trap();
        csn_buf_consume(&frames, n);
        n_frames++;
    }
    if (n_frames != n_lines || frames.len != 0)
        __builtin_trap();
    csn_buf_free(&frames);
    return 0;
}
