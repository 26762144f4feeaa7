/* One import: what is read, where it lands, what came of it. */
#ifndef CSN_UNPACK_IMPORT_H
#define CSN_UNPACK_IMPORT_H

#include "budget.h"
#include "manifest.h"
#include "writer.h"

typedef struct csn_import {
    int tmp_fd;    /* new layers are made here: <id>/root */
    int layers_fd; /* the ones that exist; only asked whether a name is there. -1: none */
    csn_budget budget;
    csn_layer_ids ids;

    const char *source; /* "directory", "tar", "oci", "docker-archive" */
    size_t n_layers;
    struct {
        char id[CSN_DIGEST_SIZE];
        bool is_fresh;                 /* lies in tmp_fd */
    } layers[CSN_MANIFEST_LAYERS_MAX]; /* lowest first, no id twice */
    csn_image_config config;
} csn_import;

/* Whatever `fd` is: a directory or a file. */
int csn_import_run(csn_import *im, int fd, csn_error *err);

/* Makes tmp/<id>/root and opens it: the descriptor or -errno. */
int csn_import_make_layer(csn_import *im, const char *id);

/* Appends a layer on top. A second one of the same content takes the place of the first, since the upper hides all of
 * it. */
void csn_import_add_layer(csn_import *im, const char *id, bool is_fresh);

/* layout.c: an OCI layout or an unpacked docker-archive. */
bool csn_layout_is(int dirfd);
int csn_layout_import(csn_import *im, int dirfd, csn_error *err);

#endif
