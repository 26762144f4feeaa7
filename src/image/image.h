/* Images and their layers on disk: the library's side. Nothing here runs or parses foreign bytes; that is
 * caisson-unpack's part.
 *
 *   images/<name>/image.json    what the name stands for
 *   layers/<layer>/root[, usr]  a tree that is never written again once it has this name
 *   layers/.tmp-<id>            a tree being made; flock()ed by its maker, swept when nobody holds it
 *   layers/host-<stamp>/root    the synthetic base below the machine's own /usr, see hostbase.h */
#ifndef CSN_IMAGE_IMAGE_H
#define CSN_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <caisson/error.h>
#include <caisson/image.h>

#include "base/auto.h"

enum {
    CSN_IMAGE_LAYERS_MAX = 64, /* the same number as CSN_PLAN_LAYERS_MAX */
    CSN_LAYER_ID_SIZE = 65,    /* 32 or 64 hex digits, or "host-" and a stamp; with the NUL */
    CSN_IMAGE_ENV_MAX = 256,
    CSN_IMAGE_WORDS_MAX = 256 /* of an entrypoint, of a command */
};

/* Zero is empty. */
typedef struct csn_image_ref {
    char layers[CSN_IMAGE_LAYERS_MAX][CSN_LAYER_ID_SIZE]; /* topmost first, as csn_plan.layers */
    uint32_t n_layers;
    int is_host_based; /* the last layer is a host-<stamp>; the machine's /usr lies below /usr */
    char **env;        /* owned, "KEY=value", NULL at the end; NULL: none */
    char *cwd;         /* owned; NULL: none named */
    char **entrypoint; /* owned, NULL at the end; NULL: none. What `run` without a command starts, */
    char **cmd;        /* … and what follows it there */
    char *user;        /* owned, as the image has it: a wish, nobody is bound to it; NULL: none named */
} csn_image_ref;

#define CSN_IMAGE_REF_INIT \
    { \
        .n_layers = 0 \
    }

void csn_image_ref_done(csn_image_ref *ref); /* empty again */
void csn_image_ref_auto(csn_image_ref *ref);

/* Looks a name up; "host" (or NULL, or "") always works. For host-based images the present base layer is prepared if
 * needed and put last. *ret is written on success only. CSN_E_NOT_FOUND, CSN_E_INVALID, CSN_E_SYSTEM. */
int csn_image_resolve(int state_fd, const char *name, csn_image_ref *ret, csn_error *err);

/* The same, but 1 where the base layer had to be prepared, which takes a while. */
int csn_image_find(int state_fd, const char *name, csn_image_ref *ret, csn_error *err);

/* Gives a name to layers that exist (a snapshot). A host base layer in ref->layers is left out of the record: it is
 * found afresh by each resolve. CSN_E_EXISTS when the name is taken. */
int csn_image_put(int state_fd, const char *name, const csn_image_ref *ref, const char *source,
                  csn_error *err);

/* CSN_OK when an image may get this name now; CSN_E_INVALID, CSN_E_EXISTS. */
int csn_image_check_new_name(int state_fd, const char *name, csn_error *err);

/* 32 random hex digits: a fresh layers/<id>. 0 or -errno. */
int csn_layer_new_id(char out[33]);

/* Held while a layer is used that no record names yet: from csn_image_resolve() until the box's record is written,
 * from a layer's rename until its image's record; the same for volumes. While anybody holds it nothing is swept and no volume
 * is removed. Close it to let go. */
int csn_layers_hold(int state_fd, int *ret_lock_fd, csn_error *err);

/* For those who take away: CSN_E_BUSY while anybody holds the layers. */
int csn_layers_hold_alone(int state_fd, int *ret_lock_fd, csn_error *err);

/* True when a box needs this layer. */
typedef bool (*csn_layer_used_fn)(const char *layer, void *user);

/* Removes layers that no image, no box (`is_used`; NULL: boxes are read here) and no living maker needs, and what killed
 * makers left. Does nothing (CSN_OK) while somebody holds the layers. *ret_n_removed may be NULL. */
int csn_layer_sweep(int state_fd, csn_layer_used_fn is_used, void *user, uint32_t *ret_n_removed,
                    csn_error *err);

#endif
