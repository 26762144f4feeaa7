/* Connections to what listens in a sandbox: made inside by a worker, handed out as the descriptor of a file is. */
#include <stdio.h>

#include "base/err.h"
#include "core/files.h"

csn_op *csn_port_connect_async(csn_sandbox *sandbox, uint32_t port, csn_fd_done_fn done, void *user,
                               csn_error *err)
{
    char name[16];
    csn_file_call call = { .verb = CSN_FILE_CONNECT, .flags = port, .path = name };

    if (port < 1 || port > 65535) {
        (void) csn_fail(err, CSN_E_INVALID, "%u is no port: they go from 1 to 65535", port);
        return NULL;
    }
    (void) snprintf(name, sizeof(name), "port %u", port); /* fits */
    return csn_files_open(sandbox, &call, done, user, err);
}

int csn_port_connect(csn_sandbox *sandbox, uint32_t port, int *ret_fd, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_files_open_wait(csn_port_connect_async(sandbox, port, NULL, NULL, err), ret_fd, err);
}
