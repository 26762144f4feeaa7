#include "boxes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"

enum { RECORD_MAX = 4 << 20 };

typedef bool match_fn(const csn_json *record, const char *name);

static bool has_image(const csn_json *record, const char *name)
{
    return csn_streq(csn_json_get_str(record, "image", ""), name);
}

static bool has_layer(const csn_json *record, const char *name)
{
    const csn_json *layers = csn_json_get(record, "layers");

    for (size_t i = 0; i < csn_json_count(layers); i++)
        if (csn_streq(csn_json_str(csn_json_at(layers, i), ""), name))
            return true;
    return false;
}

static bool has_volume(const csn_json *record, const char *name)
{
    const csn_json *mounts = csn_json_get(record, "mounts");

    for (size_t i = 0; i < csn_json_count(mounts); i++)
        if (csn_streq(csn_json_get_str(csn_json_at(mounts, i), "volume", ""), name))
            return true;
    return false;
}

static int match_box(int boxes_fd, const char *id, match_fn *match, const char *name, uint32_t *n,
                     csn_error *err)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(json) csn_json *record = NULL;
    char path[64];
    int r;

    (void) snprintf(path, sizeof(path), "%.33s/record", id); /* fits */
    r = csn_read_file(boxes_fd, path, &text, RECORD_MAX);
    if (r == -ENOENT ||
        r == -ENOTDIR) /* being made (its maker holds the layers) or being removed */
        return CSN_OK;
    if (r == 0)
        r = csn_json_parse(text.data, text.len, &record, NULL);
    if (r < 0)
        return csn_fail_sys(err, r, "read the record of sandbox '%s'", id);
    if (match(record, name))
        ++*n;
    return CSN_OK;
}

static int match_place(int state_fd, const char *place, match_fn *match, const char *name,
                       uint32_t *n, csn_error *err)
{
    struct dirent *entry;
    int fd, r = CSN_OK;
    DIR *dir;

    fd = openat(state_fd, place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return csn_fail_sys(err, -errno, "list the sandboxes");
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !dir) {
        csn_close(&fd);
        return csn_fail(err, CSN_E_NO_MEMORY, "list the sandboxes");
    }
    while (dir && r == CSN_OK && (entry = readdir(dir)))
        if (csn_is_hex(entry->d_name, 32))
            r = match_box(fd, entry->d_name, match, name, n, err);
    if (dir)
        (void) closedir(dir); /* only read from */
    return r;
}

static int match_boxes(int state_fd, match_fn *match, const char *name, uint32_t *ret_n,
                       csn_error *err)
{
    uint32_t n = 0;
    int r = match_place(state_fd, "boxes", match, name, &n, err);

    if (r == CSN_OK) /* ephemeral ones */
        r = match_place(state_fd, "run/boxes", match, name, &n, err);
    if (r == CSN_OK)
        *ret_n = n;
    return r;
}

int csn_boxes_with_image(int state_fd, const char *image, uint32_t *ret_n, csn_error *err)
{
    return match_boxes(state_fd, has_image, image, ret_n, err);
}

int csn_boxes_with_volume(int state_fd, const char *volume, uint32_t *ret_n, csn_error *err)
{
    return match_boxes(state_fd, has_volume, volume, ret_n, err);
}

int csn_boxes_with_layer(int state_fd, const char *layer, uint32_t *ret_n, csn_error *err)
{
    return match_boxes(state_fd, has_layer, layer, ret_n, err);
}
