#ifndef CSN_UNPACK_TEST_PROGRAM_H
#define CSN_UNPACK_TEST_PROGRAM_H

/* Runs caisson-unpack on a source and reads what it says and what it made. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <caisson/error.h>

#include "csn_test.h"
#include "tar_maker.h"

#define at(...) csn_test_path(__VA_ARGS__)

typedef struct outcome {
    int result;
    char message[256];
    char source[32];
    size_t n_layers, n_fresh;
    char layers[8][80]; /* topmost first */
    char env0[64], cwd[64];
    int64_t bytes, n_files, n_skipped;
} outcome;

void make_dirs(void); /* those it writes into: "out", "layers" */
/* Starts it on a source; the reading end of its result pipe and the process. */
pid_t start(const char *source, const char *option, int *ret_fd);
outcome unpack(const char *source);
outcome unpack_with(const char *source, const char *option);

/* Below a layer it made, 0 the topmost. */
char *in_layer(const outcome *o, size_t layer, const char *path);

void write_text(const char *path, const char *text);
const char *text_of(const char *path); /* "(missing)" when it is */
mode_t mode_of(const char *path);      /* 0 when it is missing */
const char *link_of(const char *path);

/* A small system: set-id programs, links of both kinds, a name that leads out. */
void make_tree_tar(const char *path);

#endif
