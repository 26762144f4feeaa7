/* Theory of operation. An executor is a sandbox, made when the executor is, and a list of settings to make another like
 * it. The sandbox is attached and ephemeral: it ends with csn_blocks_delete(), with the engine, or with this process,
 * however that ends, because its keeper notices. Blocks run one after another, each as one command (run.c). */
#include "blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <caisson/image.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/id.h"

#define GIB ((double) (1 << 30))

int csn_blocks_check(const csn_blocks_options *o, csn_error *err)
{
    if (o->size != sizeof(*o))
        return csn_fail(err, CSN_E_INVALID, "csn_blocks_options is of another version");
    if (o->timeout_s && !(*o->timeout_s >= 1))
        return csn_fail(err, CSN_E_INVALID, "Timeout must be greater than or equal to 1.");
    if (o->snapshot && o->image)
        return csn_fail(
            err, CSN_E_INVALID,
            "Cannot specify both 'snapshot' and 'image'. Use 'snapshot' for a named Daytona snapshot, or "
            "'image' for a custom Docker image.");
    return CSN_OK;
}

static char **copy_env(const char *const *env)
{
    size_t n = 0;
    char **copy;

    while (env && env[n])
        n++;
    copy = csn_calloc(n + 1, sizeof(*copy));
    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = csn_strdup(env[i]);
        if (!copy[i]) {
            while (i)
                free(copy[--i]);
            free(copy);
            return NULL;
        }
    }
    return copy;
}

static int copy_text(const char *text, char **ret)
{
    if (!text)
        return 0;
    *ret = csn_strdup(text);
    return *ret ? 0 : -ENOMEM;
}

static int choose_name(const csn_blocks_options *o, char **ret)
{
    char name[16] = "ag2-";

    if (o->name)
        return copy_text(o->name, ret);
    if (csn_id_hex(name + 4, 4) < 0)
        return -EIO;
    return copy_text(name, ret);
}

static int keep_options(csn_blocks *b, const csn_blocks_options *o, csn_error *err)
{
    int r = choose_name(o, &b->name);

    if (r >= 0)
        r = copy_text(o->snapshot, &b->snapshot);
    if (r >= 0)
        r = copy_text(o->image, &b->image);
    b->env = copy_env(o->env);
    if (r < 0 || !b->env)
        return csn_fail_sys(err, r < 0 ? r : -ENOMEM, "keep the executor's settings");
    b->timeout_s = o->timeout_s ? *o->timeout_s : 60;
    b->cpu = o->cpu;
    b->memory_gb = o->memory_gb;
    b->disk_gb = o->disk_gb;
    b->output_bytes = o->output_bytes ? o->output_bytes : 10 << 20;
    b->is_kept = o->is_kept;
    b->has_network = o->has_network;
    return CSN_OK;
}

static void see_image(const csn_image_info *info, void *user)
{
    (void) info;
    *(bool *) user = true;
}

/* An image may be a path: then it is imported under a name of its own, for as long as the executor lives. */
static int import_image(csn_blocks *b, csn_error *err)
{
    bool is_there = false;
    char name[32] = "ag2-image-";
    char *copy;

    if (!b->image || b->owns_image)
        return CSN_OK;
    if (csn_engine_is_remote(b->engine)) /* it knows names only, and says itself which it has not */
        return strchr(b->image, '/') && access(b->image, F_OK) == 0
                   ? csn_fail(err, CSN_E_UNSUPPORTED,
                              "image '%s' is a path: a service takes names of its snapshots",
                              b->image)
                   : CSN_OK;
    if (csn_image_inspect(b->engine, b->image, see_image, &is_there, NULL) == CSN_OK && is_there)
        return CSN_OK;
    if (!strchr(b->image, '/') && access(b->image, F_OK) < 0)
        return csn_fail(err, CSN_E_NOT_FOUND, "image '%s' not found", b->image);
    if (csn_id_hex(name + strlen(name), 6) < 0 || !(copy = csn_strdup(name)))
        return csn_fail_sys(err, -ENOMEM, "name the image");
    int r = csn_image_import(b->engine, name, b->image, err);

    if (r < 0) {
        free(copy);
        return r;
    }
    free(b->image);
    b->image = copy;
    b->owns_image = true;
    return CSN_OK;
}

static int64_t scaled(double value, double unit)
{
    return value > 0 ? (int64_t) (value * unit) : 0;
}

