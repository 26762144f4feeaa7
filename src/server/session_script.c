/* SPDX-License-Identifier: Apache-2.0 */
/* What a session's shell is given to read for a command, and what it answers.
 *
 *     case ${_csn_last-} in ID) ;; *) _csn_last=ID
 *     { eval 'TEXT'; } </proc/P/fd/0 >/proc/P/fd/1 2>/proc/P/fd/2 ;; esac
 *     command printf '%s %s\n' NONCE $?
 *
 * The case makes it harmless to say all this once more: who started this server again can't know whether its predecessor
 * still came to say it. */
#include <errno.h>
#include <string.h>

#include "base/id.h"
#include "base/str.h"
#include "server/session.h"

static void put_quoted(csn_buf *out, const char *text)
{
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "'");
        (void) csn_buf_append(out, p, n); /* sticky */
        p += n;
        if (*p == '\'') {
            (void) csn_buf_puts(out, "'\\''");
            p++;
        }
    }
}

int csn_session_put_script(const csn_session_command *c, csn_buf *out)
{
    (void) csn_buf_printf(out, "case ${_csn_last-} in %s) ;; *) _csn_last=%s\n{ eval '", c->id,
                          c->id); /* sticky: seen below */
    put_quoted(out, c->text);
    (void) csn_buf_puts(out, "\n'; } <");
    if (c->is_async)
        (void) csn_buf_printf(out, "/proc/%s/fd/0", c->pid);
    else
        (void) csn_buf_puts(out, "/dev/null");
    (void) csn_buf_printf(
        out, " >/proc/%s/fd/1 2>/proc/%s/fd/2 ;; esac\ncommand printf '%%s %%s\\n' %s \"$?\"\n",
        c->pid, c->pid, c->nonce);
    return out->error;
}

int csn_session_parse_report(const char *line, size_t len, char ret_nonce[33], int *ret_code)
{
    csn_str rest = csn_str_n(line, len), nonce;
    uint64_t code;

    if (!csn_str_split(&rest, ' ', &nonce) || nonce.len != 32 || !rest.data || rest.len > 3 ||
        csn_parse_u64(rest, &code) < 0 || code > 255 || csn_str_copy(ret_nonce, 33, nonce) < 0 ||
        !csn_is_hex(ret_nonce, 32))
        return -EBADMSG;
    *ret_code = (int) code;
    return 0;
}
