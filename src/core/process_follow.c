/* Background commands and terminals with an on_output callback: their log is read to it as it grows, so that a caller
 * sees no difference. One wait for growth is under way at a time; a paused callback has none. */
#include <stdlib.h>

#include "base/err.h"
#include "base/fault.h"
#include "core/process.h"

enum { PIECE = 64 * 1024 };

/* Outlives the process only while it gives something out. */
struct csn_follow {
    csn_process *process; /* NULL: freed meanwhile */
    int64_t offset;
    csn_op *wait; /* for more; NULL: none is under way */
    bool is_paused;
    bool is_giving; /* in the callback, which may free the process */
    char data[PIECE];
};

static void on_grown(int result, const csn_error *err, void *user);

static int await_growth(csn_follow *f)
{
    csn_process *p = f->process;

    f->wait = csn_op_new_plain(p->sandbox->engine, on_grown, f, NULL);
    if (f->wait)
        f->wait = csn_op_begun(
            f->wait, p->sandbox->box->ops->exec_wait(p->exec, f->offset, false, f->wait, NULL));
    return f->wait ? 0 : CSN_E_SYSTEM;
}

static void finish(csn_follow *f)
{
    csn_process *p = f->process;

    p->follow = NULL;
    free(f);
    csn_process_end(p);
}

/* Gives out what there is. True: all of it, and more may come; false: paused, ended or freed. */
static bool give_out(csn_follow *f, bool is_lost)
{
    while (f->process) {
        csn_process *p = f->process;
        csn_log_piece piece;
        int r = p->sandbox->box->ops->exec_read_log(p->exec, f->offset, f->data, sizeof(f->data),
                                                    &piece, NULL);
        if (r < 0 || piece.is_end || (piece.len == 0 && is_lost)) {
            finish(f);
            return false;
        }
        if (piece.len == 0)
            return true;
        f->offset = piece.offset + (int64_t) piece.len;
        f->is_giving = true;
        int wants_pause = p->on_output(p, piece.stream, f->data, piece.len, p->user_data) == 1;
        f->is_giving = false;
        if (f->process && wants_pause) {
            f->is_paused = true;
            return false;
        }
    }
    free(f);
    return false;
}

static void on_grown(int result, const csn_error *err, void *user)
{
    csn_follow *f = user;

    (void) err;
    f->wait = NULL;
    if (f->is_paused || !give_out(f, result < 0))
        return;
    if (await_growth(f) < 0)
        (void) give_out(f, true); /* nobody tells any more: what is there is all */
}

int csn_follow_start(csn_process *process, csn_error *err)
{
    csn_follow *f = csn_malloc(sizeof(*f));

    if (!f)
        return csn_fail(err, CSN_E_NO_MEMORY, "follow a command");
    f->process = process;
    f->offset = 0;
    f->wait = NULL;
    f->is_paused = f->is_giving = false;
    process->follow = f;
    return CSN_OK;
}

void csn_follow_begin(csn_follow *follow)
{
    if (await_growth(follow) < 0)
        finish(follow);
}

void csn_follow_resume(csn_follow *follow)
{
    if (!follow->is_paused)
        return;
    follow->is_paused = false;
    if (!follow->wait && await_growth(follow) < 0)
        finish(follow);
}

void csn_follow_drop(csn_follow *follow)
{
    follow->process = NULL;
    csn_op_drop(follow->wait);
    follow->wait = NULL;
    if (!follow->is_giving)
        free(follow);
}
