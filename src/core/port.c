/* Connections to what listens in a sandbox: made inside by a worker, handed out as the descriptor of a file is. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "core/files.h"

typedef struct port_promise {
    csn_sandbox *sandbox; /* counted */
    csn_fd_done_fn done;
    void *user;
} port_promise;

static int check_port(uint32_t port, csn_error *err)
{
    if (port < 1 || port > 65535)
        return csn_fail(err, CSN_E_INVALID, "%u is no port: they go from 1 to 65535", port);
    return CSN_OK;
}

static csn_file_call call_of(uint32_t port, char name[16])
{
    (void) snprintf(name, 16, "port %u", port); /* fits */
    return (csn_file_call){ .verb = CSN_FILE_CONNECT, .flags = port, .path = name };
}

int csn_port_connect(csn_sandbox *sandbox, uint32_t port, int *ret_fd, csn_error *err)
{
    char name[16];
    csn_waiter got;
    int r = check_port(port, err);

    if (r < 0)
        return r;
    csn_file_call call = call_of(port, name);
    r = csn_files_call_wait(sandbox, &call, &got, err);
    if (r >= 0)
        *ret_fd = got.fd;
    return r;
}

static void on_connected(const csn_file_result *ret, int result, const csn_error *err, void *user)
{
    port_promise *p = user;

    p->done(result < 0 ? -1 : ret->fd, result, err, p->user);
    csn_sandbox_free(p->sandbox);
    free(p);
}

int csn_port_connect_start(csn_sandbox *sandbox, uint32_t port, csn_fd_done_fn done, void *user,
                           csn_error *err)
{
    char name[16];
    int r = check_port(port, err);

    if (r < 0 || (r = csn_sandbox_check(sandbox, err)) < 0)
        return r;
    csn_file_call call = call_of(port, name);
    port_promise *p = csn_calloc(1, sizeof(*p));
    if (!p)
        return csn_fail(err, CSN_E_NO_MEMORY, "connect to port %u", port);
    *p = (port_promise){ .sandbox = csn_sandbox_ref(sandbox), .done = done, .user = user };
    call.owner = user;
    r = csn_files_call(sandbox, &call, on_connected, p, err);
    if (r < 0) {
        csn_sandbox_free(sandbox);
        free(p);
    }
    return r;
}
