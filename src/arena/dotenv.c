#include "dotenv.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/str.h"

typedef struct reader {
    csn_dotenv *env;
    const char *name;
    const char *p, *end;
    unsigned line;
    csn_config_warn_fn warn;
    void *user;
} reader;

static void warn_line(reader *r, unsigned line, const char *what)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    if (!r->warn)
        return;
    csn_buf_printf(&text, "%s:%u: %s; the line is ignored", r->name, line, what);
    r->warn(text.data, r->user);
}

static bool is_key_start(int c)
{
    return isalpha(c) || c == '_';
}

static bool is_key_char(int c)
{
    return isalnum(c) || c == '_' || c == '.' || c == '-';
}

const char *csn_dotenv_get(const csn_dotenv *env, const char *key)
{
    for (size_t i = 0; i < env->n; i++)
        if (strcmp(env->pairs[i].key, key) == 0)
            return env->pairs[i].value;
    return NULL;
}

static int set_pair(csn_dotenv *env, const char *key, size_t key_len, const char *value)
{
    csn_dotenv_pair *grown;
    char *copy = csn_strdup(value);

    if (!copy)
        return -ENOMEM;
    for (size_t i = 0; i < env->n; i++) {
        if (strlen(env->pairs[i].key) == key_len && memcmp(env->pairs[i].key, key, key_len) == 0) {
            free(env->pairs[i].value);
            env->pairs[i].value = copy;
            return 0;
        }
    }
    grown = csn_realloc_array(env->pairs, env->n + 1, sizeof(*grown));
    if (!grown) {
        free(copy);
        return -ENOMEM;
    }
    env->pairs = grown;
    grown[env->n].key = csn_strndup(key, key_len);
    grown[env->n].value = copy;
    if (!grown[env->n].key) {
        free(copy);
        return -ENOMEM;
    }
    env->n++;
    return 0;
}

void csn_dotenv_done(csn_dotenv *env)
{
    for (size_t i = 0; i < env->n; i++) {
        free(env->pairs[i].key);
        free(env->pairs[i].value);
    }
    free(env->pairs);
    *env = (csn_dotenv){ 0 };
}

static bool at_line_end(const reader *r)
{
    return r->p == r->end || *r->p == '\n' ||
           (*r->p == '\r' && (r->p + 1 == r->end || r->p[1] == '\n'));
}

static void skip_blanks(reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t'))
        r->p++;
}

static void skip_line(reader *r)
{
    while (r->p < r->end && *r->p != '\n')
        r->p++;
    if (r->p < r->end)
        r->p++;
    r->line++;
}

/* "${NAME}" at r->p: the environment first, then earlier lines; unknown names become nothing. False: not that form. */
static bool expand(reader *r, csn_buf *value)
{
    const char *start = r->p + 2, *p = start;
    char key[128];
    const char *found;

    if (r->end - r->p < 4 || r->p[0] != '$' || r->p[1] != '{')
        return false;
    while (p < r->end && is_key_char((unsigned char) *p))
        p++;
    if (p == r->end || *p != '}' ||
        csn_str_copy(key, sizeof(key), csn_str_n(start, (size_t) (p - start))) < 0)
        return false;
    found = getenv(key);
    if (!found)
        found = csn_dotenv_get(r->env, key);
    csn_buf_puts(value, found ? found : "");
    r->p = p + 1;
    return true;
}

static char escaped(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case '"':
    case '\\':
        return c;
    default:
        return 0;
    }
}

/* False: the closing quote is missing. */
static bool read_quoted(reader *r, csn_buf *value)
{
    char quote = *r->p++;

    while (r->p < r->end && *r->p != quote) {
        if (*r->p == '\n')
            r->line++;
        if (quote == '"' && *r->p == '\\' && r->p + 1 < r->end && escaped(r->p[1])) {
            csn_buf_putc(value, escaped(r->p[1]));
            r->p += 2;
        } else if (quote != '"' || !expand(r, value)) {
            if (*r->p != '\r' || r->p + 1 >= r->end || r->p[1] != '\n')
                csn_buf_putc(value, *r->p);
            r->p++;
        }
    }
    if (r->p == r->end)
        return false;
    r->p++;
    return true;
}

static void read_bare(reader *r, csn_buf *value)
{
    bool after_blank = true;

    while (!at_line_end(r)) {
        if (*r->p == '#' && after_blank)
            break;
        after_blank = *r->p == ' ' || *r->p == '\t';
        if (!expand(r, value))
            csn_buf_putc(value, *r->p++);
    }
    while (value->len > 0 && strchr(" \t\r", value->data[value->len - 1]))
        csn_buf_truncate(value, value->len - 1);
}

/* What may follow a closing quote: blanks and a comment. */
static bool rest_is_comment(reader *r)
{
    skip_blanks(r);
    return at_line_end(r) || *r->p == '#';
}

/* One line, or several when a quoted value spans them. */
static int read_line(reader *r)
{
    csn_auto(buf) csn_buf value = CSN_BUF_INIT;
    unsigned line = r->line;
    const char *key, *restart;
    size_t key_len;

    skip_blanks(r);
    if (at_line_end(r) || *r->p == '#')
        return skip_line(r), 0;
    if (r->end - r->p > 7 && memcmp(r->p, "export", 6) == 0 &&
        (r->p[6] == ' ' || r->p[6] == '\t')) {
        r->p += 6;
        skip_blanks(r);
    }
    key = r->p;
    if (key < r->end && is_key_start((unsigned char) *key))
        while (r->p < r->end && is_key_char((unsigned char) *r->p))
            r->p++;
    key_len = (size_t) (r->p - key);
    skip_blanks(r);
    if (key_len > 0 && at_line_end(r)) /* a bare KEY says nothing */
        return skip_line(r), 0;
    if (key_len == 0 || r->p == r->end || *r->p != '=') {
        warn_line(r, line, key_len == 0 ? "no name before '='" : "'=' expected after the name");
        return skip_line(r), 0;
    }
    r->p++;
    skip_blanks(r);
    restart = r->p;
    if (!at_line_end(r) && (*r->p == '"' || *r->p == '\'')) {
        bool is_closed = read_quoted(r, &value);

        if (!is_closed || !rest_is_comment(r)) {
            warn_line(r, line,
                      is_closed && r->line == line ? "text after the closing quote"
                                                   : "the closing quote is missing");
            r->p = restart; /* only this line is lost, not those up to some later quote */
            r->line = line;
            return skip_line(r), 0;
        }
    } else {
        read_bare(r, &value);
    }
    skip_line(r);
    if (value.error < 0)
        return value.error;
    return set_pair(r->env, key, key_len, value.data);
}

int csn_dotenv_parse(csn_dotenv *env, const char *name, const char *data, size_t len,
                     csn_config_warn_fn warn, void *user)
{
    reader r = { env, name, data, data + len, 1, warn, user };

    if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        r.p += 3;
    while (r.p < r.end) {
        int e = read_line(&r);

        if (e < 0)
            return e;
    }
    return 0;
}
