/* SPDX-License-Identifier: Apache-2.0 */
/* What git prints, read as hostile bytes (it runs inside), and told as the toolbox tells it (WIRE 9.6). */
#ifndef CSN_SERVER_GIT_STATUS_H
#define CSN_SERVER_GIT_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

typedef struct csn_git_head {
    csn_str branch, upstream; /* borrowed from the output; upstream is empty when unset */
    bool is_detached;
    bool is_published; /* the upstream exists */
    int64_t ahead, behind;
} csn_git_head;

typedef struct csn_git_file {
    csn_str name, extra;    /* extra: the old name of what was renamed or copied */
    char staging, worktree; /* git's letters: . ? ! M T A D R C U */
} csn_git_file;
typedef void csn_git_file_fn(const csn_git_file *file, void *user);

/* The output of `git status --porcelain=v2 --branch -z`. 0 or -EBADMSG; fn may have been called before that. */
int csn_git_status_read(csn_str output, csn_git_head *ret_head, csn_git_file_fn *fn, void *user);
const char *csn_git_word(char letter); /* "Modified" … */

/* Each appends one JSON value; 0, -EBADMSG or the buffer's error. */
int csn_git_status_json(csn_str output, csn_buf *json);
/* Of `git log -z` with CSN_GIT_LOG_FORMAT. */
int csn_git_history_json(csn_str output, csn_buf *json);
#define CSN_GIT_LOG_FORMAT "--format=%H%x00%an%x00%ae%x00%aI%x00%B"
/* Of `git for-each-ref refs/heads` with CSN_GIT_BRANCH_FORMAT: one line each, "*name" or " name". */
int csn_git_branches_json(csn_str output, csn_buf *json);
#define CSN_GIT_BRANCH_FORMAT "--format=%(HEAD)%(refname:lstrip=2)"
/* Of `git config -z --get-regexp '^remote\..*\.url$'`: "remote.<name>.url\n<url>", NUL behind each. */
int csn_git_remotes_json(csn_str output, csn_buf *json);

#endif
