/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include "base/err.h"

static const csn_command_kind *kind_of(csn_exec *exec)
{
    return csn_container_of(exec, csn_daytona_command, base)->kind;
}

static int check_spec(const csn_exec_spec *spec, csn_error *err)
{
    if (spec->is_pty)
        return csn_daytona_cannot(err, "give a command a terminal");
    if (spec->is_background)
        return csn_daytona_cannot(err, "run a command in the background");
    if (spec->has_channel || spec->own_fds)
        return csn_daytona_cannot(err, "hand descriptors to a command");
    if (spec->stdin_kind != CSN_STDIN_NONE && spec->is_merged)
        return csn_daytona_cannot(err, "give a command with merged output a stdin");
    if (spec->as_root)
        return csn_daytona_cannot(err, "run as root");
    return CSN_OK;
}

int csn_daytona_exec(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events,
                     void *user, csn_exec **ret_exec, csn_error *err)
{
    int r = csn_daytona_box_check(box, err);

    if (r < 0 || (r = check_spec(spec, err)) < 0)
        return r;
    if (!csn_daytona_box_of(box)->toolbox)
        return csn_fail(err, CSN_E_STATE, "sandbox '%s' is not started", box->wish.id);
    return spec->is_merged ? csn_execute_start(box, spec, events, user, ret_exec, err)
                           : csn_session_start(box, spec, events, user, ret_exec, err);
}

csn_exec *csn_daytona_exec_free(csn_exec *exec)
{
    return kind_of(exec)->free(exec);
}

int csn_daytona_exec_signal(csn_exec *exec, int signal, bool whole_tree, csn_ending ending,
                            csn_op *op, csn_error *err)
{
    int r = csn_daytona_box_check(exec->box, err);

    if (r < 0)
        return r;
    if (!kind_of(exec)->signal)
        return csn_daytona_cannot(err, "signal a command with merged output");
    return kind_of(exec)->signal(exec, signal, whole_tree, ending, op, err);
}

void csn_daytona_exec_resume(csn_exec *exec)
{
    if (kind_of(exec)->resume) /* else its output came in one piece */
        kind_of(exec)->resume(exec);
}

int csn_daytona_exec_write(csn_exec *exec, const void *data, size_t len, size_t *ret_n,
                           csn_error *err)
{
    int r = csn_daytona_box_check(exec->box, err);

    if (r < 0)
        return r;
    if (!kind_of(exec)->write)
        return csn_fail(err, CSN_E_STATE, "write to a command's stdin: it has none");
    return kind_of(exec)->write(exec, data, len, ret_n, err);
}

int csn_daytona_exec_close_stdin(csn_exec *exec, csn_error *err)
{
    int r = csn_daytona_box_check(exec->box, err);

    if (r < 0)
        return r;
    if (!kind_of(exec)->close_stdin)
        return csn_fail(err, CSN_E_STATE, "close a command's stdin: it has none");
    return kind_of(exec)->close_stdin(exec, err);
}

int csn_daytona_exec_channel(csn_exec *exec, int which)
{
    (void) exec;
    (void) which;
    return -1;
}
