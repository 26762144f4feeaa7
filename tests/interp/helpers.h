/* Words the stories about sessions share. */
#ifndef CSN_INTERP_HELPERS_H
#define CSN_INTERP_HELPERS_H

#include <caisson/interp.h>

#include "story/story.h"

/* Freed at the end of the test. */
csn_interp *make_interp(csn_interp_options o);
#define an_interp(...) make_interp((csn_interp_options){ __VA_ARGS__ })

csn_exec_result *execute_with(csn_interp *i, const char *code, csn_execute_options o);
#define execute(i, code, ...) \
    execute_with(i, code, (csn_execute_options){ .size = 0, ##__VA_ARGS__ })

/* The fields as JSON, or the text. */
const char *final_of(const csn_exec_result *r);
#define value(i, code) final_of(execute(i, code))

const char *metadata(csn_interp *i, const char *key); /* until the next call */
char *exported(csn_interp *i);
int count_boxes(void); /* that are there, wherever they are */
bool has_no_boxes(void *user);
void need_volumes(void); /* skips where there are none */
bool shell(const char *command);
/* A repository below the test's directory: main, feature/x ("two"), tag v2. Skips without git. */
char *make_repo(const char *name, const char *readme);

/* Models. */
int echo(const char *prompt, size_t len, int64_t timeout_ms, char **ret_text, csn_error *err,
         void *user);
int planner(const char *prompt, size_t len, int64_t timeout_ms, char **ret_text, csn_error *err,
            void *user);

#endif
