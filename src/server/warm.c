/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes of the default shape made ahead, so that the usual create only writes a row. Each is handed out once and no
 * code ran in it before; environment and labels are the server's business, so they don't matter here. One that is not
 * handed out has no row: a restart deletes it. How many: as many as --warm says, more while more are asked for at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"
#include "base/time.h"
#include "server/bury.h"
#include "server/cell.h"
#include "server/disk.h"

enum { BURST_MAX = 16, COOL_MS = 60000 };

typedef struct warming {
    csn_boxes *boxes;
    csn_warm *warm;
} warming;

static bool is_default_shape(const csn_boxes *b, const csn_sandbox_row *row)
{
    csn_size size = csn_machine_default(b->server);

    return csn_streq(row->image, CSN_HOST_IMAGE) && csn_streq(row->user, "daytona") &&
           csn_streq(row->mounts, "[]") && row->cpu_milli == size.cpu_milli &&
           row->memory_bytes == size.memory_bytes && row->disk_bytes == size.disk_bytes &&
           !(b->server->config.has_network && row->is_blocked);
}

static bool is_running(const csn_warm *warm)
{
    csn_sandbox_info info;

    return csn_sandbox_inspect(warm->line->sandbox, &info, NULL) == CSN_OK &&
           info.state == CSN_STATE_STARTED;
}

static void throw_away(csn_boxes *b, csn_warm *warm)
{
    (void) csn_boxes_release(warm->line);
    csn_bury(b->server, CSN_BURY_SANDBOX, warm->id);
    free(warm);
}

/* Nobody asked for a while: back to what was configured. */
static void cool(csn_timer *timer, void *user)
{
    csn_boxes *b = user;

    (void) timer;
    b->n_warm_wanted = b->server->config.n_warm;
    for (csn_list *node; b->n_warm > b->n_warm_wanted && (node = csn_list_pop(&b->warm));
         b->n_warm--)
        throw_away(b, csn_list_entry(node, csn_warm, link));
}

/* None was left: the next time there shall be more. Called once for each that had to wait, so a burst of sixteen is met
 * by sixteen the second time. */
static void heat(csn_boxes *b)
{
    if (b->n_warm_wanted > 0 && b->n_warm_wanted < BURST_MAX)
        b->n_warm_wanted++;
}

static void await_cooling(csn_boxes *b)
{
    if (b->n_warm_wanted > b->server->config.n_warm &&
        csn_timer_set(b->server->loop, &b->cool_timer, csn_deadline_in_ms(COOL_MS), cool, b) < 0)
        cool(&b->cool_timer, b);
}

bool csn_warm_take(csn_boxes *b, csn_sandbox_row *row, csn_box_hold **ret_line)
{
    csn_list *node;

    if (!is_default_shape(b, row))
        return false;
    while ((node = csn_list_pop(&b->warm)) != NULL) {
        csn_warm *warm = csn_list_entry(node, csn_warm, link);
        b->n_warm--;
        if (!is_running(warm)) {
            throw_away(b, warm);
            continue;
        }
        memcpy(row->id, warm->id, sizeof(row->id));
        *ret_line = warm->line;
        free(warm);
        break;
    }
    if (!*ret_line)
        heat(b);
    await_cooling(b);
    csn_lull_await(b);
    return *ret_line != NULL;
}

static void fill_again(csn_timer *timer, void *user)
{
    (void) timer;
    csn_warm_fill(user);
}

/* After a failure, not at once: what failed will fail again. */
static void fill_later(csn_boxes *b, int delay_ms)
{
    if (csn_timer_set(b->server->loop, &b->warm_timer, csn_deadline_in_ms(delay_ms), fill_again,
                      b) < 0)
        csn_log(CSN_LOG_WARN, "no timer for spare sandboxes", NULL);
}

static void give_up(warming *w, const csn_error *err)
{
    throw_away(w->boxes, w->warm);
    if (!w->boxes->server->is_stopping) {
        csn_log(CSN_LOG_WARN, "no spare sandbox", "error", err ? err->message : "", NULL);
        fill_later(w->boxes, 5000);
    }
    free(w);
}

static void on_lent(int fd, int result, const csn_error *err, void *user)
{
    warming *w = user;
    csn_boxes *b = w->boxes;
    csn_error own = { 0 };

    b->n_warming--;
    if (result == CSN_OK)
        w->warm->line = csn_line_new(b, w->warm->id, "daytona", fd, &own);
    if (!w->warm->line || b->server->is_stopping) {
        give_up(w, result == CSN_OK ? &own : err);
        return;
    }
    csn_list_append(&b->warm, &w->warm->link);
    b->n_warm++;
    free(w);
    csn_warm_fill(b);
}

static void on_made(int result, const csn_error *err, void *user)
{
    warming *w = user;

    if (result == CSN_OK && csn_warden_lend(w->boxes->server->warden, w->warm->id, on_lent, w) >= 0)
        return;
    w->boxes->n_warming--;
    give_up(w, err);
}

static int make_one(csn_boxes *b)
{
    csn_size size = csn_machine_default(b->server);
    csn_box_spec spec = { .image = CSN_HOST_IMAGE,
                          .user = "daytona",
                          .has_network = b->server->config.has_network,
                          .memory_bytes = size.memory_bytes,
                          .cpu_milli = size.cpu_milli,
                          .disk_bytes = size.disk_bytes };
    warming *w = calloc(1, sizeof(*w));
    csn_warm *warm = calloc(1, sizeof(*warm));

    if (!w || !warm || csn_id_uuid(spec.id) < 0) {
        free(w);
        free(warm);
        return -1;
    }
    csn_list_init(&warm->link);
    memcpy(warm->id, spec.id, sizeof(warm->id));
    w->boxes = b;
    w->warm = warm;
    b->n_warming++;
    if (csn_warden_create(b->server->warden, &spec, on_made, w) >= 0)
        return 0;
    b->n_warming--;
    free(w);
    free(warm);
    return -1;
}

/* Two at a time: those who wait for their own come first. */
void csn_warm_fill(csn_boxes *b)
{
    if (!b->is_ready || b->server->is_stopping)
        return;
    if (b->n_warm + b->n_warming < b->n_warm_wanted && csn_disk_is_low(b->server)) {
        fill_later(b, 5000);
        return;
    }
    while (b->n_warm + b->n_warming < b->n_warm_wanted && b->n_warming < 2)
        if (make_one(b) < 0) {
            fill_later(b, 5000);
            return;
        }
}

void csn_boxes_stop(csn_boxes *b)
{
    csn_list *node;

    csn_timer_cancel(&b->warm_timer);
    csn_timer_cancel(&b->cool_timer);
    csn_lull_work(b);
    while ((node = csn_list_pop(&b->warm)) != NULL)
        throw_away(b, csn_list_entry(node, csn_warm, link));
    b->n_warm = 0;
}

bool csn_boxes_is_making(const csn_boxes *b)
{
    return b->n_warming > 0;
}

void csn_warm_done(csn_boxes *b)
{
    csn_list *node;

    while ((node = csn_list_pop(&b->warm)) != NULL) {
        csn_warm *warm = csn_list_entry(node, csn_warm, link);
        (void) csn_boxes_release(warm->line);
        free(warm);
    }
}
