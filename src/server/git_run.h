/* SPDX-License-Identifier: Apache-2.0 */
/* git for a request: commands run inside the sandbox, one after another, and the last one's end is the answer.
 *
 * Every git runs the same way (R38): other protocols than http, https and ssh off, hooks and fsmonitor off, nobody to
 * ask for a password, English. A user's name and password travel in the environment and reach git through a helper that
 * answers only for the host they are meant for; no address, configuration or command line ever holds them. */
#ifndef CSN_SERVER_GIT_RUN_H
#define CSN_SERVER_GIT_RUN_H

#include "base/buf.h"
#include "base/str.h"
#include "server/req.h"

typedef struct csn_git csn_git;
/* A command has ended with 0 … 255. Answers, or adds arguments and runs the next one. */
typedef void csn_git_fn(csn_git *git, csn_req *req, int status);

/* Keeps the request. path: of the repository; NULL: none. NULL: an error was answered. */
csn_git *csn_git_new(csn_req *req, const char *path);

/* Of the next command. */
void csn_git_arg(csn_git *git, const char *arg);
void csn_git_args(csn_git *git, const char *const *args); /* NULL at the end */
void csn_git_path_arg(csn_git *git,
                      const char *path); /* relative ones start at the work directory */
void csn_git_input(csn_git *git, const void *data, size_t len); /* stdin; copied */
void csn_git_env(csn_git *git, const char *key, const char *value);
/* host: "name:port", or NULL for any. */
void csn_git_credentials(csn_git *git, const char *user, const char *password, const char *host);
void csn_git_config(csn_git *git, const char *setting); /* -c; of all commands from here on */

/* Runs it. Arguments, input and environment are forgotten after; credentials and settings stay. */
void csn_git_run(csn_git *git, csn_git_fn *fn);

csn_str csn_git_out(const csn_git *git);
csn_str csn_git_err(const csn_git *git);

/* Answers; the git is gone after each. */
void csn_git_answer_empty(csn_git *git, int status);
void csn_git_answer_json(csn_git *git, int status, csn_buf *json);
void csn_git_answer_bad(csn_git *git, int status, const char *code, const char *message);
void csn_git_answer_failure(csn_git *git); /* what git itself said */

/* For csn_git_run(): success is an empty answer, anything else the failure. */
csn_git_fn csn_git_then_200, csn_git_then_201, csn_git_then_204;

#endif
