/* SPDX-License-Identifier: Apache-2.0 */
/* Files as the toolbox speaks of them (WIRE 9.5): paths coming in, FileInfo and failures going out. */
#ifndef CSN_SERVER_FILE_INFO_H
#define CSN_SERVER_FILE_INFO_H

#include <caisson/files.h>

#include "base/buf.h"
#include "base/json.h"
#include "server/req.h"

/* Appends `path` as the sandbox's own: a relative one starts at its work directory. Returns how many bytes of what the
 * sandbox then tells go in front of what was asked (0: an absolute path). */
size_t csn_box_path(const csn_req *req, const char *path, csn_buf *out);

/* One object. name: NULL is the last component of `path`. */
void csn_file_info_put(csn_jw *w, const csn_file_info *info, const char *name, const char *path);
/* "-rw-r--r--" in Go's manner, whose letters the SDKs' users know: "dtrwxrwxrwx" for /tmp. */
enum { CSN_MODE_TEXT = 16 };
void csn_file_mode_text(const csn_file_info *info, char out[CSN_MODE_TEXT]);

/* "755", "0644": 0 … 07777, or -EINVAL. */
int csn_parse_mode(const char *text);

typedef struct csn_file_fault {
    int status;
    const char *code;
} csn_file_fault;
csn_file_fault csn_file_fault_of(const csn_error *err);
void csn_file_fail(csn_req *req, const csn_error *err); /* answers */
/* The members of a toolbox error, into an open object. */
void csn_file_fault_put(csn_jw *w, const csn_req *req, csn_file_fault fault, const char *message);

#endif
