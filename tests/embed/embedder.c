/* A program of somebody else's, built against the installed library, as C99 and as C++11: opens an engine, makes a
 * sandbox, runs a command in it and prints what it said. embedder LIBEXEC STATE */
#include <stdio.h>
#include <string.h>

#include <caisson.h>

static int run_in(csn_sandbox *box, csn_error *err)
{
    const char *argv[] = { "/bin/echo", "hello from inside", NULL };
    csn_process_options opts;
    csn_run_result result;

    memset(&opts, 0, sizeof(opts));
    opts.size = sizeof(opts);
    opts.argv = argv;
    if (csn_run(box, &opts, &result, err) != CSN_OK)
        return -1;
    fputs(result.out, stdout);
    csn_run_result_done(&result);
    return 0;
}

int main(int argc, char **argv)
{
    csn_engine_options opts;
    csn_engine *engine = NULL;
    csn_sandbox *box = NULL;
    csn_error err;
    int status = 1;

    if (argc != 3)
        return 2;
    memset(&opts, 0, sizeof(opts));
    memset(&err, 0, sizeof(err));
    opts.size = sizeof(opts);
    opts.libexec_dir = argv[1];
    opts.state_dir = argv[2];
    if (csn_engine_open(&opts, &engine, &err) == CSN_OK &&
        csn_sandbox_create(engine, NULL, &box, &err) == CSN_OK && run_in(box, &err) == 0 &&
        csn_sandbox_delete(box, &err) == CSN_OK)
        status = 0;
    if (status != 0)
        fprintf(stderr, "%s: %s\n", csn_error_name(err.code), err.message);
    csn_sandbox_free(box);
    csn_engine_free(engine);
    return status;
}
