#include <stdint.h>
#include <string.h>

#include <caisson/blocks.h>

#include "base/auto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever the text, both readers give blocks that lie in it; the first byte chooses nothing but spreads the corpus. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int mode = CSN_MD_COMPATIBLE; mode <= CSN_MD_COMMONMARK; mode++) {
        csn_code_list list = { 0 };
        size_t total = 0;

        if (csn_md_extract((const char *) data, size, mode, &list, NULL) < 0)
            __builtin_trap();
        for (size_t i = 0; i < list.n; i++) {
            total += list.blocks[i].code_len + strlen(list.blocks[i].language);
            if (list.blocks[i].code[list.blocks[i].code_len] != '\0')
                __builtin_trap();
        }
        if (total > size)
            __builtin_trap();
        csn_code_list_done(&list);
    }
    char *text = NULL;
    size_t len;

    if (csn_message_text((const char *) data, size, &text, &len, NULL) == CSN_OK)
        csn_mem_auto(&text);
    for (int last_n = 0; last_n < 3; last_n += 2) {
        csn_code_list list = { 0 };

        if (csn_messages_extract((const char *) data, size, last_n, CSN_MD_COMPATIBLE, &list,
                                 NULL) == CSN_OK)
            csn_code_list_done(&list);
    }
    return 0;
}
