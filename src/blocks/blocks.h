/* The executor's inside, shared by its files. */
#ifndef CSN_BLOCKS_H
#define CSN_BLOCKS_H

#include <caisson/blocks.h>
#include <caisson/sandbox.h>

#include "base/str.h"
#include "lang.h"

struct csn_blocks {
    csn_engine *engine;     /* borrowed, or: */
    csn_engine *own_engine; /* of csn_blocks_by_name(); NULL: none */
    csn_sandbox *box;   /* NULL: deleted */
    double timeout_s;
    char *snapshot, *image, *name; /* ours; image: the name in the catalog */
    char **env;                    /* ours */
    double cpu, memory_gb, disk_gb;
    int64_t output_bytes;
    bool is_kept, has_network;
    bool owns_image;             /* imported for this executor: goes with it */
    const csn_runner *runner[8]; /* per language, once found */
};

int csn_blocks_check(const csn_blocks_options *opts, csn_error *err);
/* Runs one block: CSN_OK and `ret_run` filled, or the engine's error. */
int csn_block_run_one(csn_blocks *b, const csn_lang *lang, csn_str code, csn_block_run *ret_run,
                      csn_error *err);

#endif
