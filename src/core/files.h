/* File verbs, for the files of core/. */
#ifndef CSN_CORE_FILES_H
#define CSN_CORE_FILES_H

#include <caisson/files.h>

#include "core/sandbox.h"

int csn_files_call(csn_sandbox *sandbox, const csn_file_call *call, csn_call_done_fn *done,
                   void *user, csn_error *err);
/* Waits; the descriptor in ret->fd is the caller's. */
int csn_files_call_wait(csn_sandbox *sandbox, const csn_file_call *call, csn_waiter *ret,
                        csn_error *err);

#endif
