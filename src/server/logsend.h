/* SPDX-License-Identifier: Apache-2.0 */
/* A command's log as the answer to a request, in the client's style (WIRE 9.3): at once when it is short, else streamed piece
 * by piece, so that a long one costs no memory. What is appended after the start is not part of it. */
#ifndef CSN_SERVER_LOGSEND_H
#define CSN_SERVER_LOGSEND_H

#include "server/session.h"
#include "server/toolbox.h"

typedef enum csn_logsend_kind {
    CSN_LOGSEND_LOGS, /* the log alone: JSON {output,stdout,stderr}, or text */
    CSN_LOGSEND_EXEC  /* {cmdId,exitCode,output[,stdout,stderr]} */
} csn_logsend_kind;

/* Answers req. It is the log's no longer after. */
void csn_logsend(csn_req *req, csn_session_command *command, csn_logsend_kind kind,
                 csn_log_style style);

#endif
