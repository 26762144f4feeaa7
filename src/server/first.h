/* SPDX-License-Identifier: Apache-2.0 */
/* Before the first request: the keys that are to work, what may be listened on, what the user is told. */
#ifndef CSN_SERVER_FIRST_H
#define CSN_SERVER_FIRST_H

#include "server/key.h"
#include "server/server.h"

typedef struct csn_first {
    char url[320];          /* "http://127.0.0.1:3986" */
    char key[CSN_KEY_SIZE]; /* made now, to be shown once; "": there was one */
    bool is_loopback;
} csn_first;

/* Where `listen_fd` listens; public_url (may be NULL) goes before it. */
int csn_first_look(int listen_fd, const char *public_url, csn_first *ret, csn_error *err);

/* The configured key (may be NULL) works when this returns, and one that was configured before does not. Without one the
 * first start makes a key. Refuses to go on where others could connect and no key is known. */
int csn_first_keys(csn_store *store, const char *configured, csn_first *first, csn_error *err);

/* The URL and what to paste. `walls_missing`: "landlock, keeper", or NULL. */
int csn_first_print(const csn_first *first, bool is_key_configured, const char *data_dir,
                    const char *walls_missing);

#endif
