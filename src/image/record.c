#include "record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"

enum { RECORD_MAX = 1 << 20 };

static void free_list(char **list)
{
    for (char **e = list; e && *e; e++)
        free(*e);
    free(list);
}

void csn_image_ref_done(csn_image_ref *ref)
{
    free_list(ref->env);
    free_list(ref->entrypoint);
    free_list(ref->cmd);
    free(ref->cwd);
    free(ref->user);
    memset(ref, 0, sizeof(*ref));
}

void csn_image_ref_auto(csn_image_ref *ref)
{
    int saved = errno;

    csn_image_ref_done(ref);
    errno = saved;
}

void csn_image_record_auto(csn_image_record *rec)
{
    csn_image_ref_auto(&rec->ref);
}

bool csn_layer_is_host(const char *id)
{
    return csn_starts_with(id, "host-") && csn_is_hex(id + 5, 16);
}

bool csn_layer_is_id(const char *id)
{
    return csn_is_hex(id, 32) || csn_is_hex(id, 64) || csn_layer_is_host(id);
}

int csn_image_record_write(const char *name, const csn_image_record *rec, csn_buf *out)
{
    const csn_image_ref *ref = &rec->ref;
    csn_jw w = CSN_JW_INIT(out, true);

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "name", name);
    csn_jw_kstr(&w, "source", rec->source);
    csn_jw_kbool(&w, "host_based", ref->is_host_based);
    csn_jw_key(&w, "layers");
    csn_jw_begin_array(&w);
    for (uint32_t i = 0; i < ref->n_layers; i++)
        if (!csn_layer_is_host(ref->layers[i]))
            csn_jw_str(&w, ref->layers[i]);
    csn_jw_end_array(&w);
    csn_jw_kstrs(&w, "env", ref->env);
    csn_jw_kstr(&w, "cwd", ref->cwd ? ref->cwd : "");
    csn_jw_kstrs(&w, "entrypoint", ref->entrypoint);
    csn_jw_kstrs(&w, "cmd", ref->cmd);
    csn_jw_kstr(&w, "user", ref->user ? ref->user : "");
    csn_jw_kint(&w, "size_bytes", rec->size_bytes);
    csn_jw_kint(&w, "created_ms", rec->created_ms);
    csn_jw_end_object(&w);
    return csn_buf_putc(out, '\n');
}

static int read_layers(const csn_json *array, csn_image_ref *ref)
{
    size_t n = csn_json_count(array);

    /* One place is left for the host's base layer. */
    if (csn_json_type_of(array) != CSN_JSON_ARRAY || n >= CSN_IMAGE_LAYERS_MAX)
        return -EBADMSG;
    for (size_t i = 0; i < n; i++) {
        const char *id = csn_json_str(csn_json_at(array, i), "");

        if (!csn_layer_is_id(id) || csn_layer_is_host(id))
            return -EBADMSG;
        memcpy(ref->layers[i], id, strlen(id) + 1);
    }
    ref->n_layers = (uint32_t) n;
    return 0;
}

static int read_list(const csn_json *array, size_t max, char ***ret)
{
    size_t n = csn_json_count(array);
    char **list;

    if (n > max)
        return -EBADMSG;
    *ret = list = csn_calloc(n + 1, sizeof(*list)); /* the image's from here on */
    if (!list)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const csn_json *item = csn_json_at(array, i);

        if (csn_json_type_of(item) != CSN_JSON_STRING)
            return -EBADMSG;
        list[i] = csn_strdup(csn_json_str(item, ""));
        if (!list[i])
            return -ENOMEM;
    }
    return 0;
}

int csn_image_config_parse(const csn_json *doc, csn_image_ref *ref)
{
    const char *cwd = csn_json_get_str(doc, "cwd", "");
    int r;

    if (cwd[0] != '\0' && cwd[0] != '/')
        return -EBADMSG;
    ref->cwd = csn_strdup(cwd);
    ref->user = csn_strdup(csn_json_get_str(doc, "user", ""));
    if (!ref->cwd || !ref->user)
        return -ENOMEM;
    r = read_list(csn_json_get(doc, "env"), CSN_IMAGE_ENV_MAX, &ref->env);
    for (char **e = ref->env; r == 0 && *e; e++)
        if (!strchr(*e, '=') || (*e)[0] == '=')
            r = -EBADMSG;
    if (r == 0)
        r = read_list(csn_json_get(doc, "entrypoint"), CSN_IMAGE_WORDS_MAX, &ref->entrypoint);
    return r < 0 ? r : read_list(csn_json_get(doc, "cmd"), CSN_IMAGE_WORDS_MAX, &ref->cmd);
}

static int read_record(const csn_json *doc, csn_image_record *rec)
{
    int r;

    r = csn_str_copy(rec->source, sizeof(rec->source),
                     csn_str_of(csn_json_get_str(doc, "source", "")));
    if (r < 0 || rec->source[0] == '\0')
        return -EBADMSG;
    rec->ref.is_host_based = csn_json_get_bool(doc, "host_based", false);
    rec->size_bytes = csn_json_get_int(doc, "size_bytes", 0);
    rec->created_ms = csn_json_get_int(doc, "created_ms", 0);
    r = read_layers(csn_json_get(doc, "layers"), &rec->ref);
    if (r == 0 && rec->ref.n_layers == 0 && !rec->ref.is_host_based)
        r = -EBADMSG;
    return r < 0 ? r : csn_image_config_parse(doc, &rec->ref);
}

int csn_image_record_read(const char *data, size_t len, csn_image_record *ret)
{
    csn_auto(image_record) csn_image_record rec = CSN_IMAGE_RECORD_INIT;
    csn_auto(json) csn_json *doc = NULL;
    int r;

    r = csn_json_parse(data, len, &doc, NULL);
    if (r == 0)
        r = read_record(doc, &rec);
    if (r < 0)
        return r;
    *ret = rec;
    memset(&rec, 0, sizeof(rec)); /* given away */
    return 0;
}

int csn_image_record_load(int state_fd, const char *name, csn_image_record *ret, csn_error *err)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    char path[96];
    int r;

    if (!csn_is_name(name))
        return csn_fail(err, CSN_E_INVALID,
                        "'%.80s' is no name for an image: 1 to 64 of A-Z a-z 0-9 . _ -", name);
    (void) snprintf(path, sizeof(path), "images/%s/image.json", name); /* fits: a name has 64 */
    r = csn_read_file(state_fd, path, &text, RECORD_MAX);
    if (r == -ENOENT)
        return csn_fail(err, CSN_E_NOT_FOUND, "no image '%s'", name);
    if (r == 0)
        r = csn_image_record_read(text.data, text.len, ret);
    if (r < 0)
        return csn_fail_sys(err, r, "read the record of image '%s'", name);
    return CSN_OK;
}
