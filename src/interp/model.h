/* Models and what may be spent on them. All of it may be called from several threads at once. */
#ifndef CSN_INTERP_MODEL_H
#define CSN_INTERP_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>

#include <caisson/interp.h>

#include "base/buf.h"

/* Where answers come from: a function, an HTTP endpoint or a command. */
typedef struct csn_model {
    csn_llm_fn fn;
    void *user;
    char *url, *name, *key, *command; /* ours; the key is never shown */
    char *small;                      /* the delegates' model; NULL: the same */
    char *helper;                     /* path of caisson-llm */
    int64_t max_tokens, plan_tokens; /* of an answer to code, and to the root's own loop */
    int64_t timeout_s;
    atomic_bool is_denied; /* the credentials were refused once: nobody asks again */
    atomic_bool is_closing;
} csn_model;

int csn_model_new(const csn_interp_options *o, csn_model **ret_model, csn_error *err);
csn_model *csn_model_free(csn_model *model);

enum {
    CSN_ASK_OK = 0,
    CSN_ASK_FAILED = -1,
    CSN_ASK_SKIPPED = -2 /* not asked: give the charge back */
};

/* One question, of the root's loop itself or of a delegate (code, children); the answer, or the words of the failure (redacted, at most 1000 characters), is appended to `out`. */
int csn_model_ask(csn_model *model, bool is_root, const char *prompt, size_t len, csn_buf *out);

/* Semantic calls. A child's counts against its lease and against every parent's. */
typedef struct csn_budget {
    int64_t used, max;
    struct csn_budget *parent; /* NULL: the root */
} csn_budget;

/* All or nothing: true, or false with the words in `why`. */
bool csn_budget_charge(csn_budget *b, int64_t n, csn_buf *why);
void csn_budget_give_back(csn_budget *b, int64_t n);
int64_t csn_budget_left(csn_budget *b);

/* A program of the host: input on stdin, output collected. 0 with *ret_status as waitpid gives it; -ETIMEDOUT; -errno.
 * `stop` (may be NULL) ends it early with -ECANCELED. Its whole group is killed. */
int csn_host_run(const char *const *argv, const char *const *env, const char *input,
                 size_t input_len, int64_t deadline_ns, atomic_bool *stop, csn_buf *out,
                 csn_buf *err_out, int *ret_status);

#endif
