#include "fault.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auto.h"

#ifdef CSN_TEST_HOOKS

static long armed_at = -1; /* -1: the environment was not asked yet */
static long n_checks;
static const char *fired;

static long first_arm(void)
{
    const char *text = getenv("CSN_FAULT_AT");

    return text ? strtol(text, NULL, 10) : 0;
}

int csn_fault_as(const char *site, int e)
{
    if (__atomic_load_n(&armed_at, __ATOMIC_RELAXED) < 0)
        __atomic_store_n(&armed_at, first_arm(), __ATOMIC_RELAXED);
    long n = __atomic_add_fetch(&n_checks, 1, __ATOMIC_RELAXED);
    if (n != __atomic_load_n(&armed_at, __ATOMIC_RELAXED))
        return 0;
    fired = site;
    errno = e;
    return -e;
}

int csn_fault(const char *site)
{
    return csn_fault_as(site, ENOMEM);
}

void csn_fault_arm(long k)
{
    __atomic_store_n(&n_checks, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&armed_at, k, __ATOMIC_RELAXED);
    fired = NULL;
}

long csn_fault_count(void)
{
    return __atomic_load_n(&n_checks, __ATOMIC_RELAXED);
}

const char *csn_fault_fired(void)
{
    return fired;
}

#endif

void *csn_malloc(size_t size)
{
    return csn_fault("malloc") < 0 ? NULL : malloc(size);
}

void *csn_calloc(size_t n, size_t size)
{
    return csn_fault("calloc") < 0 ? NULL : calloc(n, size);
}

void *csn_realloc(void *old, size_t size)
{
    return csn_fault("realloc") < 0 ? NULL : realloc(old, size);
}

void *csn_realloc_array(void *old, size_t n, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(n, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return csn_realloc(old, total);
}

char *csn_strndup(const char *data, size_t len)
{
    char *copy = len < SIZE_MAX ? csn_malloc(len + 1) : NULL;

    if (!copy)
        return NULL;
    memcpy(copy, data, len);
    copy[len] = '\0';
    return copy;
}

char *csn_strdup(const char *text)
{
    return csn_strndup(text, strlen(text));
}

static _Noreturn void out_of_memory(void)
{
    static const char line[] = "out of memory\n";

    if (write(2, line, sizeof(line) - 1) < 0)
        _exit(71);
    _exit(70);
}

void *csn_xalloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);

    if (!p)
        out_of_memory();
    return p;
}

char *csn_xstrdup(const char *text)
{
    size_t len = strlen(text) + 1;

    return memcpy(csn_xalloc(len, 1), text, len);
}

void csn_mem_auto(void *pointer_to_pointer)
{
    int saved = errno;
    void *p;

    memcpy(&p, pointer_to_pointer, sizeof(p)); /* whatever pointer type the variable has */
    free(p);
    errno = saved;
}
