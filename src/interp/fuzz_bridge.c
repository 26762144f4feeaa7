#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "frame.h"
#include "pyjson.h"
#include "result.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the driver may send: packets, each led by its length (one byte, times 16), then the frames they make, then the
 * values in them. Whatever the bytes: no crash, and what was taken renders as JSON. */
static void take_frame(const csn_buf *frame)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_exec_result *r = csn_exec_result_new(1 << 16);
    csn_str behind, object = csn_frame_object(frame, &behind);

    if (r && csn_json_parse(object.data, object.len, &doc, NULL) == 0) {
        int e = csn_result_take_final(r, csn_json_get(doc, "fields"), behind);

        (void) csn_result_take_error(r, csn_json_get(doc, "error"));
        csn_exec_result_finish(r);
        if (e == 0)
            for (size_t i = 0; i < csn_final_count(r); i++)
                if (!csn_final_name(r, i))
                    __builtin_trap();
    }
    csn_result_free(r);
}

static void take_value(const char *data, size_t len)
{
    csn_auto(buf) csn_buf once = CSN_BUF_INIT;
    csn_auto(buf) csn_buf twice = CSN_BUF_INIT;
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    (void) csn_py_string(csn_str_n(data, len), &text);
    if (csn_py_render(csn_str_n(data, len), &once) < 0)
        return;
    if (csn_py_render(csn_str_n(once.data, once.len), &twice) < 0 || once.len != twice.len ||
        memcmp(once.data, twice.data, once.len) != 0)
        __builtin_trap(); /* what is valid stays as it is */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_frame_in in = CSN_FRAME_IN_INIT(1 << 20);
    size_t at = 0;

    take_value((const char *) data, size);
    while (at < size) {
        size_t len = (size_t) data[at] * 16;

        at++;
        len = len < size - at ? len : size - at;
        if (csn_frame_take(&in, (const char *) data + at, len) == 1)
            take_frame(&in.data);
        at += len;
    }
    csn_buf_free(&in.data);
    return 0;
}
