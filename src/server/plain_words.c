/* SPDX-License-Identifier: Apache-2.0 */
#include "server/plain_words.h"

#include <string.h>

#include "base/auto.h"

/* No character that a shell reads as anything but itself, in any place. */
static const char plain[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:,@%+-= ";

/* What bash does itself, and its own words. echo, true and false do the same as programs as long as no option is given. */
static const char *const reserved[] = {
    ".",       ":",        "alias",   "bg",        "bind",     "break",   "builtin",  "caller",
    "case",    "cd",       "command", "compgen",   "complete", "compopt", "continue", "coproc",
    "declare", "dirs",     "disown",  "do",        "done",     "elif",    "else",     "enable",
    "esac",    "eval",     "exec",    "exit",      "export",   "fc",      "fg",       "fi",
    "for",     "function", "getopts", "hash",      "help",     "history", "if",       "in",
    "jobs",    "kill",     "let",     "local",     "logout",   "mapfile", "popd",     "printf",
    "pushd",   "pwd",      "read",    "readarray", "readonly", "return",  "select",   "set",
    "shift",   "shopt",    "source",  "suspend",   "test",     "then",    "time",     "times",
    "trap",    "type",     "typeset", "ulimit",    "umask",    "unalias", "unset",    "until",
    "wait",    "while",
};

static bool is_for_a_shell(const char *word, size_t len)
{
    if (memchr(word, '=', len))
        return true; /* an assignment */
    for (size_t i = 0; i < CSN_COUNT(reserved); i++)
        if (strlen(reserved[i]) == len && memcmp(reserved[i], word, len) == 0)
            return true;
    return false;
}

size_t csn_plain_words(char *text, char *words[CSN_PLAIN_WORDS_MAX])
{
    size_t len = strlen(text), n = 0, first_len;
    char *p = text + strspn(text, " ");

    if (len > 4096 || text[strspn(text, plain)] != '\0')
        return 0;
    first_len = strcspn(p, " ");
    if (first_len == 0 || is_for_a_shell(p, first_len) ||
        (first_len == 4 && memcmp(p, "echo", 4) == 0 && strstr(p, " -")))
        return 0;
    for (const char *q = p; *q; q += strspn(q, " ")) { /* counted before anything is written */
        q += strcspn(q, " ");
        if (++n > CSN_PLAIN_WORDS_MAX)
            return 0;
    }
    n = 0;
    for (char *q = p; *q;) {
        words[n++] = q;
        q += strcspn(q, " ");
        while (*q == ' ')
            *q++ = '\0';
    }
    return n;
}
