#include "session.h"

#include <errno.h>
#include <signal.h>

#include "out.h"
#include "place.h"

static csn_engine *volatile current;
static volatile sig_atomic_t taken;
static volatile sig_atomic_t is_held;
static const char *state_dir;
static bool makes_sandboxes;

static void on_signal(int number)
{
    int saved = errno;

    if (current && !(is_held && !taken))
        csn_engine_interrupt(current);
    taken = number;
    errno = saved;
}

/* No SA_RESTART: a write to a stalled terminal must notice too. */
static void catch_signals(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    struct sigaction act = { .sa_handler = on_signal };
    struct sigaction old;

    (void) sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < CSN_COUNT(numbers); i++) {
        /* nohup and "&" in a script ignore some of them on purpose */
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN)
            continue;
        (void) sigaction(numbers[i], &act, NULL); /* the numbers are right: it can't fail */
    }
}

void cli_set_state_dir(const char *path)
{
    state_dir = path;
}

const char *cli_state_dir(void)
{
    return state_dir;
}

static int try_open(csn_engine_options *o, csn_engine **ret_engine, csn_error *err)
{
    csn_engine *engine;
    int r;

    o->size = sizeof(*o);
    o->state_dir = state_dir;
    r = csn_engine_open(o, &engine, err);
    if (r < 0)
        return r;
    current = engine;
    catch_signals();
    *ret_engine = engine;
    return CSN_OK;
}

static int open_here(csn_engine_options *o, csn_engine **ret_engine)
{
    csn_error err = { 0 };

    if (try_open(o, ret_engine, &err) == CSN_OK)
        return -1;
    return makes_sandboxes ? cli_fail_with(err.code, "caisson doctor", "%s", err.message)
                           : cli_fail(&err, NULL);
}

static int open_engine(csn_engine_options *o, csn_engine **ret_engine)
{
    csn_error err = { 0 };
    int r;

    if (!cli_place_is_remote())
        return open_here(o, ret_engine);
    cli_set_remedies(cli_place_remedy);
    r = cli_place_fill(o, &err);
    if (r >= 0)
        r = try_open(o, ret_engine, &err);
    return r < 0 ? cli_fail(&err, NULL) : -1;
}

int cli_try_open_here(csn_engine **ret_engine, csn_error *err)
{
    return try_open(&(csn_engine_options){ .size = 0 }, ret_engine, err);
}

static int explain(csn_check_fn fn, void *user)
{
    return current ? csn_engine_explain(current, fn, user) : -1;
}

static void will_make(void)
{
    makes_sandboxes = true;
    cli_set_explainer(explain);
}

int cli_open(uint32_t optional_walls, csn_engine **ret_engine)
{
    return open_engine(&(csn_engine_options){ .optional_walls = optional_walls }, ret_engine);
}

int cli_open_to_make(uint32_t optional_walls, csn_engine **ret_engine)
{
    will_make();
    return cli_open(optional_walls, ret_engine);
}

int cli_open_here_to_make(uint32_t optional_walls, csn_engine **ret_engine)
{
    will_make();
    return open_here(&(csn_engine_options){ .optional_walls = optional_walls }, ret_engine);
}

int cli_open_for_one(uint32_t optional_walls, csn_engine **ret_engine)
{
    will_make();
    return open_engine(&(csn_engine_options){ .optional_walls = optional_walls, .n_spare = 1 },
                       ret_engine);
}

int cli_open_box(const char *name, csn_engine **ret_engine, csn_sandbox **ret_sandbox)
{
    csn_error err = { 0 };
    int status = cli_open(0, ret_engine);

    if (status >= 0)
        return status;
    if (csn_sandbox_open(*ret_engine, name, ret_sandbox, &err) < 0)
        return cli_fail(&err, NULL);
    return -1;
}

int cli_signal_take(void)
{
    int number = taken;

    taken = 0;
    return number;
}

int cli_signal_pending(void)
{
    return taken;
}

void cli_hold_signals(bool on)
{
    is_held = on;
    if (!on && taken && current)
        csn_engine_interrupt(current);
}

int cli_cancelled_status(void)
{
    int number = cli_signal_take();

    return 128 + (number ? number : SIGINT);
}

int cli_delete(csn_sandbox *sandbox, csn_error *err)
{
    int r;

    do {
        (void) cli_signal_take();
        r = csn_sandbox_delete(sandbox, err);
    } while (r == CSN_E_CANCELLED);
    return r;
}

void csn_engine_auto(csn_engine **engine)
{
    int saved = errno;

    current = NULL;
    *engine = csn_engine_free(*engine);
    errno = saved;
}

void csn_sandbox_auto(csn_sandbox **sandbox)
{
    int saved = errno;

    *sandbox = csn_sandbox_free(*sandbox);
    errno = saved;
}
