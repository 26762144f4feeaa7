#include "base/script.h"

#include <string.h>

#include "base/auto.h"

#define BUILD_C "f=$1 o=$2; shift 2; cc -O1 -o \"$o\" \"$f\" -lm || exit $?; exec \"$o\" \"$@\""
#define BUILD_TS \
    "f=$1 o=$2.mjs; shift 2; " \
    "esbuild \"$f\" --bundle --platform=node --format=esm --packages=external --log-level=warning " \
    "--banner:js='import{createRequire as _cr}from\"module\";const " \
    "require=_cr(import.meta.url);' --outfile=\"$o\" || exit $?; exec node \"$o\" \"$@\""

static const csn_language languages[] = {
    { ".py", "python3", NULL }, { ".js", "node", NULL }, { ".mjs", "node", NULL },
    { ".cjs", "node", NULL },   { ".sh", "sh", NULL },   { ".bash", "bash", NULL },
    { ".pl", "perl", NULL },    { ".rb", "ruby", NULL }, { ".c", NULL, BUILD_C },
    { ".ts", NULL, BUILD_TS },
};

const char *csn_suffix_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');

    return dot && dot != name ? dot : "";
}

const csn_language *csn_language_of(const char *path)
{
    const char *suffix = csn_suffix_of(path);

    for (size_t i = 0; i < CSN_COUNT(languages); i++)
        if (strcmp(languages[i].suffix, suffix) == 0)
            return &languages[i];
    return NULL;
}

bool csn_is_executable_text(const char *data, size_t len)
{
    return len >= 4 && (memcmp(data, "#!", 2) == 0 || memcmp(data, "\177ELF", 4) == 0);
}
