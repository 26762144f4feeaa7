#include "lang.h"

#include <ctype.h>
#include <string.h>

#include <caisson/blocks.h>

#include "base/str.h"
#include "base/utf8.h"

static const csn_runner python[] = { { "python3", { "python3", "-u", "-", NULL }, { NULL } },
                                     { NULL, { NULL }, { NULL } } };
static const csn_runner bash[] = { { "bash", { "bash", NULL }, { NULL } },
                                   { NULL, { NULL }, { NULL } } };
static const csn_runner sh[] = { { "sh", { "sh", NULL }, { NULL } }, { NULL, { NULL }, { NULL } } };
static const csn_runner javascript[] = { { "node", { "node", NULL }, { NULL } },
                                         { NULL, { NULL }, { NULL } } };

/* esbuild takes types away and leaves a file that node runs. */
static const char esbuild_script[] =
    "esbuild \"$0\" --format=cjs --platform=node --log-level=error --outfile=\"$0.cjs\" && exec node \"$0.cjs\"";

static const csn_runner typescript[] = {
    { "ts-node",
      { "ts-node", "--transpile-only", "--skip-project", "-O",
        "{\"module\":\"commonjs\",\"moduleResolution\":\"node\"}", NULL },
      { NULL } },
    { "tsx", { "tsx", NULL }, { NULL } },
    { "node",
      { "node", "--no-warnings", "--experimental-strip-types", NULL },
      { "node", "--experimental-strip-types", "-e", "0", NULL } },
    { "deno", { "deno", "run", "--allow-all", NULL }, { NULL } },
    { "bun", { "bun", "run", NULL }, { NULL } },
    { "esbuild", { "sh", "-c", esbuild_script, NULL }, { "esbuild", "--version", NULL } },
    { NULL, { NULL }, { NULL } },
};

const csn_lang csn_langs[] = {
    { .name = "python", .runners = python },
    { .name = "bash", .suffix = ".sh", .runners = bash, .wants_lf = true },
    { .name = "sh", .suffix = ".sh", .runners = sh, .wants_lf = true },
    { .name = "javascript", .suffix = ".js", .runners = javascript },
    { .name = "typescript", .suffix = ".ts", .runners = typescript, .is_compiled = true },
    { .name = NULL },
};

const char *const *csn_blocks_languages(void)
{
    static const char *const names[] = { "python", "bash", "sh", "javascript", "typescript", NULL };

    return names;
}

void csn_blocks_normalize(const char *language, char *out, size_t size)
{
    static const char *const aliases[][2] = {
        { "py", "python" }, { "js", "javascript" }, { "ts", "typescript" }, { "shell", "bash" }
    };
    csn_str s = csn_str_trim(csn_str_of(language));

    if (!size)
        return;
    if (s.len >= size)
        s.len = size - 1;
    memcpy(out, s.len ? s.data : "", s.len);
    out[s.len] = '\0';
    for (size_t i = 0; i < s.len; i++)
        if (out[i] >= 'A' && out[i] <= 'Z')
            out[i] = (char) (out[i] - 'A' + 'a');
    for (size_t i = 0; i < CSN_COUNT(aliases); i++)
        if (csn_streq(out, aliases[i][0]) && strlen(aliases[i][1]) < size)
            memcpy(out, aliases[i][1], strlen(aliases[i][1]) + 1);
}

const csn_lang *csn_lang_find(const char *language)
{
    char name[CSN_LANG_NAME_MAX];

    csn_blocks_normalize(language, name, sizeof(name));
    for (const csn_lang *l = csn_langs; l->name; l++)
        if (csn_streq(l->name, name))
            return l;
    return NULL;
}

void csn_put_repr(csn_buf *out, const char *text)
{
    char quote = strchr(text, '\'') && !strchr(text, '"') ? '"' : '\'';
    size_t len = strlen(text), at = 0;

    csn_buf_putc(out, quote);
    while (at < len) {
        unsigned c;
        int n = csn_utf8_next(text + at, len - at, &c);

        if (n <= 0) {
            csn_buf_printf(out, "\\x%02x", (unsigned char) text[at]);
            n = 1;
        } else if (c == '\n' || c == '\r' || c == '\t') {
            csn_buf_puts(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        } else if (c == '\\' || c == (unsigned char) quote) {
            csn_buf_printf(out, "\\%c", (char) c);
        } else if (c < 0x20 || (c >= 0x7F && c < 0xA0)) {
            csn_buf_printf(out, "\\x%02x", c);
        } else {
            csn_buf_append(out, text + at, (size_t) n);
        }
        at += (size_t) n;
    }
    csn_buf_putc(out, quote);
}
