/* SPDX-License-Identifier: Apache-2.0 */
#include "script.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/time.h"
#include "base/utf8.h"

/* Single quotes hold everything but themselves. Bytes that are no UTF-8 can't be in JSON: bash and zsh make them of escapes. */
static void put_word(csn_buf *out, const char *word)
{
    bool is_text = csn_utf8_valid(word, strlen(word));

    csn_buf_puts(out, is_text ? " '" : " $'");
    for (; *word; word++) {
        if (is_text && *word == '\'')
            csn_buf_puts(out, "'\\''");
        else if (is_text)
            csn_buf_putc(out, *word);
        else if (*word == '\'' || *word == '\\' || (unsigned char) *word < ' ' ||
                 (unsigned char) *word >= 0x7f)
            csn_buf_printf(out, "\\x%02x", (unsigned) (unsigned char) *word);
        else
            csn_buf_putc(out, *word);
    }
    csn_buf_putc(out, '\'');
}

static void put_argv(csn_buf *out, const char *const *argv)
{
    for (; *argv; argv++)
        put_word(out, *argv);
}

/* The shell reads the command from its own stdin, so the command must not. What the shell itself has to say ("Killed") is not
 * the command's output: it goes nowhere. */
int csn_shell_command(csn_buf *out, const char *const *argv)
{
    csn_buf_puts(out, "exec 3>&2 2>/dev/null;");
    put_argv(out, argv);
    csn_buf_puts(out, " </dev/null 2>&3 3>&-");
    return out->error;
}

/* Runs as /bin/sh -c … sh NONCE STDIN LIMIT CWD PROGRAM ARGUMENT…; its pid is the program's. LIMIT: seconds, "": none. */
static const char starter[] =
    "n=$1 i=$2 t=$3; cd -- \"$4\" 2>/dev/null || { echo \"$n cwd\"; exit 126; }; shift 4\n"
    "case $1 in\n"
    "*/*) [ -e \"$1\" ] || { echo \"$n program\"; exit 127; }\n"
    "[ -x \"$1\" ] && [ ! -d \"$1\" ] || { echo \"$n denied\"; exit 126; };;\n"
    "*) command -v -- \"$1\" >/dev/null 2>&1 || { echo \"$n program\"; exit 127; };;\n"
    "esac\n"
    "case $i in\n"
    "'') exec </dev/null;;\n"
    "-) command -v base64 >/dev/null 2>&1 && mkfifo -m 600 \"/tmp/.$n\" 2>/dev/null ||\n"
    "{ echo \"$n stdin\"; exit 126; }\n"
    "exec 4<&0\n"
    "{ while IFS= read -r l && [ \"$l\" != . ]; do printf %s \"$l\" | base64 -d || break; done; } "
    "<&4 >\"/tmp/.$n\" 2>/dev/null 4<&- &\n"
    "exec <\"/tmp/.$n\" 4<&-; rm -f -- \"/tmp/.$n\";;\n"
    "esac\n"
    "[ -z \"$t\" ] || { ( s=$((t/100+1)); while [ $t -gt 0 ]; do [ $s -le $t ] || s=$t\n"
    "sleep $s; t=$((t-s)); kill -0 $$ || exit; done; kill -KILL -- -$$ || kill -KILL $$\n"
    ") </dev/null >/dev/null 2>&1 4<&- & }\n"
    "echo \"$n $$\"; unset n i t; exec \"$@\"";

static void put_start(csn_buf *out, const csn_exec_spec *spec, const char *nonce, const char *input,
                      int64_t limit_s)
{
    const char *shell[] = { "/bin/sh", "-c", spec->argv[0], NULL };

    csn_buf_puts(out, "env");
    for (char *const *e = spec->env; e && *e; e++)
        put_word(out, *e);
    csn_buf_puts(out, " /bin/sh -c");
    put_word(out, starter);
    csn_buf_puts(out, " sh");
    put_word(out, nonce);
    put_word(out, input);
    if (limit_s > 0)
        csn_buf_printf(out, " %lld", (long long) limit_s);
    else
        put_word(out, "");
    put_word(out, spec->cwd);
    put_argv(out, spec->is_shell ? shell : spec->argv);
}

int csn_script_write(csn_buf *out, const csn_exec_spec *spec, const char *nonce)
{
    csn_buf_puts(out, "{ set -m; ");
    put_start(out, spec, nonce, spec->stdin_kind == CSN_STDIN_NONE ? "" : "-", 0);
    csn_buf_puts(out, " 2>&3 3>&-; } 3>&2 2>/dev/null");
    return out->error;
}

/* ---- in the background ---- */

#define TITLE ": " CSN_SCRIPT_BACKGROUND " "

/* Printable text of at most one field, whatever the words are. */
static void join_words(csn_buf *out, const char *const *argv)
{
    for (size_t i = 0; argv[i]; i++) {
        csn_buf_puts(out, i ? " " : "");
        for (const char *c = argv[i]; *c;) {
            unsigned code = 0;
            int n = csn_utf8_next(c, strlen(c), &code);

            if (n <= 0)
                csn_buf_putc(out, '?');
            else
                csn_buf_append(out, c, (size_t) n);
            c += n > 0 ? n : 1;
        }
    }
    while (out->len > sizeof(((csn_script_title *) NULL)->text) - 1 ||
           (out->len > 0 && !csn_utf8_valid(out->data, out->len)))
        csn_buf_truncate(out, out->len - 1);
}

