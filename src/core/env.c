#include "core/env.h"

#include <string.h>

#include "base/fault.h"

static const char *const base_user[] = { "HOME=/home/daytona", "USER=daytona", "LOGNAME=daytona",
                                         NULL };
static const char *const base_root[] = { "HOME=/root", "USER=root", "LOGNAME=root", NULL };
static const char *const base_all[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/caisson/bin",
    "LANG=C.UTF-8",
    "TMPDIR=/tmp",
    "SHELL=/bin/sh",
    NULL,
};
static const char *const base_pty[] = { "TERM=xterm-256color", NULL };

const char *csn_home_of(bool as_root)
{
    return as_root ? "/root" : "/home/daytona";
}

static size_t count(const char *const *list)
{
    size_t n = 0;

    while (list && list[n])
        n++;
    return n;
}

/* The place of a variable with the same name, or the end. */
static size_t place_of(char *const *env, size_t n, const char *entry)
{
    size_t len = strcspn(entry, "=") + 1;

    for (size_t i = 0; i < n; i++)
        if (strncmp(env[i], entry, len) == 0)
            return i;
    return n;
}

static void add(char **env, size_t *n, const char *const *list)
{
    for (size_t i = 0; list && list[i]; i++) {
        size_t at = place_of(env, *n, list[i]);
        env[at] = (char *) (uintptr_t) list[i]; /* never written to */
        *n += at == *n;
    }
}

char **csn_env_compose(const csn_wish *wish, const char *const *own, bool as_root, bool is_pty)
{
    const char *const *parts[] = { as_root ? base_root : base_user,
                                   base_all,
                                   is_pty ? base_pty : NULL,
                                   (const char *const *) wish->image_env,
                                   (const char *const *) wish->env,
                                   own };
    size_t n = 0, total = 1;
    char **env;

    for (size_t i = 0; i < CSN_COUNT(parts); i++)
        total += count(parts[i]);
    env = csn_calloc(total, sizeof(*env));
    for (size_t i = 0; env && i < CSN_COUNT(parts); i++)
        add(env, &n, parts[i]);
    return env;
}
