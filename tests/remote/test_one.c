/* One command at the service that DAYTONA_API_URL names, for tests with a service of their own: prints its streams as ours, and
 * how it ended on one more line of stderr. usage: test_remote_one TIMEOUT_MS SHELL */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <caisson.h>

static int print(csn_process *process, csn_stream stream, const void *data, size_t len, void *user)
{
    (void) process;
    (void) user;
    return write(stream == CSN_STDERR ? 2 : 1, data, len) == (ssize_t) len ? 0 : 1;
}

int main(int argc, char **argv)
{
    csn_engine_options eo = { .size = sizeof(eo),
                              .remote_url = getenv("DAYTONA_API_URL"),
                              .remote_key = getenv("DAYTONA_API_KEY") };
    csn_process_options po = { .size = sizeof(po), .on_output = print };
    csn_engine *engine = NULL;
    csn_sandbox *box = NULL;
    csn_process *process = NULL;
    csn_receipt receipt;
    csn_error err = { 0 };
    int r;

    if (argc != 3)
        return 2;
    po.timeout_ms = strtol(argv[1], NULL, 10);
    po.shell = argv[2];
    r = csn_engine_open(&eo, &engine, &err);
    if (r >= 0)
        r = csn_sandbox_create(engine, NULL, &box, &err);
    if (r >= 0)
        r = csn_process_start(box, &po, &process, &err);
    if (r >= 0)
        r = csn_process_wait(process, 0, &receipt, &err);
    if (r < 0)
        (void) dprintf(2, "error %d: %s\n", r, err.message);
    else
        (void) dprintf(2, "ended %d exit %d\n", (int) receipt.ended, receipt.exit_code);
    csn_process_free(process);
    csn_sandbox_free(box);
    csn_engine_free(engine);
    return r < 0 ? 3 : 0;
}
