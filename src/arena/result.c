/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of one candidate's run: made, failed, freed. */
#include <stdlib.h>

#include "base/fault.h"
#include "base/redact.h"
#include "job.h"

csn_candidate_result *csn_result_new(const char *candidate_id)
{
    csn_candidate_result *r = csn_calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->candidate_id = csn_strdup(candidate_id);
    r->output = csn_strdup("");
    r->stderr_data = csn_strdup("");
    r->exit_code = -1;
    r->artifact_bytes = -1;
    r->t_start = r->t_ready = r->t_exec = r->t_exec_end = r->t_end = -1;
    if (!r->candidate_id || !r->output || !r->stderr_data)
        return csn_candidate_result_free(r);
    return r;
}

csn_candidate_result *csn_candidate_result_free(csn_candidate_result *result)
{
    if (!result)
        return NULL;
    free(result->candidate_id);
    free(result->sandbox_id);
    free(result->output);
    free(result->artifact_content);
    free(result->error_message);
    free(result->artifact_path);
    free(result->artifact_file);
    free(result->stderr_data);
    free(result->setup_output);
    free(result);
    return NULL;
}

void csn_result_fail(csn_candidate_result *result, const char *message)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    char *copy;

    if (result->error_message)
        return;
    csn_redact(message, &text);
    copy = csn_buf_take(&text, NULL);
    result->error_message = copy ? copy : csn_strdup("out of memory");
}
