/* images/<name>/image.json: what a name stands for. */
#ifndef CSN_IMAGE_RECORD_H
#define CSN_IMAGE_RECORD_H

#include "base/buf.h"
#include "base/json.h"
#include "image.h"

typedef struct csn_image_record {
    csn_image_ref ref; /* without the host's base layer */
    char source[24];
    int64_t size_bytes;
    int64_t created_ms;
} csn_image_record;

#define CSN_IMAGE_RECORD_INIT \
    { \
        .size_bytes = 0 \
    }

void csn_image_record_auto(csn_image_record *rec);

/* Appends the record as JSON. */
int csn_image_record_write(const char *name, const csn_image_record *rec, csn_buf *out);

/* 0, -EBADMSG for text that is no record, -ENOMEM. *ret must be empty and is written on success only. */
int csn_image_record_read(const char *data, size_t len, csn_image_record *ret);

/* What of an image its makers said of running it: env, cwd, entrypoint, cmd, user. The same members in a record and in
 * caisson-unpack's answer. 0, -EBADMSG, -ENOMEM; what was read so far is the ref's in any case. */
int csn_image_config_parse(const csn_json *doc, csn_image_ref *ref);

/* Reads images/<name>/image.json. CSN_E_NOT_FOUND, CSN_E_INVALID (the name), CSN_E_SYSTEM. */
int csn_image_record_load(int state_fd, const char *name, csn_image_record *ret, csn_error *err);

/* A layer id we may make a path of: hex digits, or "host-" and a stamp. */
bool csn_layer_is_id(const char *id);
bool csn_layer_is_host(const char *id);

#endif
