#include "redact.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

static const char mark[] = "[REDACTED]";

static bool is_token_char(char c)
{
    return isalnum((unsigned char) c) || strchr("-_.~+/=", c) != NULL;
}

static size_t token_length(const char *p)
{
    size_t n = 0;

    while (p[n] && is_token_char(p[n]))
        n++;
    return n;
}

/* Up to a blank, a quote, or the end of a list. A quote that nothing closes hides the rest of its line, not all that
 * follows. */
static size_t value_length(const char *p)
{
    size_t n = 0;

    if (p[0] == '"' || p[0] == '\'') {
        const char *close = strchr(p + 1, p[0]);

        return close ? (size_t) (close - p) + 1 : strcspn(p, "\r\n");
    }
    while (p[n] && !strchr(" \t\r\n'\",;&)", p[n]))
        n++;
    return n;
}

/* "postgres://…", "amqp://…" whole; any other scheme only when it carries a user part. */
static size_t secret_url(const char *p)
{
    static const char *const whole[] = { "postgres://", "postgresql://",  "mysql://",
                                         "mongodb://",  "mongodb+srv://", "redis://",
                                         "rediss://",   "amqp://",        "amqps://",
                                         "kafka://" };
    size_t n = value_length(p), i = 0;

    for (size_t k = 0; k < CSN_COUNT(whole); k++)
        if (strncasecmp(p, whole[k], strlen(whole[k])) == 0)
            return n;
    while (i < n && (isalnum((unsigned char) p[i]) || strchr("+.-", p[i])))
        i++;
    if (i == 0 || strncmp(p + i, "://", 3) != 0)
        return 0;
    for (i += 3; i < n && p[i] != '/' && p[i] != '?'; i++)
        if (p[i] == '@')
            return n;
    return 0;
}

/* "name=value" or "name: value" where the name ends in one of these: the length up to the value, else 0. */
static size_t secret_name(const char *p)
{
    static const char *const endings[] = { "password", "passwd",  "secret",     "api_key",
                                           "apikey",   "api-key", "access_key", "token" };
    size_t n = 0, end;
    bool hit = false;

    while (isalnum((unsigned char) p[n]) || p[n] == '_' || p[n] == '-')
        n++;
    for (size_t k = 0; k < CSN_COUNT(endings); k++) {
        size_t len = strlen(endings[k]);

        hit = hit || (n >= len && strncasecmp(p + n - len, endings[k], len) == 0);
    }
    end = n + (p[n] == '"' || p[n] == '\'');
    while (p[end] == ' ')
        end++;
    if (!hit || (p[end] != '=' && p[end] != ':'))
        return 0;
    end++;
    while (p[end] == ' ')
        end++;
    return p[end] ? end : 0;
}

static bool is_jwt(const char *p, size_t n)
{
    size_t dots = 0;

    for (size_t i = 0; i < n; i++)
        dots += p[i] == '.';
    return n > 20 && dots == 2 && strncmp(p, "eyJ", 3) == 0;
}

/* At the start of a word: how much to keep (*keep) and to hide; 0: nothing secret here. */
static size_t secret_at(const char *p, size_t *keep)
{
    size_t n = token_length(p), name;

    *keep = 0;
    if (strncasecmp(p, "bearer ", 7) == 0) {
        *keep = 7;
        return token_length(p + 7);
    }
    if (strncmp(p, "sk-", 3) == 0 && n > 10)
        return n;
    if (is_jwt(p, n))
        return n;
    if ((n = secret_url(p)) > 0)
        return n;
    name = secret_name(p);
    if (name > 0 && strncasecmp(p + name, "bearer ", 7) == 0)
        return 0; /* the word "Bearer" comes next and keeps its name */
    *keep = name;
    return name > 0 ? value_length(p + name) : 0;
}

int csn_redact(const char *text, csn_buf *out)
{
    bool at_word = true;

    while (*text) {
        size_t keep = 0, hide = at_word ? secret_at(text, &keep) : 0;

        if (hide > 0) {
            csn_buf_append(out, text, keep);
            csn_buf_puts(out, mark);
            text += keep + hide;
            continue;
        }
        at_word = !isalnum((unsigned char) *text) && *text != '_';
        csn_buf_putc(out, *text++);
    }
    return out->error;
}
