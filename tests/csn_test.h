/* TAP tests in a few words: TEST(name) { CHECK(…); }. One program per test_x.c, main() comes from csn_test.c.
 *
 *   test_x [--list] [--no-fork] [--timeout=SECONDS] [PATTERN…]
 *
 * Each test runs in a child of its own (a crash or a hang is a failed test, not a lost run), in its own session, with
 * a deadline; --no-fork runs them in the process itself, for a debugger. CSN_MUST_RUN=1 turns a skip into a failure,
 * unless its reason begins with "kernel: ", "build: ", "user: " or "net: ": nothing that could be installed.
 * PATTERN is a part of a name. */
#ifndef CSN_TEST_H
#define CSN_TEST_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct csn_test {
    const char *name;
    void (*run)(void);
    const char *file;
    int line;
    int timeout_s; /* 0: the default, 60 */
    struct csn_test *next;
} csn_test;

void csn_test_register(csn_test *t);

/* Ends the test as failed / skipped. */
_Noreturn void csn_test_fail(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void csn_test_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A diagnostic line ("# …"). */
void csn_test_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void csn_check_int(const char *file, int line, const char *expr, intmax_t got, intmax_t want);
void csn_check_str(const char *file, int line, const char *expr, const char *got, const char *want);
void csn_check_mem(const char *file, int line, const char *expr, const void *got, size_t got_len,
                   const void *want, size_t want_len);

/* A fresh private directory, removed with all in it after the test. Returns a path that lives as long as the test. */
const char *csn_test_dir(void);
/* Removes a directory with all in it, on this file system; what can't be removed is left. */
void csn_test_remove(const char *path);
/* A path below the test's directory; a handful live at once. */
char *csn_test_path(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* How many times slower than an ordinary machine this one is, 1 to 10 (CSN_SLOW, which tests/run measures): by this a deadline grows,
 * never what is measured against something else. Timeouts of tests grow by themselves. */
int csn_test_slow(void);

/* How many descriptors this process has open. */
int csn_test_count_fds(void);

/* Calls fn(user) when the test ends, in whatever way short of a crash; last registered first. */
void csn_test_defer(void (*fn)(void *user), void *user);

/* TEST(a_name_that_reads_as_a_sentence) { … }   TEST_TIMEOUT(name, seconds) { … } */
#define TEST(test_name) TEST_TIMEOUT(test_name, 0)
#define TEST_TIMEOUT(test_name, seconds) \
    static void test_name(void); \
    static csn_test csn_test_of_##test_name = { \
        #test_name, test_name, __FILE__, __LINE__, (seconds), 0, \
    }; \
    __attribute__((constructor)) static void csn_test_add_##test_name(void) \
    { \
        csn_test_register(&csn_test_of_##test_name); \
    } \
    static void test_name(void)

#define CHECK(expr) ((expr) ? (void) 0 : csn_test_fail(__FILE__, __LINE__, "%s", #expr))
#define CHECK_INT(got, want) \
    csn_check_int(__FILE__, __LINE__, #got, (intmax_t) (got), (intmax_t) (want))
#define CHECK_STR(got, want) csn_check_str(__FILE__, __LINE__, #got, (got), (want))
#define CHECK_MEM(got, got_len, want, want_len) \
    csn_check_mem(__FILE__, __LINE__, #got, (got), (got_len), (want), (want_len))
#define SKIP(...) csn_test_skip(__VA_ARGS__)
#define FAIL(...) csn_test_fail(__FILE__, __LINE__, __VA_ARGS__)

#endif
