/* Any bytes as a .env file, and as text for the page: no crash, no markup. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dotenv.h"
#include "report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_auto(buf) csn_buf html = CSN_BUF_INIT;
    csn_dotenv env = { 0 };

    if (csn_dotenv_parse(&env, "fuzz", (const char *) data, size, NULL, NULL) < 0)
        abort();
    csn_dotenv_done(&env);
    csn_html_text(&html, (const char *) data, size);
    for (size_t i = 0; i + 1 < html.len; i++)
        if (html.data[i] == '<' && html.data[i + 1] != 'i' && html.data[i + 1] != '/')
            abort();
    return 0;
}
