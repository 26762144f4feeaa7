/* SPDX-License-Identifier: Apache-2.0 */
/* The Dockerfiles that need no build. SDKs make them of an image's name; people add variables. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/str.h"
#include "shape/volume.h"

static csn_str next_word(csn_str *line)
{
    size_t n = 0;

    *line = csn_str_trim(*line);
    while (n < line->len && line->data[n] != ' ' && line->data[n] != '\t')
        n++;
    csn_str word = csn_str_n(line->data, n);
    *line = csn_str_trim(csn_str_n(line->data + n, line->len - n));
    return word;
}

static bool is_word(csn_str word, const char *name)
{
    return word.len == strlen(name) && strncasecmp(word.data, name, word.len) == 0;
}

static int read_from(csn_str line, char **image, csn_error *err)
{
    csn_str word = next_word(&line);

    if (*image)
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "Dockerfile: builds of several stages are not supported here");
    if (csn_str_starts_with(word, CSN_STR("--platform=")))
        word = next_word(&line);
    if (word.len == 0 || word.len > 512)
        return csn_fail(err, CSN_E_INVALID, "Dockerfile: FROM names no image");
    *image = strndup(word.data, word.len);
    return *image ? CSN_OK : csn_fail(err, CSN_E_NO_MEMORY, "read the Dockerfile");
}

/* The value up to the end of the word: bare, '…' or "…" with \" and \\. What another variable would fill in is known to
 * a build only. */
static int take_value(csn_str *line, csn_buf *out)
{
    char quote = 0;
    size_t i = 0;

    for (; i < line->len; i++) {
        char c = line->data[i];
        if (!quote && (c == ' ' || c == '\t'))
            break;
        if (!quote && (c == '"' || c == '\''))
            quote = c;
        else if (quote && c == quote)
            quote = 0;
        else if (c == '\\' && quote != '\'' && i + 1 < line->len)
            csn_buf_putc(out, line->data[++i]);
        else if (c == '$' && quote != '\'')
            return CSN_E_UNSUPPORTED;
        else
            csn_buf_putc(out, c);
    }
    *line = csn_str_trim(csn_str_n(line->data + i, line->len - i));
    return quote ? CSN_E_INVALID : CSN_OK;
}

static int read_variable(csn_str *line, csn_map *env, csn_error *err)
{
    csn_auto(buf) csn_buf value = CSN_BUF_INIT_MAX(64 << 10);
    ptrdiff_t equals = csn_str_find(*line, '=');
    char name[256];

    if (equals < 0 ||
        csn_str_copy(name, sizeof(name), csn_str_n(line->data, (size_t) equals)) < 0 ||
        !csn_is_env_name(name))
        return csn_fail(err, CSN_E_INVALID, "Dockerfile: ENV wants NAME=value");
    *line = csn_str_n(line->data + equals + 1, line->len - (size_t) equals - 1);
    int r = take_value(line, &value);
    if (r == CSN_E_UNSUPPORTED)
        return csn_fail(err, r,
                        "Dockerfile: ENV %s: '$' needs an image build, which this server does not "
                        "do; write \\$ for the character",
                        name);
    if (r < 0)
        return csn_fail(err, r, "Dockerfile: ENV %s: the quote is not closed", name);
    if (value.error < 0)
        return csn_fail_sys(err, value.error, "Dockerfile: ENV %s", name);
    if (csn_map_set(env, name, value.data ? value.data : "") < 0)
        return csn_fail(err, CSN_E_NO_MEMORY, "read the Dockerfile");
    return CSN_OK;
}

static int read_line(csn_str line, char **image, csn_map *env, csn_error *err)
{
    csn_str word = next_word(&line);

    if (word.len == 0 || word.data[0] == '#' || is_word(word, "LABEL"))
        return CSN_OK;
    if (is_word(word, "FROM"))
        return read_from(line, image, err);
    if (!is_word(word, "ENV"))
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "Dockerfile: %.*s needs an image build, which this server does not do; "
                        "build it elsewhere and register it with 'caisson image import'",
                        (int) (word.len < 20 ? word.len : 20), word.data);
    for (int r = CSN_OK; line.len > 0;) {
        r = read_variable(&line, env, err);
        if (r < 0)
            return r;
    }
    return CSN_OK;
}

int csn_shape_dockerfile_read(const char *text, char **ret_image, csn_map *env, csn_error *err)
{
    csn_auto(map) csn_map own = { 0 }; /* where the last line wins */
    csn_str rest = csn_str_of(text), line;
    char *image = NULL;
    int r = CSN_OK;

    while (r == CSN_OK && csn_str_split(&rest, '\n', &line))
        r = read_line(line, &image, &own, err);
    if (r == CSN_OK && !image)
        r = csn_fail(err, CSN_E_INVALID, "Dockerfile: FROM is missing");
    if (r == CSN_OK && env && csn_map_add(env, &own) < 0)
        r = csn_fail(err, CSN_E_NO_MEMORY, "read the Dockerfile");
    if (r < 0) {
        free(image);
        return r;
    }
    *ret_image = image;
    return CSN_OK;
}
