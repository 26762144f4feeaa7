/* The JSON of images: OCI index, manifest and configuration, docker-archive manifest. Text in, checked values out; no
 * I/O. All of it is foreign. */
#ifndef CSN_UNPACK_MANIFEST_H
#define CSN_UNPACK_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <caisson/error.h>

#include "digest.h"

enum {
    CSN_MANIFEST_LAYERS_MAX =
        62, /* one place less than an image may have, for the host's base; one for a snapshot */
    CSN_MANIFEST_ENV_MAX = 256,
    CSN_MANIFEST_WORDS_MAX = 256,      /* of Entrypoint, of Cmd */
    CSN_MANIFEST_USER_MAX = 128,
    CSN_MANIFEST_TEXT_MAX = 128 << 10, /* Env, Entrypoint and Cmd together: an answer holds them six times escaped */
    CSN_MANIFEST_PATH_MAX = 256,
    CSN_MANIFEST_JSON_MAX = 4 << 20
};

typedef struct csn_descriptor {
    char sha256[CSN_DIGEST_SIZE];
    int64_t size; /* -1: not said */
    bool is_index;
} csn_descriptor;

/* Picks the manifest (or inner index) for this machine's platform: "linux", `arch`. */
int csn_manifest_pick(const char *text, size_t len, const char *arch, csn_descriptor *ret,
                      csn_error *err);

typedef struct csn_manifest {
    csn_descriptor config;
    size_t n_layers;
    csn_descriptor layers[CSN_MANIFEST_LAYERS_MAX]; /* lowest first */
} csn_manifest;

int csn_manifest_read(const char *text, size_t len, csn_manifest *ret, csn_error *err);

typedef struct csn_docker_manifest {
    char config[CSN_MANIFEST_PATH_MAX]; /* relative, no ".." */
    size_t n_layers;
    char layers[CSN_MANIFEST_LAYERS_MAX][CSN_MANIFEST_PATH_MAX]; /* lowest first */
} csn_docker_manifest;

int csn_docker_manifest_read(const char *text, size_t len, csn_docker_manifest *ret,
                             csn_error *err);

typedef struct csn_image_config {
    char **env; /* owned, NULL at the end */
    char *cwd;  /* owned, "" or absolute */
    char **entrypoint, **cmd; /* owned, NULL at the end */
    char *user;               /* owned, "" or as it stands there: a name or a number, perhaps with a group */
    size_t n_diff_ids;
    char diff_ids[CSN_MANIFEST_LAYERS_MAX]
                 [CSN_DIGEST_SIZE]; /* of the layers unpacked, lowest first */
} csn_image_config;

int csn_image_config_read(const char *text, size_t len, const char *arch, csn_image_config *ret,
                          csn_error *err);
void csn_image_config_auto(csn_image_config *config);

/* This machine's architecture in their words: "amd64". */
const char *csn_manifest_arch(void);

#endif
