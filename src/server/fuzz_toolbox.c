/* Bytes from inside a sandbox: the first one says whose. 'f': an interpreter's frames; 'r': a session shell's report;
 * 'p': /proc/net/tcp; 'a': a program's output with charts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/artifacts.h"
#include "server/ctxframe.h"
#include "server/ports.h"
#include "server/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_frames(const char *data, size_t len)
{
    csn_auto(buf) csn_buf in = CSN_BUF_INIT_MAX(CSN_CTXFRAME_MAX + 8);
    csn_ctxframe frame;
    size_t step = len > 7 ? len / 3 : len;

    for (size_t at = 0; at < len;) { /* in pieces, as a socket gives them */
        size_t n = len - at < step ? len - at : step;
        if (csn_buf_append(&in, data + at, n) < 0)
            return;
        at += n;
        int r;
        while ((r = csn_ctxframe_take(&in, &frame)) == 1) {
            if (frame.is_done && frame.has_error &&
                (!frame.name || !frame.value || !frame.traceback))
                abort();
            csn_json_free(frame.doc);
        }
        if (r < 0)
            return;
    }
}

static void read_report(const char *data, size_t len)
{
    char nonce[33] = "";
    int code = -1;

    if (csn_session_parse_report(data, len, nonce, &code) == 0 &&
        (strlen(nonce) != 32 || code < 0 || code > 255))
        abort();
}

/* What is taken out is an array of objects, and nothing grows. */
static void split_artifacts(const char *data, size_t len)
{
    csn_auto(buf) csn_buf rest = CSN_BUF_INIT, charts = CSN_BUF_INIT, all = CSN_BUF_INIT;
    csn_auto(json) csn_json *doc = NULL;

    csn_artifacts_split(data, len, &rest, &charts);
    (void) csn_buf_printf(&all, "[%s]", charts.data);
    if (rest.len > len || csn_json_parse(all.data, all.len, &doc, NULL) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_ports ports;
    char *copy;

    if (size < 1)
        return 0;
    copy = malloc(size); /* exactly as large: an overrun is seen */
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (copy[0] == 'f')
        read_frames(copy + 1, size - 1);
    else if (copy[0] == 'r')
        read_report(copy + 1, size - 1);
    else if (copy[0] == 'p')
        csn_ports_read(copy + 1, size - 1, &ports);
    else if (copy[0] == 'a')
        split_artifacts(copy + 1, size - 1);
    free(copy);
    return 0;
}
