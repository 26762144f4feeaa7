/* A sandbox's record: read by every engine, written by whoever could write to the state directory. */
#include <stddef.h>
#include <stdint.h>

#include "local/local.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_auto(wish) csn_wish wish = { .id_index = -1 };
    csn_sandbox_info info;

    if (csn_record_parse((const char *) data, size, &wish) == 0)
        csn_wish_info(&wish, CSN_STATE_STOPPED, &info);
    return 0;
}
