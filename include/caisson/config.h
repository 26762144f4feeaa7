/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAISSON_CONFIG_H
#define CAISSON_CONFIG_H

#include <stddef.h>

#include <caisson/api.h>
#include <caisson/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the remote backend is and how to speak to it. Each value comes from the first place that has it: the
 * argument below, the process environment, `.env.local`, `.env`, the built-in default. Values are trimmed, an empty
 * one counts as absent, and so does an API key that begins with "your_" (a sample's placeholder). */

typedef struct csn_config csn_config; /* opaque; owns its strings */

/* A line of an environment file that was passed over, or a deprecated name. Valid during the call. */
typedef void (*csn_config_warn_fn)(const char *message, void *user);

typedef struct csn_config_options {
    size_t size;
    const char *dir; /* where .env.local and .env are looked for; NULL: the current directory */
    const char *env_file; /* NULL: the two above; else this file alone, which must exist */
    const char *api_key;  /* explicit values win over everything; NULL: none */
    const char *api_url;
    const char *target;
    csn_config_warn_fn on_warning; /* NULL: none */
    void *user_data;
} csn_config_options;

/* `opts` may be NULL. Errors: CSN_E_NOT_FOUND (env_file), CSN_E_INVALID (DAYTONA_API_BASE_URL is set and
 * DAYTONA_API_URL is not: the message says to rename it), CSN_E_NO_MEMORY. */
CSN_API int csn_config_load(const csn_config_options *opts, csn_config **ret_config,
                            csn_error *err);
CSN_API csn_config *csn_config_free(csn_config *config); /* NULL is fine; always returns NULL */

/* Borrowed from the config; NULL: absent. The key and the token are secrets: never print them. */
CSN_API const char *csn_config_api_key(const csn_config *config);
CSN_API const char *csn_config_api_url(const csn_config *config); /* never NULL, no trailing '/' */
CSN_API const char *csn_config_target(const csn_config *config);
CSN_API const char *csn_config_jwt_token(const csn_config *config);
CSN_API const char *csn_config_organization_id(const csn_config *config);

/* Any other name, by the same precedence (environment, .env.local, .env). */
CSN_API const char *csn_config_get(const csn_config *config, const char *name);

/* 1: the remote backend is part of this build and a usable credential is present. Nobody is asked whether it is accepted. */
CSN_API int csn_config_is_daytona_ready(const csn_config *config);
/* Why not: "Daytona API key not configured" or "Daytona backend not available in this build"; NULL: it is ready. Static. */
CSN_API const char *csn_config_daytona_refusal(const csn_config *config);

#ifdef __cplusplus
}
#endif
#endif
