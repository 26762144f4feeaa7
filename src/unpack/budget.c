#include "budget.h"

#include <inttypes.h>

#include "base/err.h"

enum { RATIO_FREE = 64 << 20 };

int csn_budget_file(csn_budget *budget, csn_error *err)
{
    if (budget->n_files >= budget->max_files)
        return csn_fail(err, CSN_E_LIMIT, "more than %" PRId64 " files", budget->max_files);
    budget->n_files++;
    return CSN_OK;
}

int csn_budget_bytes(csn_budget *budget, int64_t bytes, csn_error *err)
{
    if (bytes < 0 || bytes > budget->max_bytes - budget->bytes)
        return csn_fail(err, CSN_E_LIMIT, "more than %" PRId64 " bytes unpacked",
                        budget->max_bytes);
    budget->bytes += bytes;
    return CSN_OK;
}

int csn_budget_ratio(const csn_budget *budget, int64_t bytes_out, int64_t bytes_in, csn_error *err)
{
    if (bytes_out <= RATIO_FREE || bytes_in < 1 || bytes_out / bytes_in < budget->max_ratio)
        return CSN_OK;
    return csn_fail(err, CSN_E_LIMIT, "unpacks to more than %" PRId64 " times its size",
                    budget->max_ratio);
}
