/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of an earlier server: what was kept of them, and the commands that are still there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/str.h"
#include "server/session.h"

typedef struct echo {
    csn_list link;
    int64_t at;
    size_t len;
    char data[];
} echo;

/* ---- input that was echoed --------------------------------------------------------------------------------------- */

int csn_session_restore_echo(csn_session_command *c, int64_t at, const char *data, size_t len)
{
    echo *e = csn_malloc(sizeof(*e) + len);

    if (!e)
        return -ENOMEM;
    *e = (echo){ .at = at, .len = len };
    memcpy(e->data, data, len);
    csn_list_append(&c->echoes, &e->link);
    return 0;
}

void csn_session_put_echoes(csn_session_command *c, int64_t up_to)
{
    csn_list *node;

    while ((node = csn_list_first(&c->echoes))) {
        echo *e = csn_list_entry(node, echo, link);
        if (e->at > up_to)
            return;
        csn_session_log(c, CSN_STDOUT, e->data, e->len);
        csn_list_remove(node);
        free(e);
    }
}

void csn_session_free_echoes(csn_session_command *c)
{
    csn_list *node;

    while ((node = csn_list_pop(&c->echoes)))
        free(csn_list_entry(node, echo, link));
}

/* ---- what was kept ----------------------------------------------------------------------------------------------- */

csn_session *csn_session_restore(csn_loop *loop, csn_sandbox *box, const char *id, const char *mark,
                                 int log_dir_fd)
{
    csn_session *s = csn_calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    *s = (csn_session){ .loop = loop, .box = box, .log_dir_fd = log_dir_fd, .id = csn_strdup(id) };
    csn_list_init(&s->link);
    csn_list_init(&s->commands);
    if (s->id && csn_str_copy(s->mark, sizeof(s->mark), csn_str_of(mark)) == 0)
        return s;
    return csn_session_free(s);
}

csn_session_command *csn_session_restore_command(csn_session *s, const char *id, const char *text,
                                                 const char *nonce, bool is_async, bool no_echo,
                                                 csn_session_told told, const int *exit_code)
{
    csn_session_command *c = csn_calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    *c = (csn_session_command){ .session = s,
                                .text = csn_strdup(text),
                                .is_async = is_async,
                                .no_echo = no_echo,
                                .told = told,
                                .is_started = exit_code != NULL,
                                .is_ended = exit_code != NULL,
                                .exit_code = exit_code ? *exit_code : 0 };
    if (!c->text || csn_str_copy(c->id, sizeof(c->id), csn_str_of(id)) < 0 ||
        csn_str_copy(c->nonce, sizeof(c->nonce), csn_str_of(nonce)) < 0) {
        free(c->text);
        free(c);
        return NULL;
    }
    csn_list_init(&c->watches);
    csn_list_init(&c->echoes);
    csn_cmdlog_init(&c->log, s->log_dir_fd);
    csn_list_append(&s->commands, &c->link);
    s->n_commands++;
    s->n_waiting += !c->is_ended;
    s->text_bytes += strlen(text);
    return c;
}

/* ---- what is there ----------------------------------------------------------------------------------------------- */

static void note_loss(csn_session_command *c)
{
    static const char text[] = "caisson: what this command printed is no longer there, the server "
                               "was started again\n";

    csn_session_log(c, CSN_STDERR, text, sizeof(text) - 1);
}

void csn_session_attach_command(csn_session_command *c, uint32_t number)
{
    csn_session *s = c->session;

    if (number == 0) {
        if (c->is_ended && c->exit_code >= 0)
            note_loss(c);
        return; /* a waiting one gets its courier when it is its turn */
    }
    c->courier = csn_held_open(s->loop, s->box, number, c->is_async ? CSN_SESSION_INPUT_MAX : 0,
                               &csn_session_courier_events, c, NULL);
    if (!c->courier) {
        note_loss(c);
        return;
    }
    if (c->is_ended || s->running)
        return;
    c->is_started = true;
    s->n_waiting--;
    s->running = c;
}

void csn_session_attach(csn_session *s, uint32_t number)
{
    s->is_standing = number != 0; /* what is written to it waits until it is open */
    if (number != 0)
        s->shell = csn_held_open(s->loop, s->box, number, CSN_SESSION_SCRIPT_MAX,
                                 &csn_session_shell_events, s, NULL);
    if (!s->shell)
        csn_session_lose(s);
}
