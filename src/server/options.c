/* SPDX-License-Identifier: Apache-2.0 */
#include "server/options.h"

#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/str.h"

/* What is -1 follows the machine. */
static const csn_config defaults = {
    .default_snapshot = "host",
    .region = "local",
    .max_sandboxes = 1000,
    .overcommit = -1,
    .max_memory_bytes = -1,
    .max_disk_bytes = -1,
    .max_snapshots = 1000,
    .max_snapshot_bytes = -1,
    .max_volumes = 1000,
    .max_volume_bytes = -1,
    .disk_reserve_bytes = -1,
    .max_connections = 16384,
    .preview_life_ms = INT64_C(24) * 3600 * 1000,
};

static int bad(csn_error *err, const char *arg)
{
    return csn_fail(err, CSN_E_INVALID,
                    "caisson-serve is started by 'caisson serve', not by hand: '%.64s'", arg);
}

/* "--name=" of arg: the value, else NULL. */
static const char *value_of(const char *arg, const char *name)
{
    size_t len = strlen(name);

    return csn_starts_with(arg, name) && arg[len] == '=' ? arg + len + 1 : NULL;
}

static bool take_text(csn_config *c, const char *arg)
{
    const struct {
        const char *name;
        const char **at;
    } texts[] = {
        { "--data", &c->data_dir },         { "--listen", &c->listen },
        { "--public-url", &c->public_url }, { "--snapshot", &c->default_snapshot },
        { "--region", &c->region },         { "--walls-missing", &c->walls_missing },
    };

    for (size_t i = 0; i < CSN_COUNT(texts); i++) {
        const char *value = value_of(arg, texts[i].name);
        if (value)
            *texts[i].at = value;
        if (value)
            return true;
    }
    return false;
}

static int take_number(csn_config *c, const char *arg)
{
    const struct {
        const char *name;
        int64_t *at;
        uint32_t *at32;
        int64_t max;
    } numbers[] = {
        { "--warm", NULL, &c->n_warm, 256 },
        { "--max-sandboxes", &c->max_sandboxes, NULL, 1000000 },
        { "--max-requests", &c->max_requests_per_s, NULL, 1000000 },
        { "--max-cpu", &c->max_cpu_milli, NULL, INT64_C(1) << 40 },
        { "--max-memory", &c->max_memory_bytes, NULL, INT64_MAX },
        { "--max-disk", &c->max_disk_bytes, NULL, INT64_MAX },
        { "--max-snapshots", &c->max_snapshots, NULL, 1000000 },
        { "--max-snapshot-disk", &c->max_snapshot_bytes, NULL, INT64_MAX },
        { "--max-volumes", &c->max_volumes, NULL, 1000000 },
        { "--max-volume-disk", &c->max_volume_bytes, NULL, INT64_MAX },
        { "--preview-token-life", &c->preview_life_ms, NULL, INT64_C(1) << 40 },
        { "--overcommit", &c->overcommit, NULL, 1000000 },
        { "--disk-reserve", &c->disk_reserve_bytes, NULL, INT64_MAX },
        { "--max-connections", NULL, &c->max_connections, 1000000 },
        { "--max-connections-per-address", NULL, &c->max_connections_per_address, 1000000 },
    };

    for (size_t i = 0; i < CSN_COUNT(numbers); i++) {
        const char *text = value_of(arg, numbers[i].name);
        int64_t value = 0;
        if (!text)
            continue;
        if (csn_parse_i64(csn_str_of(text), &value) < 0 || value < 0 || value > numbers[i].max)
            return -1;
        if (numbers[i].at)
            *numbers[i].at = value;
        else
            *numbers[i].at32 = (uint32_t) value;
        return 1;
    }
    return 0;
}

static int take(csn_serve_options *o, const char *arg, csn_error *err)
{
    const char *network = value_of(arg, "--network");

    if (csn_streq(arg, "--trust-proxy"))
        o->config.is_proxy_trusted = true;
    else if (csn_streq(arg, "--preview-token-is-key"))
        o->config.is_preview_token_key = true;
    else if (csn_streq(arg, "--clamp"))
        o->config.is_clamping = true;
    else if (csn_streq(arg, "--debug"))
        o->is_debug = true;
    else if (csn_streq(arg, "--optional-landlock"))
        o->is_landlock_optional = true;
    else if (csn_streq(arg, "--routes"))
        o->mode = CSN_MODE_ROUTES;
    else if (network && (csn_streq(network, "none") || csn_streq(network, "outbound")))
        o->config.has_network = csn_streq(network, "outbound");
    else if (!take_text(&o->config, arg) && take_number(&o->config, arg) <= 0)
        return bad(err, arg);
    return CSN_OK;
}

int csn_serve_options_read(int argc, char **argv, csn_serve_options *ret, csn_error *err)
{
    *ret = (csn_serve_options){ .config = defaults };
    for (int i = 1; i < argc; i++) {
        if (csn_streq(argv[i], "--key") || csn_streq(argv[i], "--org")) {
            ret->mode = csn_streq(argv[i], "--key") ? CSN_MODE_KEY : CSN_MODE_ORG;
            ret->rest = argv + i + 1;
            break;
        }
        int r = take(ret, argv[i], err);
        if (r < 0)
            return r;
    }
    if (ret->mode != CSN_MODE_ROUTES && !ret->config.data_dir)
        return bad(err, "no --data");
    return CSN_OK;
}
