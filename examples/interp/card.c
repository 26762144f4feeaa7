/* SPDX-License-Identifier: Apache-2.0 */
/* The skill card's patterns in C: basic execution, volume persistence, several steps with buffers, a smoke test.
 *   cc card.c $(pkg-config --cflags --libs caisson) -o card && ./card [REPOSITORY] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <caisson.h>
#include <caisson/interp.h>

static csn_exec_result *execute(csn_interp *interp, const char *code)
{
    csn_exec_result *result = NULL;
    csn_error err = { 0 };

    if (csn_interp_execute(interp, code, strlen(code), NULL, &result, &err) < 0) {
        fprintf(stderr, "execute: %s\n", err.message);
        exit(1);
    }
    return result;
}

static csn_interp *start(csn_engine *engine, int64_t timeout_s, const char *volume)
{
    csn_interp_options opts = { .size = sizeof(opts),
                                .timeout_s = timeout_s,
                                .volume_name = volume };
    csn_interp *interp = NULL;
    csn_error err = { 0 };

    if (csn_interp_new(engine, &opts, &interp, &err) < 0 || csn_interp_start(interp, &err) < 0) {
        fprintf(stderr, "start: %s\n", err.message);
        exit(1);
    }
    return interp;
}

static void basic_execution(csn_engine *engine)
{
    csn_interp *interp = start(engine, 300, NULL);
    csn_exec_result *result =
        execute(interp, "import math\nSUBMIT(answer=math.factorial(10), status=\"ok\")\n");
    int64_t answer = 0;

    (void) csn_final_int(result, "answer", &answer); /* 0 would show */
    printf("%lld\n", (long long) answer);
    csn_result_free(result);
    csn_interp_free(interp);
}

static void volume_persistence(csn_engine *engine)
{
    csn_interp *interp = start(engine, 300, "my-project");
    csn_exec_result *result;

    csn_result_free(execute(interp,
                            "import json, pathlib\n"
                            "out = pathlib.Path('/home/daytona/memory/knowledge/report.json')\n"
                            "out.parent.mkdir(parents=True, exist_ok=True)\n"
                            "out.write_text(json.dumps({'key': 'value'}))\n"
                            "SUBMIT(saved=str(out))\n"));
    csn_interp_free(interp); /* the sandbox is gone, the volume is not */
    interp = start(engine, 300, "my-project");
    result = execute(
        interp,
        "import json, pathlib\n"
        "data = json.loads(pathlib.Path('/home/daytona/memory/knowledge/report.json').read_text())\n"
        "SUBMIT(data=data)\n");
    printf("%s\n", csn_final_get(result, "data"));
    csn_result_free(result);
    csn_interp_free(interp);
}

static void steps_with_buffers(csn_engine *engine)
{
    csn_interp *interp = start(engine, 600, NULL);
    csn_exec_result *result;

    csn_result_free(execute(interp, "add_buffer('findings', 'First observation')\n"
                                    "add_buffer('findings', 'Second observation')\n"
                                    "SUBMIT(step='collected')\n"));
    result =
        execute(interp, "items = get_buffer('findings')\nSUBMIT(count=len(items), items=items)\n");
    printf("%s\n", csn_final_get(result, "items"));
    csn_result_free(result);
    csn_interp_free(interp);
}

static void smoke_test(csn_engine *engine, const char *repo)
{
    char *report = NULL;
    int r = csn_interp_smoke(engine, repo, NULL, 0, &report, NULL);

    printf("smoke: %s\n", r < 0 ? report : "completed");
    free(report);
}

int main(int argc, char **argv)
{
    csn_engine *engine = NULL;
    csn_error err = { 0 };

    if (csn_engine_open(NULL, &engine, &err) < 0) {
        fprintf(stderr, "open: %s\n", err.message);
        return 1;
    }
    basic_execution(engine);
    volume_persistence(engine);
    steps_with_buffers(engine);
    if (argc > 1)
        smoke_test(engine, argv[1]);
    csn_engine_free(engine);
    return 0;
}
