/* SPDX-License-Identifier: Apache-2.0 */
/* What a service tells of files, read: its own answers (JSON), and what a look inside printed (records). Every byte is a
 * stranger's. No I/O here. */
#ifndef CSN_DAYTONA_ANSWER_FILES_H
#define CSN_DAYTONA_ANSWER_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include <caisson/files.h>

#include "base/json.h"

/* A FileInfo. Strings point into the value; `path` is the bare name. */
int csn_file_answer_read(const csn_json *value, csn_file_info *ret, csn_error *err);
/* One of "files/find": {"file": …, "line": …, "content": …} */
int csn_match_answer_read(const csn_json *value, csn_file_match *ret, csn_error *err);
/* An array, or `key`'s array in an object (NULL: the whole text is it). */
int csn_array_answer_parse(const char *data, size_t len, const char *key, csn_json **ret_doc,
                           const csn_json **ret_items, csn_error *err);
/* Of "files/replace" for one file: [{"success": …, "error": …}]. *ret_why: "" on success; points into *ret_doc. */
int csn_replace_answer_parse(const char *data, size_t len, csn_json **ret_doc, bool *ret_is_done,
                             const char **ret_why, csn_error *err);

/* The text of a look (script.h) is records of three pieces, each with its NUL: numbers and names, the path below the place
 * that was looked at, and where a symlink leads. */
typedef struct csn_file_records {
    const char *data; /* borrowed */
    size_t len, at;
    char fields[256]; /* owner and group of the one read last */
} csn_file_records;

/* 1: *ret is the next one, valid until the next call; 0: that was all; or CSN_E_PROTOCOL. */
int csn_file_records_next(csn_file_records *records, csn_file_info *ret, csn_error *err);

#endif
