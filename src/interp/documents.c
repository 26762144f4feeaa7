/* Documents become text inside the sandbox: their readers are where attacks on readers go, so none runs on the host. */
#include <strings.h>

#include "base/err.h"
#include "base/fault.h"
#include "interp.h"
#include "interp/documents_source.h"

enum { EXTRACT_MS = 300000, PER_RUN = 64 };

const char *csn_documents_program(void)
{
    return (const char *) csn_documents_source;
}

bool csn_is_document(const char *name)
{
    static const char *const kinds[] = { ".pdf", ".docx", ".pptx", ".xlsx",  ".odt",  ".ods",
                                         ".odp", ".html", ".htm",  ".xhtml", ".epub", ".rtf" };
    const char *dot = strrchr(name, '.');

    for (size_t k = 0; dot && k < CSN_COUNT(kinds); k++)
        if (strcasecmp(dot, kinds[k]) == 0)
            return true;
    return false;
}

/* One line per file, written by a program that read hostile bytes: only the paths we gave are believed. */
static void take_lines(csn_str rest, const char *const *paths, size_t n,
                       void (*fn)(const char *path, const char *why, void *user), void *user)
{
    csn_str line;

    for (size_t k = 0; k < n; k++) {
        csn_auto(json) csn_json *doc = NULL;

        if (!csn_str_split(&rest, '\n', &line) ||
            csn_json_parse(line.data, line.len, &doc, NULL) < 0)
            fn(paths[k], "its reader failed", user);
        else if (!csn_json_get_bool(doc, "ok", false))
            fn(paths[k], csn_json_get_str(doc, "reason", "unknown"), user);
    }
}

int csn_documents_extract(csn_sandbox *box, const char *const *paths,
                          void (*fn)(const char *path, const char *why, void *user), void *user,
                          csn_error *err)
{
    while (*paths) {
        const char *argv[PER_RUN + 4] = { "python3", "-c", csn_documents_program() };
        csn_process_options o = { .size = sizeof(o), .argv = argv, .timeout_ms = EXTRACT_MS };
        csn_run_result r = { 0 };
        size_t n = 0;

        for (; n < PER_RUN && paths[n]; n++)
            argv[3 + n] = paths[n];
        int e = csn_run(box, &o, &r, err);
        if (e < 0)
            return e;
        take_lines(csn_str_n(r.out, r.out_len), paths, n, fn, user);
        csn_run_result_done(&r);
        paths += n;
    }
    return CSN_OK;
}
