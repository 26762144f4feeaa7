/* SPDX-License-Identifier: Apache-2.0 */
/* Targets, queries and Host headers. What was encoded decodes to the same; nothing decoded holds a NUL. */
#include <stdint.h>
#include <stdlib.h>

#include "server/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(csn_str text)
{
    csn_auto(buf) csn_buf coded = CSN_BUF_INIT;
    char *back = malloc(text.len * 3 + 1);

    csn_url_encode(&coded, text);
    ssize_t n = csn_url_decode(csn_str_n(coded.data, coded.len), false, back);
    if (memchr(text.data, '\0', text.len)
            ? n >= 0
            : n != (ssize_t) text.len || memcmp(back, text.data, text.len) != 0)
        abort();
    free(back);
}

static void check_pairs(csn_str query)
{
    static csn_url_pair pairs[CSN_URL_PAIRS_MAX];
    char *out = malloc(query.len * 2 + 2);
    ssize_t n = csn_url_pairs(query, pairs, CSN_URL_PAIRS_MAX, out);

    for (ssize_t i = 0; i < n; i++)
        if (strlen(pairs[i].key) + strlen(pairs[i].value) > query.len)
            abort();
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_str text = csn_str_n((const char *) data, size), name, port;
    csn_url url;

    if (csn_url_host(text, &name, &port) == 0 && name.len == 0)
        abort();
    if (csn_url_parse(text, &url) == 0) {
        for (size_t i = 0; i < url.n_segments; i++) {
            char *out = malloc(url.segments[i].len + 1);
            ssize_t n = csn_url_decode(url.segments[i], false, out);
            if (n >= 0 && strlen(out) != (size_t) n)
                abort();
            free(out);
        }
        check_pairs(url.query);
    }
    check_round_trip(text);
    return 0;
}
