/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as git's output: no crash, and what is told is JSON. The first byte says whose output it is. */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "server/git_map.h"
#include "server/git_status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Any text as an address: what git gets begins with a protocol it may use, or is ssh's short form, and holds no user. */
static void try_address(csn_str text)
{
    csn_auto(buf) csn_buf copy = CSN_BUF_INIT;
    csn_auto(git_url) csn_git_url url = CSN_GIT_URL_INIT;

    csn_buf_append(&copy, text.data, text.len);
    if (csn_git_url_read(copy.data, &url) < 0)
        return;
    const char *sep = strstr(url.url.data, "://");
    if (url.url.data[0] == '-' || (!sep && !strchr(url.url.data, '@')))
        abort();
    if (csn_starts_with(url.url.data, "http") && sep && csn_git_url_has_password(url.url.data))
        abort();
    if (strpbrk(url.user.data, "\r\n") || strpbrk(url.password.data, "\r\n"))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int (*const readers[])(csn_str output, csn_buf * json) = {
        csn_git_status_json,
        csn_git_history_json,
        csn_git_branches_json,
        csn_git_remotes_json,
    };
    csn_auto(buf) csn_buf json = CSN_BUF_INIT;
    csn_auto(buf) csn_buf message = CSN_BUF_INIT;
    csn_auto(json) csn_json *doc = NULL;

    if (size == 0)
        return 0;
    csn_str output = csn_str_n((const char *) data + 1, size - 1);
    if (readers[data[0] % CSN_COUNT(readers)](output, &json) == 0 &&
        csn_json_parse(json.data, json.len, &doc, NULL) < 0 && json.len < 1 << 20)
        abort();
    try_address(output);
    if (csn_git_failure(output, CSN_STR(""), &message)->status < 400)
        abort();
    return 0;
}
