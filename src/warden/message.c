/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include <errno.h>
#include <string.h>

#include <caisson/error.h>
#include <caisson/sandbox.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/str.h"

/* Which fields a verb uses; all others are zero. */
enum {
    USES_ID = 1 << 0,
    USES_HEX = 1 << 1, /* the id may also be the engine's own */
    USES_OTHER_ID = 1 << 2,
    USES_OTHER_NAME = 1 << 3,
    USES_GRACE = 1 << 4,
    USES_LIMITS = 1 << 5,
    USES_SHAPE = 1 << 6 /* image, user, flags, mounts */
};

static const unsigned uses[CSN_ASK_VERBS] = {
    [CSN_ASK_CREATE] = USES_ID | USES_LIMITS | USES_SHAPE,
    [CSN_ASK_START] = USES_ID,
    [CSN_ASK_STOP] = USES_ID | USES_HEX | USES_GRACE,
    [CSN_ASK_DELETE] = USES_ID | USES_HEX,
    [CSN_ASK_FORK] = USES_ID | USES_OTHER_ID,
    [CSN_ASK_SNAPSHOT] = USES_ID | USES_OTHER_NAME,
    [CSN_ASK_LEND] = USES_ID,
    [CSN_ASK_LIST] = 0,
    [CSN_ASK_VOLUME_CREATE] = USES_OTHER_NAME,
    [CSN_ASK_VOLUME_DELETE] = USES_OTHER_NAME,
    [CSN_ASK_IMAGES] = 0,
    [CSN_ASK_IMAGE_DELETE] = USES_OTHER_NAME,
    [CSN_ASK_RESIZE] = USES_ID | USES_LIMITS,
    [CSN_ASK_READY] = 0,
    [CSN_ASK_VOLUME_SIZE] = USES_OTHER_NAME,
};

size_t csn_ask_size(const csn_ask *ask)
{
    return offsetof(csn_ask, mounts) + ask->n_mounts * sizeof(ask->mounts[0]);
}

static bool is_text(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static bool is_zero(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i])
            return false;
    return true;
}

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char) *text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

/* No "..", so that the rest of the world need not wonder what it would mean. */
static bool is_path(const char *path, bool is_absolute)
{
    csn_str rest = csn_str_of(path), part;

    if ((path[0] == '/') != is_absolute || !is_plain(path))
        return false;
    while (csn_str_split(&rest, '/', &part))
        if (csn_str_is(part, ".."))
            return false;
    return true;
}

static bool is_mount(const csn_ask_mount *m)
{
    return (m->flags & ~(uint32_t) CSN_ASK_READ_ONLY) == 0 &&
           is_text(m->volume, sizeof(m->volume)) && is_text(m->path, sizeof(m->path)) &&
           is_text(m->subpath, sizeof(m->subpath)) && csn_is_name(m->volume) &&
           is_path(m->path, true) && (!m->subpath[0] || is_path(m->subpath, false));
}

/* More than any machine has, and little enough to be multiplied. */
static bool is_limits(const csn_ask *ask, unsigned used)
{
    const struct {
        int64_t value, max;
    } limits[] = { { ask->memory_bytes, INT64_C(1) << 50 },
                   { ask->cpu_milli, INT64_C(1) << 24 },
                   { ask->disk_bytes, INT64_C(1) << 50 },
                   { ask->pids, INT64_C(1) << 22 } };

    for (size_t i = 0; i < CSN_COUNT(limits); i++)
        if (limits[i].value < 0 || limits[i].value > ((used & USES_LIMITS) ? limits[i].max : 0))
            return false;
    return true;
}

static bool is_shape(const csn_ask *ask)
{
    for (uint32_t i = 0; i < ask->n_mounts; i++)
        if (!is_mount(&ask->mounts[i]))
            return false;
    return (ask->flags & ~(uint32_t) CSN_ASK_FLAGS) == 0 &&
           is_text(ask->image, sizeof(ask->image)) && is_text(ask->user, sizeof(ask->user)) &&
           csn_is_name(ask->image) && (!ask->user[0] || csn_is_name(ask->user));
}

static bool has_no_shape(const csn_ask *ask)
{
    return ask->flags == 0 && ask->n_mounts == 0 && is_zero(ask->image, sizeof(ask->image)) &&
           is_zero(ask->user, sizeof(ask->user));
}

static bool is_id(const csn_ask *ask, unsigned used)
{
    if (!(used & USES_ID))
        return is_zero(ask->id, sizeof(ask->id));
    return is_text(ask->id, sizeof(ask->id)) &&
           (csn_is_uuid(ask->id) ||
            ((used & USES_HEX) && strlen(ask->id) == 32 && csn_is_hex(ask->id, 32)));
}

static bool is_other(const csn_ask *ask, unsigned used)
{
    if (!(used & (USES_OTHER_ID | USES_OTHER_NAME)))
        return is_zero(ask->other, sizeof(ask->other));
    if (!is_text(ask->other, sizeof(ask->other)))
        return false;
    return (used & USES_OTHER_ID) ? csn_is_uuid(ask->other) : csn_is_name(ask->other);
}

int csn_ask_check(const csn_ask *ask, size_t len)
{
    if (len < offsetof(csn_ask, mounts) || ask->magic != CSN_ASK_MAGIC || ask->verb == 0 ||
        ask->verb >= CSN_ASK_VERBS || ask->serial == 0 || ask->n_mounts > CSN_ASK_MOUNTS ||
        len != csn_ask_size(ask))
        return -EBADMSG;
    unsigned used = uses[ask->verb];
    bool is_sound = is_id(ask, used) && is_other(ask, used) && is_limits(ask, used) &&
                    ((used & USES_SHAPE) ? is_shape(ask) : has_no_shape(ask)) &&
                    ((used & USES_GRACE) ? ask->grace_ms >= -1 : ask->grace_ms == 0);
    return is_sound ? 0 : -EBADMSG;
}

int csn_answer_check(const csn_answer *answer, size_t len)
{
    if (len != sizeof(*answer) || answer->magic != CSN_ASK_MAGIC || answer->kind == 0 ||
        answer->kind >= CSN_ANSWER_KINDS || answer->result > CSN_OK ||
        answer->state < CSN_STATE_CREATING || answer->state > CSN_STATE_DELETED ||
        !is_text(answer->name, sizeof(answer->name)) ||
        !is_text(answer->message, sizeof(answer->message)))
        return -EBADMSG;
    return 0;
}
