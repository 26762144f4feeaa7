/* SPDX-License-Identifier: Apache-2.0 */
/* Named root file systems: the public verbs; a backend has them. */
#include <caisson/image.h>

#include "base/err.h"
#include "core/engine.h"

/* The operation of a verb that the backend has; NULL: *err says why not. */
static csn_op *new_op(csn_engine *engine, bool has_verb, const char *what, csn_done_fn done,
                      void *user, csn_error *err)
{
    if (!has_verb) {
        (void) engine->backend->ops->cannot(NULL, what, err);
        return NULL;
    }
    return csn_op_new_plain(engine, done, user, err);
}

csn_op *csn_image_import_async(csn_engine *engine, const char *name, const char *path,
                               csn_done_fn done, void *user, csn_error *err)
{
    csn_op *op;

    if (csn_engine_check_handle(engine, err) < 0 ||
        !(op = new_op(engine, engine->backend->ops->image_import != NULL, "import an image", done,
                      user, err)))
        return NULL;
    return csn_op_begun(op,
                        engine->backend->ops->image_import(engine->backend, name, path, op, err));
}

int csn_image_import(csn_engine *engine, const char *name, const char *path, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_image_import_async(engine, name, path, NULL, NULL, err), NULL, err);
}

csn_op *csn_image_build_debian_async(csn_engine *engine, const char *name,
                                     const char *const *packages, csn_done_fn done, void *user,
                                     csn_error *err)
{
    csn_op *op;

    if (csn_engine_check_handle(engine, err) < 0 ||
        !(op = new_op(engine, engine->backend->ops->image_build_debian != NULL,
                      "build a Debian image", done, user, err)))
        return NULL;
    return csn_op_begun(
        op, engine->backend->ops->image_build_debian(engine->backend, name, packages, op, err));
}

int csn_image_build_debian(csn_engine *engine, const char *name, const char *const *packages,
                           csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_image_build_debian_async(engine, name, packages, NULL, NULL, err), NULL,
                       err);
}

csn_op *csn_image_list_async(csn_engine *engine, csn_image_fn fn, csn_done_fn done, void *user,
                             csn_error *err)
{
    csn_op *op;

    if (csn_engine_check_handle(engine, err) < 0)
        return NULL;
    if (!fn) {
        (void) csn_fail(err, CSN_E_INVALID, "list images: no callback was given");
        return NULL;
    }
    if (!(op = new_op(engine, engine->backend->ops->image_list != NULL, "list images", done, user,
                      err)))
        return NULL;
    return csn_op_begun(op, engine->backend->ops->image_list(engine->backend, fn, user, op, err));
}

int csn_image_list(csn_engine *engine, csn_image_fn fn, void *user, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_image_list_async(engine, fn, NULL, user, err), NULL, err);
}

csn_op *csn_image_inspect_async(csn_engine *engine, const char *name, csn_image_fn fn,
                                csn_done_fn done, void *user, csn_error *err)
{
    csn_op *op;

    if (csn_engine_check_handle(engine, err) < 0)
        return NULL;
    if (!fn || !name) {
        (void) csn_fail(err, CSN_E_INVALID, "inspect an image: no name or no callback was given");
        return NULL;
    }
    if (!(op = new_op(engine, engine->backend->ops->image_inspect != NULL, "inspect an image", done,
                      user, err)))
        return NULL;
    return csn_op_begun(
        op, engine->backend->ops->image_inspect(engine->backend, name, fn, user, op, err));
}

int csn_image_inspect(csn_engine *engine, const char *name, csn_image_fn fn, void *user,
                      csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_image_inspect_async(engine, name, fn, NULL, user, err), NULL, err);
}

csn_op *csn_image_remove_async(csn_engine *engine, const char *name, csn_done_fn done, void *user,
                               csn_error *err)
{
    csn_op *op;

    if (csn_engine_check_handle(engine, err) < 0 ||
        !(op = new_op(engine, engine->backend->ops->image_remove != NULL, "remove an image", done,
                      user, err)))
        return NULL;
    return csn_op_begun(op, engine->backend->ops->image_remove(engine->backend, name, op, err));
}

int csn_image_remove(csn_engine *engine, const char *name, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_image_remove_async(engine, name, NULL, NULL, err), NULL, err);
}
