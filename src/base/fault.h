/* Fault injection for tests/unwind: the k-th checked call fails. Without CSN_TEST_HOOKS it all vanishes. */
#ifndef CSN_BASE_FAULT_H
#define CSN_BASE_FAULT_H

#include <stddef.h>

#ifdef CSN_TEST_HOOKS

/* Asked before each call that can fail: 0, or -errno when this is the call to fail. `site` is a static word such as
 * "malloc" or "mount". Counts every call. */
int csn_fault(const char *site);

/* Same, with the errno the site would give (positive): csn_fault_as("mount", EPERM). */
int csn_fault_as(const char *site, int e);

/* The k-th check from now (k = 1 is the next) fails, once; 0 disarms. Resets the count and the fired site. Also set at
 * first use from the environment variable CSN_FAULT_AT. */
void csn_fault_arm(long k);
long csn_fault_count(void);        /* checks since csn_fault_arm() */
const char *csn_fault_fired(void); /* the site that failed, or NULL */

#else

static inline int csn_fault(const char *site)
{
    (void) site;
    return 0;
}

static inline int csn_fault_as(const char *site, int e)
{
    (void) site;
    (void) e;
    return 0;
}

static inline void csn_fault_arm(long k)
{
    (void) k;
}

static inline long csn_fault_count(void)
{
    return 0;
}

static inline const char *csn_fault_fired(void)
{
    return NULL;
}

#endif

/* malloc & co. that ask csn_fault() first. NULL and errno = ENOMEM on failure. Free with free(). */
void *csn_malloc(size_t size) __attribute__((malloc, alloc_size(1)));
void *csn_calloc(size_t n, size_t size) __attribute__((malloc, alloc_size(1, 2)));
void *csn_realloc(void *old, size_t size) __attribute__((alloc_size(2)));
char *csn_strdup(const char *text) __attribute__((malloc));
char *csn_strndup(const char *data, size_t len) __attribute__((malloc));

/* n * size checked for overflow. */
void *csn_realloc_array(void *old, size_t n, size_t size) __attribute__((alloc_size(2, 3)));

/* For programs only: never return NULL, but end the process with a line on stderr. */
void *csn_xalloc(size_t n, size_t size) __attribute__((malloc, alloc_size(1, 2), returns_nonnull));
char *csn_xstrdup(const char *text) __attribute__((malloc, returns_nonnull));

#endif
