/* Words for arena stories, on top of those for sandboxes: scripts as text, log lines as one string. */
#ifndef CSN_TESTS_CONTEST_H
#define CSN_TESTS_CONTEST_H

#include <caisson/arena.h>

#include "story/story.h"

/* A script in the test's directory; returns its path, which lives as long as the test. */
const char *a_script(const char *name, const char *text);

/* A directory that the story's user may write to. */
const char *a_directory(const char *name);

/* Everything logged so far, "id: message\n" each; cleared by forget_log(). */
const char *the_log(void);
void forget_log(void);
void keep_log(const char *candidate_id, const char *message, void *user);

/* Runs "x" with the options; objective "do it" and the log kept unless set. Freed when the test ends. */
const csn_candidate_result *run_options(const char *script_path, csn_run_options o);
#define run_script(name, text, ...) \
    run_options(a_script(name, text), \
                (csn_run_options){ .size = sizeof(csn_run_options), __VA_ARGS__ })
#define run_py(text, ...) run_script("x.py", text, ##__VA_ARGS__)

/* Freed when the test ends; the library's error fails the test. */
const csn_arena_result *run_arena(const csn_candidate *candidates, size_t n, csn_arena_options o);

/* The log of a good run, with the eight characters of its sandbox. */
const char *good_log(const csn_candidate_result *r);

/* Nothing is left: no sandbox in the state, no cgroup of this id. */
void check_nothing_left(const csn_candidate_result *r);

#define WRITE_OK "import sys\nopen(sys.argv[2], 'w').write('a fine artifact\\n')\n"

#endif
