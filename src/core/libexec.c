#include "core/libexec.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"

static int look_for(const char *dir, const char *program)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;

    if (csn_buf_printf(&path, "%s/%s", dir, program) < 0)
        return -ENOMEM;
    return access(path.data, X_OK) < 0 ? -errno : 0;
}

static bool has_program(const char *dir, const char *program)
{
    return look_for(dir, program) == 0;
}

/* Beside the running program: the build tree, or …/bin with …/libexec/caisson next to it. */
static bool beside_us(const char *program, csn_buf *out)
{
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    if (n <= 0)
        return false;
    exe[n] = '\0';
    char *slash = strrchr(exe, '/');
    if (!slash)
        return false;
    *slash = '\0';
    csn_buf_clear(out);
    if (csn_buf_puts(out, exe) == 0 && has_program(out->data, program))
        return true;
    csn_buf_clear(out);
    return csn_buf_printf(out, "%s/../libexec/caisson", exe) == 0 &&
           has_program(out->data, program);
}

int csn_libexec_find(const char *wished, const char *program, char **ret_dir, csn_error *err)
{
    csn_auto(buf) csn_buf dir = CSN_BUF_INIT;
    const char *env = secure_getenv("CAISSON_LIBEXEC");

    if (wished || (env && env[0])) {
        csn_buf_puts(&dir, wished ? wished : env);
    } else if (!beside_us(program, &dir)) {
        csn_buf_clear(&dir);
        csn_buf_puts(&dir, CSN_LIBEXECDIR);
    }
    if (dir.error < 0)
        return csn_fail(err, CSN_E_NO_MEMORY, "look for %s", program);
    int r = look_for(dir.data, program);
    if (r == -EACCES) /* it may well be there */
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "uid %u can't reach or execute '%s' in '%s' (Permission denied): install "
                        "it where it can, or set CAISSON_LIBEXEC",
                        (unsigned) geteuid(), program, dir.data);
    if (r < 0)
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "no %s in '%s' (%s): install it or set CAISSON_LIBEXEC", program, dir.data,
                        csn_strerror(r));
    *ret_dir = csn_buf_take(&dir, NULL);
    return *ret_dir ? CSN_OK : csn_fail(err, CSN_E_NO_MEMORY, "look for %s", program);
}
