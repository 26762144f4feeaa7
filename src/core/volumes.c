/* SPDX-License-Identifier: Apache-2.0 */
/* Named durable directories: the public verbs; a backend has them. */
#include <caisson/volume.h>

#include "base/err.h"
#include "base/str.h"
#include "core/engine.h"

/* The engine, the verb and the name are there; else *err says what is not. `name`: NULL where none is wanted. */
static csn_op *new_op(csn_engine *engine, bool has_verb, const char *what, const char *name,
                      csn_done_fn done, void *user, csn_error *err)
{
    if (!has_verb) {
        (void) engine->backend->ops->cannot(NULL, what, err);
        return NULL;
    }
    if (!csn_is_name(name)) {
        (void) csn_fail(err, CSN_E_INVALID,
                        "'%.80s' is no name for a volume: 1 to 64 of A-Z a-z 0-9 . _ -",
                        name ? name : "");
        return NULL;
    }
    return csn_op_new_plain(engine, done, user, err);
}

csn_op *csn_volume_create_async(csn_engine *engine, const char *name, csn_done_fn done, void *user,
                                csn_error *err)
{
    csn_op *op;

    if (csn_engine_check_handle(engine, err) < 0 ||
        !(op = new_op(engine, engine->backend->ops->volume_create != NULL, "create a volume", name,
                      done, user, err)))
        return NULL;
    return csn_op_begun(op, engine->backend->ops->volume_create(engine->backend, name, op, err));
}

int csn_volume_create(csn_engine *engine, const char *name, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_volume_create_async(engine, name, NULL, NULL, err), NULL, err);
}

csn_op *csn_volume_list_async(csn_engine *engine, csn_volume_fn fn, csn_done_fn done, void *user,
                              csn_error *err)
{
    csn_op *op;

    if (csn_engine_check_handle(engine, err) < 0)
        return NULL;
    if (!fn) {
        (void) csn_fail(err, CSN_E_INVALID, "list volumes: no callback was given");
        return NULL;
    }
    if (!(op = new_op(engine, engine->backend->ops->volume_list != NULL, "list volumes", "any",
                      done, user, err)))
        return NULL;
    return csn_op_begun(op, engine->backend->ops->volume_list(engine->backend, fn, user, op, err));
}

int csn_volume_list(csn_engine *engine, csn_volume_fn fn, void *user, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_volume_list_async(engine, fn, NULL, user, err), NULL, err);
}

csn_op *csn_volume_inspect_async(csn_engine *engine, const char *name, csn_volume_fn fn,
                                 csn_done_fn done, void *user, csn_error *err)
{
    csn_op *op;

    if (csn_engine_check_handle(engine, err) < 0)
        return NULL;
    if (!fn) {
        (void) csn_fail(err, CSN_E_INVALID, "inspect a volume: no callback was given");
        return NULL;
    }
    if (!(op = new_op(engine, engine->backend->ops->volume_inspect != NULL, "inspect a volume",
                      name, done, user, err)))
        return NULL;
    return csn_op_begun(
        op, engine->backend->ops->volume_inspect(engine->backend, name, fn, user, op, err));
}

int csn_volume_inspect(csn_engine *engine, const char *name, csn_volume_fn fn, void *user,
                       csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_volume_inspect_async(engine, name, fn, NULL, user, err), NULL, err);
}

csn_op *csn_volume_remove_async(csn_engine *engine, const char *name, csn_done_fn done, void *user,
                                csn_error *err)
{
    csn_op *op;

    if (csn_engine_check_handle(engine, err) < 0 ||
        !(op = new_op(engine, engine->backend->ops->volume_remove != NULL, "remove a volume", name,
                      done, user, err)))
        return NULL;
    return csn_op_begun(op, engine->backend->ops->volume_remove(engine->backend, name, op, err));
}

int csn_volume_remove(csn_engine *engine, const char *name, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_volume_remove_async(engine, name, NULL, NULL, err), NULL, err);
}