int csn_script_background(csn_buf *out, const csn_exec_spec *spec)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    int64_t limit_s =
        spec->timeout_ms > 0 ? spec->timeout_ms / 1000 + (spec->timeout_ms % 1000 > 0) : 0;

    join_words(&text, spec->argv);
    csn_buf_printf(out, TITLE "%lld", (long long) csn_wall_ms());
    put_word(out, text.data);
    csn_buf_puts(out, "\n{ set -m; ");
    put_start(out, spec, CSN_SCRIPT_BACKGROUND, "", limit_s);
    csn_buf_puts(out, spec->is_merged ? " 2>&1 3>&-; } 3>&2 2>/dev/null"
                                      : " 2>&3 3>&-; } 3>&2 2>/dev/null");
    return text.error < 0 ? text.error : out->error;
}

void csn_script_read_title(const char *command, size_t len, csn_script_title *ret)
{
    csn_str rest = csn_str_n(command, len), number;
    size_t n = 0;

    *ret = (csn_script_title){ .started_ms = 0 };
    if (!csn_str_starts_with(rest, CSN_STR(TITLE)))
        return;
    rest = csn_str_n(command + sizeof(TITLE) - 1, len - (sizeof(TITLE) - 1));
    if (!csn_str_split(&rest, ' ', &number) || csn_parse_i64(number, &ret->started_ms) < 0 ||
        ret->started_ms < 0)
        ret->started_ms = 0;
    if (!rest.data || rest.len == 0 || rest.data[0] != '\'')
        return;
    for (size_t i = 1; i < rest.len && n + 1 < sizeof(ret->text); i++) {
        if (rest.data[i] == '\'' &&
            !csn_str_starts_with(csn_str_n(rest.data + i, rest.len - i), CSN_STR("'\\''")))
            break;
        if (rest.data[i] == '\'')
            i += 3;
        ret->text[n++] = rest.data[i];
    }
    ret->text[n] = '\0';
}

/* ---- in a terminal ---- */

int csn_script_terminal(csn_buf *out, const csn_exec_spec *spec, const char *nonce)
{
    csn_buf_puts(out, "unset " CSN_SCRIPT_VARIABLE " HISTFILE; echo; exec ");
    put_start(out, spec, nonce, "tty", 0);
    return out->error;
}

static const struct {
    const char *word;
    int code;
    const char *why;
} refusals[] = {
    { "cwd", CSN_E_NOT_FOUND, "its directory is not there" },
    { "program", CSN_E_NOT_FOUND, "no such program" },
    { "denied", CSN_E_DENIED, "it is not executable" },
    { "stdin", CSN_E_UNSUPPORTED, "a live stdin needs base64 and mkfifo in the sandbox" },
};

bool csn_script_read(const char *line, size_t len, const char *nonce, csn_script_word *ret)
{
    csn_str rest = csn_str_trim(csn_str_n(line, len)), first;
    int64_t pid;

    if (!csn_str_split(&rest, ' ', &first) || !csn_str_is(first, nonce) || !rest.data)
        return false;
    for (size_t i = 0; i < CSN_COUNT(refusals); i++) {
        if (!csn_str_is(rest, refusals[i].word))
            continue;
        *ret = (csn_script_word){ .code = refusals[i].code, .why = refusals[i].why };
        return true;
    }
    if (csn_parse_i64(rest, &pid) < 0 || pid < 1 || pid > INT_MAX)
        return false;
    *ret = (csn_script_word){ .pid = (int) pid };
    return true;
}

/* GNU find tells all by itself; others are helped by stat and readlink. */
static const char looker[] =
    "exec 2>/dev/null; p=$1 d=$2 n=$3\n"
    "[ -e \"$p\" ] || [ -L \"$p\" ] || exit 44\n"
    "command -v find >/dev/null || exit 47\n"
    "if [ \"$d\" = 0 ]; then s=$p; set -- -maxdepth 0\n"
    "else [ -d \"$p\" ] || exit 45; [ -r \"$p\" ] && [ -x \"$p\" ] || exit 46\n"
    "s=$p/; set -- -mindepth 1 ${d:+-maxdepth \"$d\"} ${n:+-name \"$n\"}; fi\n"
    "if find / -maxdepth 0 -printf ''; then\n"
    "find \"$s\" \"$@\" -printf '%y %m %U %G %s %T@ %u %g\\0%P\\0%l\\0'\n"
    "else command -v stat >/dev/null && command -v readlink >/dev/null || exit 47\n"
    "find \"$s\" \"$@\" -exec /bin/sh -c 'b=$1; shift; for f do printf \"%s\\0%s\\0%s\\0\" "
    "\"$(stat -c \"%f %a %u %g %s %Y %U %G\" -- \"$f\")\" \"${f#\"$b\"}\" "
    "\"$(readlink -- \"$f\")\"; done' sh \"$s\" {} +\n"
    "fi; exit 0";

int csn_script_look(csn_buf *out, const char *path, int levels, const char *pattern)
{
    csn_auto(buf) csn_buf place = CSN_BUF_INIT;
    char depth[12] = "";
    const char *argv[] = {
        "/bin/sh", "-c", looker, "sh", NULL, depth, pattern ? pattern : "", NULL
    };

    if (levels >= 0)
        (void) snprintf(depth, sizeof(depth), "%d", levels); /* fits */
    csn_buf_printf(&place, "%s%s", path[0] == '/' ? "" : "./", path);
    argv[4] = place.data;
    return place.error < 0 ? place.error : csn_shell_command(out, argv);
}
