/* SPDX-License-Identifier: Apache-2.0 */
/* Between git's words and the toolbox's: addresses going in, failures coming out. */
#ifndef CSN_SERVER_GIT_MAP_H
#define CSN_SERVER_GIT_MAP_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

typedef struct csn_git_fault {
    int status;       /* of HTTP */
    const char *code; /* GIT_AUTH_FAILED … */
} csn_git_fault;

/* What a failed git meant (it runs with LC_ALL=C), and its own words, tidied, in `message`. Never NULL. */
const csn_git_fault *csn_git_failure(csn_str err, csn_str out, csn_buf *message);

/* An address to clone from, as R38 wants it. */
typedef struct csn_git_url {
    csn_buf url; /* without user and password; "https://" in front when it had no scheme */
    csn_buf user, password; /* what it carried, percent-decoded; empty: nothing */
} csn_git_url;
#define CSN_GIT_URL_INIT \
    { \
        CSN_BUF_INIT, CSN_BUF_INIT, CSN_BUF_INIT \
    }
/* 0, -EINVAL (not an address), -EPROTONOSUPPORT (neither http, https nor ssh), -ENOMEM. */
int csn_git_url_read(const char *text, csn_git_url *ret);
void csn_git_url_auto(csn_git_url *url);
bool csn_git_url_has_password(const char *text); /* in an address of any kind */

/* A name of a branch, a remote or a commit that no git could take for an option. */
bool csn_git_is_name(const char *text);

#endif
