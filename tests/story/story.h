/* Words for stories: an engine on a state directory of its own, sandboxes in it, commands in them. Each fails the test
 * with the library's own message when something goes wrong. */
#ifndef CSN_STORY_H
#define CSN_STORY_H

#include <caisson.h>

#include "csn_test.h"

/* The test's engine; opened at first use, freed when the test ends, and then nothing may remain. */
csn_engine *the_engine(void);
csn_engine *another_engine(void); /* on the same state; the caller frees it */
void close_the_engine(void);      /* early, to look at what remains */
bool is_remote(
    void); /* the engines' sandboxes are at the service of DAYTONA_API_URL: CSN_STORY_REMOTE */
const char *the_state(void);
bool is_rootless(void); /* the story runs without privilege */

/* a_sandbox(.name = "a", .memory_bytes = 64 << 20): ephemeral and attached unless told otherwise. */
csn_sandbox *make_sandbox(csn_sandbox_options opts);
#define a_sandbox(...) \
    make_sandbox((csn_sandbox_options){ .size = sizeof(csn_sandbox_options), __VA_ARGS__ })
#define an_ephemeral(...) a_sandbox(.is_ephemeral = 1, ##__VA_ARGS__)

/* Runs to the end. Results are freed when the test ends. */
const csn_run_result *run_with(csn_sandbox *box, csn_process_options opts);
#define run(box, ...) \
    run_with(box, (csn_process_options){ .size = sizeof(csn_process_options), __VA_ARGS__ })
#define ARGV(...) ((const char *const[]){ __VA_ARGS__, NULL })
/* "exit 0", "signal 9", "timeout", … */
const char *ending(const csn_run_result *result);
#define sh(box, text) run(box, .shell = (text))

#define OK(call) \
    do { \
        csn_error err_ = { 0 }; \
        csn_error *err = &err_; \
        int r_ = (call); \
        if (r_ < 0) \
            FAIL("%s: %s", #call, err_.message); \
    } while (0)
/* An operation that was begun. */
#define BEGUN(call) \
    ({ \
        csn_error err_ = { 0 }; \
        csn_error *err = &err_; \
        csn_op *op_ = (call); \
        if (!op_) \
            FAIL("%s: %s", #call, err_.message); \
        op_; \
    })
/* One that is refused at once. */
#define NOT_BEGUN(call, code_wanted) FAILS((call) ? CSN_OK : err->code, code_wanted)
#define FAILS(call, code_wanted) \
    do { \
        csn_error err_ = { 0 }; \
        csn_error *err = &err_; \
        CHECK_STR(csn_error_name(call), csn_error_name(code_wanted)); \
        if (err_.code != (code_wanted) || !err_.message[0]) \
            FAIL("%s: the error says %d '%s'", #call, err_.code, err_.message); \
    } while (0)

/* What lies in a directory of the state: number of entries. */
int count_entries(const char *part);
int count_sandboxes(csn_engine *engine); /* as listed */
/* Cgroup directories of this id, anywhere. */
int count_cgroups(const char *id);
/* Waits until fn(user) is true, at most 10 s (csn_test_slow() times). */
bool until(bool (*fn)(void *user), void *user);

#endif
