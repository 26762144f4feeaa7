/* SPDX-License-Identifier: Apache-2.0 */
/* Charts in a program's output: lines of a marker and JSON, written by charts.py. The program shares its stdout with it, so
 * the bytes are hostile, and a forged chart is one more chart of the same user. */
#ifndef CSN_SERVER_ARTIFACTS_H
#define CSN_SERVER_ARTIFACTS_H

#include "base/buf.h"

#define CSN_ARTIFACT_MARKER "dtn_artifact_k39fd2:"

/* Appends the output without its charts to `rest`, and the charts as members of a JSON array, comma-separated, to `charts`.
 * Lines that can't be read stay where they are. Errors stick in the buffers. */
void csn_artifacts_split(const char *output, size_t len, csn_buf *rest, csn_buf *charts);

#endif
