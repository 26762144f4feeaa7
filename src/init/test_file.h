/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_INIT_TEST_FILE_H
#define CSN_INIT_TEST_FILE_H

/* Files of a box: made and read from outside, asked for from inside. */

#include "init/test_box.h"

box a_box(void); /* and its directory becomes ours */
/* The path of `name` in the box's directory. A few live at a time. */
const char *at(const box *b, const char *name);

/* Made as the box's user's own. */
void put(const char *name, const void *data, size_t len);
void put_text(const char *name, const char *text);
void put_dir(const char *name);

const char *get_text(const char *name); /* lives until the next */
int mode_of(const char *name);

/* A request's final word. */
#define DO(b, ...) box_do((b), &(csn_filereq){ __VA_ARGS__ })

/* A request's entries or hits, the first 64 of them, and its final word; lives until the next. */
typedef struct results {
    int n, is_cut, error;
    int64_t value;
    csn_file_entry entry[64];
    char path[64][512], target[64][64], owner[64][64], group[64][64];
    int64_t line[64];
    char text[64][4200];
    size_t text_len[64];
} results;

const results *collect(box *b, const csn_filereq *req);
#define COLLECT(b, ...) collect((b), &(csn_filereq){ __VA_ARGS__ })
int index_of(const results *r, const char *path); /* fails the test when it isn't there */

#endif
