#include <stdint.h>

#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever comes in, in one piece or two, valid text goes out. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_utf8_state state = { .n_held = 0 };
    const char *text = (const char *) data;

    csn_utf8_lossy(&state, text, size / 2, &out);
    csn_utf8_lossy(&state, text + size / 2, size - size / 2, &out);
    csn_utf8_finish(&state, &out);
    if (!csn_utf8_valid(out.data, out.len))
        __builtin_trap();
    csn_buf_clear(&out);
    csn_escape_terminal(text, size, &out);
    for (size_t i = 0; i < out.len; i++)
        if ((unsigned char) out.data[i] < 0x20 && out.data[i] != '\n' && out.data[i] != '\t')
            __builtin_trap();
    return 0;
}
