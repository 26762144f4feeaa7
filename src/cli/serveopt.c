#include "serveopt.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "out.h"
#include "session.h"

void cli_warden_add(cli_warden *w, const char *fmt, ...)
{
    csn_buf text = CSN_BUF_INIT;
    va_list args;

    va_start(args, fmt);
    csn_buf_vprintf(&text, fmt, args);
    va_end(args);
    char *item = csn_buf_take(&text, NULL); /* lives until the exec */
    if (!item)
        cli_out_of_memory();
    cli_list_add(&w->argv, item);
}

/* Where the heavy programs are: $CAISSON_LIBEXEC, beside this one, or where they were installed to. */
static int find_libexec(csn_buf *out)
{
    const char *env = getenv("CAISSON_LIBEXEC");
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 32);
    char *slash;

    self[n > 0 ? n : 0] = '\0';
    if ((slash = strrchr(self, '/')))
        *slash = '\0';
    const char *const dirs[] = { env && *env ? env : self, CSN_LIBEXECDIR };
    for (size_t i = 0; i < CSN_COUNT(dirs); i++) {
        csn_buf_clear(out);
        if (csn_buf_printf(out, "%s/caisson-warden", dirs[i]) < 0)
            cli_out_of_memory();
        if (access(out->data, X_OK) == 0) {
            csn_buf_truncate(out, strlen(dirs[i]));
            return 0;
        }
    }
    return -ENOENT;
}

/* As for the engine's own directory: the root of a user namespace may not. */
static bool may_write(const char *place, const char *parent)
{
    int r = access(place, W_OK);

    if (r < 0 && errno == ENOENT)
        r = access(parent, W_OK);
    return r == 0 || errno != EACCES;
}

static int put_state(csn_buf *out, const char *state)
{
    const char *env = getenv("CAISSON_SERVER_STATE"), *xdg = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");

    if (!state)
        state = cli_state_dir();
    if (!state && env && *env)
        state = env;
    if (state && state[0] != '/') {
        char cwd[4096];
        if (!getcwd(cwd, sizeof(cwd)))
            return -errno;
        csn_buf_printf(out, "%s/%s", cwd, state);
    } else if (state) {
        csn_buf_puts(out, state);
    } else if (geteuid() == 0 && may_write("/var/lib/caisson-server", "/var/lib")) {
        csn_buf_puts(out, "/var/lib/caisson-server");
    } else if (xdg && xdg[0] == '/') {
        csn_buf_printf(out, "%s/caisson-server", xdg);
    } else if (home && home[0] == '/') {
        csn_buf_printf(out, "%s/.local/state/caisson-server", home);
    } else {
        return -ENOENT;
    }
    return out->error;
}

int cli_warden_begin(cli_warden *w, const char *state, const char *user)
{
    csn_auto(buf) csn_buf libexec = CSN_BUF_INIT, dir = CSN_BUF_INIT;
    int r;

    if (find_libexec(&libexec) < 0)
        return cli_fail_with(CSN_E_UNSUPPORTED, NULL,
                             "the server (caisson-warden) is not installed");
    r = put_state(&dir, state);
    if (r < 0)
        return cli_fail_with(CSN_E_INVALID, "caisson serve --state DIR",
                             "no place for the server's state: %s", strerror(-r));
    cli_warden_add(w, "%s/caisson-warden", libexec.data);
    cli_warden_add(w, "--libexec=%s", libexec.data);
    cli_warden_add(w, "--state=%s", dir.data);
    if (user)
        cli_warden_add(w, "--user=%s", user);
    return -1;
}

int cli_warden_exec(cli_warden *w)
{
    (void) execv(w->argv.items[0], (char **) (uintptr_t) w->argv.items);
    return cli_fail_with(CSN_E_SYSTEM, NULL, "start '%s': %s", w->argv.items[0], strerror(errno));
}
