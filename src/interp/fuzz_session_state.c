#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <caisson/interp.h>

#include "base/json.h"
#include "interp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever is imported, it is no error, and what is exported again is JSON that imports to the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_interp i = {
        .lock_fd = -1, .channel_fd = -1, .out_fd = { -1, -1 }, .context_json = CSN_BUF_INIT
    };
    csn_auto(mem) char *once = NULL;
    csn_auto(mem) char *twice = NULL;

    csn_list_init(&i.calls);
    csn_list_init(&i.out);
    i.in = (csn_frame_in) CSN_FRAME_IN_INIT(16);
    if (csn_interp_import_state(&i, (const char *) data, size, NULL) < 0 ||
        csn_interp_export_state(&i, &once, NULL) < 0 ||
        csn_interp_import_state(&i, once, strlen(once), NULL) < 0 ||
        csn_interp_export_state(&i, &twice, NULL) < 0)
        __builtin_trap();
    if (strcmp(once, twice) != 0)
        __builtin_trap();
    csn_sources_done(&i.sources);
    csn_sources_done(&i.in_place);
    csn_buf_free(&i.context_json);
    free(i.remembered_box);
    free(i.remembered_workspace);
    free(i.remembered_volume);
    return 0;
}
