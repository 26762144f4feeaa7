/* How much an archive may become. Counted over everything one import unpacks. */
#ifndef CSN_UNPACK_BUDGET_H
#define CSN_UNPACK_BUDGET_H

#include <stdint.h>

#include <caisson/error.h>

typedef struct csn_budget {
    int64_t max_bytes; /* apparent size of all files: holes count */
    int64_t max_files; /* entries of any kind, directories made on the way included */
    int64_t max_ratio; /* bytes out per byte in, once there are 64 MiB of them */
    int64_t max_depth; /* directories above an entry */
    int64_t bytes, n_files, n_skipped;
} csn_budget;

#define CSN_BUDGET_DEFAULT \
    { \
        .max_bytes = INT64_C(64) << 30, .max_files = 4000000, .max_ratio = 250, .max_depth = 100 \
    }

/* CSN_OK or CSN_E_LIMIT. */
int csn_budget_file(csn_budget *budget, csn_error *err);
int csn_budget_bytes(csn_budget *budget, int64_t bytes, csn_error *err);
int csn_budget_ratio(const csn_budget *budget, int64_t bytes_out, int64_t bytes_in, csn_error *err);

#endif