static bool has_snapshot(csn_blocks *b)
{
    bool is_there = false;

    return csn_image_inspect(b->engine, b->snapshot, see_image, &is_there, NULL) == CSN_OK &&
           is_there;
}

static int create_box(csn_blocks *b, csn_error *err)
{
    csn_sandbox_options o = { .size = sizeof(o),
                              .name = b->name,
                              .env = (const char *const *) b->env };
    int r = import_image(b, err);

    if (r < 0)
        return r;
    if (b->snapshot && !csn_engine_is_remote(b->engine) && !has_snapshot(b))
        return csn_fail(err, CSN_E_NOT_FOUND, "snapshot '%s' not found", b->snapshot);
    o.image = b->snapshot ? b->snapshot : b->image;
    o.is_detached = b->is_kept;
    o.is_ephemeral = !b->is_kept;
    o.network = b->has_network ? CSN_NET_OUTBOUND : CSN_NET_NONE;
    if (b->image) {
        o.cpu_milli = scaled(b->cpu, 1000);
        o.memory_bytes = scaled(b->memory_gb, GIB);
        o.disk_bytes = scaled(b->disk_gb, GIB);
    }
    r = csn_sandbox_create(b->engine, &o, &b->box, err);
    if (r == CSN_E_NOT_FOUND && csn_engine_is_remote(b->engine) && o.image)
        return csn_fail(err, r, "%s '%s' not found", b->snapshot ? "snapshot" : "image", o.image);
    return r;
}

/* The words callers of the original match on. */
static int create_box_in_words(csn_blocks *b, csn_error *err)
{
    csn_error why = { 0 };
    int r = create_box(b, &why);

    if (r >= 0)
        return r;
    if (r == CSN_E_CANCELLED) {
        if (err)
            *err = why;
        return r;
    }
    return csn_fail(err, r, "%s: %s",
                    r == CSN_E_TIMEOUT ? "Daytona sandbox creation timed out"
                    : r == CSN_E_BUSY  ? "Daytona rate limit exceeded during sandbox creation"
                                       : "Failed to create Daytona sandbox",
                    why.message);
}

int csn_blocks_new(csn_engine *engine, const csn_blocks_options *opts, csn_blocks **ret_blocks,
                   csn_error *err)
{
    csn_blocks_options none = { .size = sizeof(none) };
    csn_blocks *b;
    int r;

    opts = opts ? opts : &none;
    if (!engine)
        return csn_fail(err, CSN_E_INVALID, "there is no engine to run code blocks in");
    r = csn_blocks_check(opts, err);
    if (r < 0)
        return r;
    b = csn_calloc(1, sizeof(*b));
    if (!b)
        return csn_fail_sys(err, -ENOMEM, "make the executor");
    b->engine = engine;
    r = keep_options(b, opts, err);
    if (r >= 0)
        r = create_box_in_words(b, err);
    if (r < 0) {
        csn_blocks_free(b);
        return r;
    }
    *ret_blocks = b;
    return CSN_OK;
}

void csn_blocks_delete(csn_blocks *b)
{
    if (!b || !b->box)
        return;
    (void) csn_sandbox_delete(b->box, NULL); /* the sweep takes what stays behind */
    b->box = csn_sandbox_free(b->box);
}

int csn_blocks_restart(csn_blocks *b, csn_error *err)
{
    if (!b)
        return csn_fail(err, CSN_E_INVALID, "no executor was given");
    csn_blocks_delete(b);
    memset(b->runner, 0, sizeof(b->runner));
    return create_box_in_words(b, err);
}

csn_blocks *csn_blocks_free(csn_blocks *b)
{
    if (!b)
        return NULL;
    if (b->is_kept)
        b->box = csn_sandbox_free(b->box);
    else
        csn_blocks_delete(b);
    if (b->owns_image && !b->is_kept)
        (void) csn_image_remove(b->engine, b->image, NULL); /* a busy one is swept later */
    csn_engine_free(b->own_engine);
    for (char **e = b->env; e && *e; e++)
        free(*e);
    free(b->env);
    free(b->snapshot);
    free(b->image);
    free(b->name);
    free(b);
    return NULL;
}

const char *csn_blocks_sandbox_id(const csn_blocks *b)
{
    return b->box ? csn_sandbox_id(b->box) : NULL;
}

const char *csn_blocks_name(const csn_blocks *b)
{
    return b->name;
}

double csn_blocks_timeout_s(const csn_blocks *b)
{
    return b->timeout_s;
}
