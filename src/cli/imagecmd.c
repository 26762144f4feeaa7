#include "imagecmd.h"

#include <string.h>

#include <caisson/image.h>

#include "base/fault.h"
#include "base/str.h"
#include "out.h"
#include "session.h"

typedef struct config {
    cli_list entrypoint, cmd;
    const char *user;
} config;

static void copy_words(const char *const *from, cli_list *to)
{
    for (size_t i = 0; from[i]; i++)
        cli_list_add(to, csn_xstrdup(from[i])); /* lives as long as the program */
}

static void note_config(const csn_image_info *info, void *user)
{
    config *c = user;

    copy_words(info->entrypoint, &c->entrypoint);
    copy_words(info->cmd, &c->cmd);
    c->user = csn_xstrdup(info->user);
}

/* The machine itself has none, and asking would cost every plain `run` a look into the state. */
static bool has_config(const cli_box *box)
{
    return box->o.image && box->o.image[0] && !csn_streq(box->o.image, "host");
}

static void add_all(cli_list *to, const char *const *words)
{
    for (size_t i = 0; words && words[i]; i++)
        cli_list_add(to, words[i]);
}

int cli_image_command(csn_engine *engine, const cli_box *box, const char *entrypoint,
                      const char *const *given, cli_list *ret)
{
    bool is_given = given && given[0];
    config c = { .user = "" };
    csn_error err = { 0 };

    if (has_config(box) && !entrypoint &&
        csn_image_inspect(engine, box->o.image, note_config, &c, &err) < 0)
        return err.code == CSN_E_CANCELLED ? cli_cancelled_status() : cli_fail(&err, NULL);
    if (entrypoint && entrypoint[0])
        cli_list_add(ret, entrypoint);
    add_all(ret, c.entrypoint.items);
    add_all(ret, is_given ? given : c.cmd.items);
    if (!ret->n)
        return cli_fail_with(CSN_E_INVALID, "caisson run [options] -- COMMAND",
                             "image '%s' names no command of its own", has_config(box) ? box->o.image : "host");
    return -1;
}

/* Names of uid 1000, which everything runs as that wasn't said to be root. */
static bool is_ours(const char *user)
{
    static const char *const ours[] = { "", "daytona", "daytona:daytona", "1000", "1000:1000" };

    for (size_t i = 0; i < CSN_COUNT(ours); i++)
        if (csn_streq(user, ours[i]))
            return true;
    return false;
}

void cli_image_note_user(csn_engine *engine, const cli_box *box)
{
    config c = { .user = "" };

    if (box->o.user || !has_config(box) ||
        csn_image_inspect(engine, box->o.image, note_config, &c, NULL) < 0 || is_ours(c.user))
        return; /* an image that isn't there is said by the verb that needs it */
    cli_note("image '%s' asks for user '%s'; commands run as 'daytona' (uid 1000), or as root with --user root",
             box->o.image, c.user);
}
