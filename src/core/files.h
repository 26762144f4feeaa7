/* File verbs, for the files of core/. */
#ifndef CSN_CORE_FILES_H
#define CSN_CORE_FILES_H

#include <caisson/files.h>

#include "core/sandbox.h"

/* A verb that yields a descriptor. */
csn_op *csn_files_open(csn_sandbox *sandbox, const csn_file_call *call, csn_fd_done_fn done,
                       void *user, csn_error *err);
/* Its blocking form: *ret_fd is the caller's. */
int csn_files_open_wait(csn_op *op, int *ret_fd, csn_error *err);
/* CSN_OK, or what is wrong with the path. */
int csn_files_check_path(const char *path, csn_error *err);

#endif
