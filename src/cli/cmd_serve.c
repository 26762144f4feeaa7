#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <caisson/engine.h>

#include "base/fd.h"
#include "base/str.h"
#include "boxopt.h"
#include "commands.h"
#include "out.h"
#include "serveopt.h"

#define DEFAULT_LISTEN "127.0.0.1:3986"
#define PREVIEW_LIFE_MAX (INT64_C(1) << 40) /* ms: 34 years */

struct values {
    const char *listen, *state, *api_key, *key_file, *public_url, *user, *network, *snapshot;
    int64_t n_warm, n_spare, max_sandboxes, max_cpu, max_memory, max_disk, max_connections;
    int64_t max_requests, max_snapshots, max_snapshot_disk, max_volumes, max_volume_disk;
    int64_t max_per_address, preview_life, disk_reserve, overcommit;
    int trust_proxy, debug, is_token_key, clamp;
    cli_list optional, strict;
};

#define AT(field) offsetof(struct values, field)

static const cli_opt serve_options[] = {
    { 'l', "listen", CLI_TEXT, AT(listen), "ADDR:PORT",
      "where to listen; port 0: any free one [" DEFAULT_LISTEN "]", NULL, NULL },
    { 0, "state", CLI_TEXT, AT(state), "DIR",
      "the server's own directory [/var/lib/caisson-server, or below ~/.local/state]", "@dir",
      NULL },
    { 0, "api-key", CLI_TEXT, AT(api_key), "KEY",
      "a key that is to work; better in $CAISSON_API_KEY or a file", NULL, NULL },
    { 0, "key-file", CLI_TEXT, AT(key_file), "FILE", "that key, in the first line of a file",
      "@file", NULL },
    { 0, "public-url", CLI_TEXT, AT(public_url), "URL",
      "how clients reach the server, when not as they say in Host", NULL, NULL },
    { 0, "preview-token-life", CLI_DURATION, AT(preview_life), "TIME",
      "how long a preview's token works after it was last asked for [24h]", NULL, NULL },
    { 0, "preview-token-is-key", CLI_FLAG, AT(is_token_key), NULL,
      "a preview token opens every port of its sandbox, and its toolbox", NULL, NULL },
    { 0, "trust-proxy", CLI_FLAG, AT(trust_proxy), NULL,
      "believe X-Forwarded-For, -Host and -Proto: a proxy in front sets them", NULL, NULL },
    { 0, "user", CLI_TEXT, AT(user), "NAME",
      "as root: whom the part that reads requests runs as [caisson, else nobody]", NULL, NULL },
    { 0, "optional", CLI_LIST, AT(optional), "WALL,…",
      "start even if these walls can't be put up here: of the server and of sandboxes", NULL,
      NULL },
    { 0, "debug", CLI_FLAG, AT(debug), NULL, "log every request", NULL, NULL },
    CLI_END
};

static const cli_opt box_options[] = {
    { 0, "network", CLI_CHOICE, AT(network), "none|outbound",
      "what sandboxes reach [outbound where it can be had]", "none outbound", NULL },
    { 0, "snapshot", CLI_TEXT, AT(snapshot), "NAME", "image of a sandbox that names none [host]",
      "@image", NULL },
    { 0, "strict", CLI_LIST, AT(strict), "LIMIT,…",
      "no sandbox unless the kernel enforces them: memory cpu pids disk, or all",
      "memory cpu pids disk all", NULL },
    { 0, "clamp", CLI_FLAG, AT(clamp), NULL,
      "who asks for more memory or disk than the machine has gets less, and is told", NULL, NULL },
    { 0, "overcommit", CLI_COUNT, AT(overcommit), "N",
      "how often the machine's memory and disk may be promised [16]", NULL, NULL },
    { 0, "disk-reserve", CLI_SIZE, AT(disk_reserve), "SIZE",
      "refuse new ones when the disk has less free than this [5 % of it, at most 1g]", NULL, NULL },
    { 0, "warm", CLI_COUNT, AT(n_warm), "N",
      "sandboxes of the default shape kept ready; up to 16 while more are asked for [1]", NULL,
      NULL },
    { 0, "spare", CLI_COUNT, AT(n_spare), "N",
      "keepers kept ready for the next create, up to 16 [2]", NULL, NULL },
    CLI_END
};

static const cli_opt quota_options[] = {
    { 0, "max-sandboxes", CLI_COUNT, AT(max_sandboxes), "N", "sandboxes of one organisation [1000]",
      NULL, NULL },
    { 0, "max-cpu", CLI_CPU, AT(max_cpu), "CORES",
      "cores of one organisation's started sandboxes [any number]", NULL, NULL },
    { 0, "max-memory", CLI_SIZE, AT(max_memory), "SIZE",
      "their memory [80 % of what may be promised]", NULL, NULL },
    { 0, "max-disk", CLI_SIZE, AT(max_disk), "SIZE", "their disk [80 % of what may be promised]",
      NULL, NULL },
    { 0, "max-snapshots", CLI_COUNT, AT(max_snapshots), "N", "its snapshots [1000]", NULL, NULL },
    { 0, "max-snapshot-disk", CLI_SIZE, AT(max_snapshot_disk), "SIZE",
      "what they take [half the disk]", NULL, NULL },
    { 0, "max-volumes", CLI_COUNT, AT(max_volumes), "N", "its volumes [1000]", NULL, NULL },
    { 0, "max-volume-disk", CLI_SIZE, AT(max_volume_disk), "SIZE",
      "what lies in them [half the disk]", NULL, NULL },
    { 0, "max-requests", CLI_COUNT, AT(max_requests), "N",
      "requests of one organisation in a second [any number]", NULL, NULL },
    { 0, "max-connections", CLI_COUNT, AT(max_connections), "N", "connections in total [16384]",
      NULL, NULL },
    { 0, "max-connections-per-address", CLI_COUNT, AT(max_per_address), "N",
      "and from one address [3/4 of that]", NULL, NULL },
    CLI_END
};

static const cli_group groups[] = { { "Server", serve_options, 0 },
                                    { "Sandboxes", box_options, 0 },
                                    { "Quotas (defaults in brackets)", quota_options, 0 },
                                    { NULL, NULL, 0 } };

/* The key goes on in the environment: arguments are for everyone to see. */
static int set_key(const cli_command *cmd, const struct values *v)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    int r = 0;

    if (v->api_key && v->key_file)
        return cli_usage(cmd, "--api-key and --key-file exclude each other");
    if (v->api_key)
        csn_buf_puts(&text, v->api_key);
    else if (v->key_file)
        r = csn_read_file(AT_FDCWD, v->key_file, &text, 4096);
    else
        return -1;
    if (r < 0)
        return cli_fail_with(CSN_E_SYSTEM, NULL, "read '%s': %s", v->key_file, strerror(-r));
    csn_buf_truncate(&text, strcspn(text.data, "\r\n"));
    if (text.len == 0)
        return cli_fail_with(CSN_E_INVALID, NULL, "the key is empty");
    if (setenv("CAISSON_API_KEY", text.data, 1) < 0)
        cli_out_of_memory();
    return -1;
}

static void add_number(cli_warden *w, const char *name, int64_t value)
{
    if (value == CSN_UNLIMITED)
        value = INT64_C(1000000);
    if (value)
        cli_warden_add(w, "--%s=%lld", name, (long long) value);
}

static void add_size(cli_warden *w, const char *name, int64_t value)
{
    if (value)
        cli_warden_add(w, "--%s=%lld", name,
                       value == CSN_UNLIMITED ? (long long) INT64_MAX : (long long) value);
}

/* Whoever asks for a network gets it or is told why not; whoever leaves it to us is told what sandboxes do without. */
static int choose_network(struct values *v)
{
    csn_error err = { 0 };

    if (csn_streq(v->network, "none") || csn_network_check(CSN_NET_OUTBOUND, &err) == 0) {
        v->network = v->network ? v->network : "outbound";
        return -1;
    }
    if (v->network)
        return cli_fail(&err, "serve");
    cli_note("%s: sandboxes have no network", err.message);
    v->network = "none";
    return -1;
}

static void add_front_options(cli_warden *w, const struct values *v, uint32_t walls)
{
    cli_warden_add(w, "--");
    if (walls & CSN_WALL_LANDLOCK)
        cli_warden_add(w, "--optional-landlock");
    cli_warden_add(w, "--listen=%s", v->listen ? v->listen : DEFAULT_LISTEN);
    cli_warden_add(w, "--network=%s", v->network);
    if (v->public_url)
        cli_warden_add(w, "--public-url=%s", v->public_url);
    if (v->snapshot)
        cli_warden_add(w, "--snapshot=%s", v->snapshot);
    if (v->trust_proxy)
        cli_warden_add(w, "--trust-proxy");
    if (v->preview_life)
        cli_warden_add(
            w, "--preview-token-life=%lld",
            (long long) (v->preview_life == CSN_UNLIMITED ? PREVIEW_LIFE_MAX : v->preview_life));
    if (v->is_token_key)
        cli_warden_add(w, "--preview-token-is-key");
    if (v->debug)
        cli_warden_add(w, "--debug");
    if (v->n_warm != CSN_UNLIMITED) /* how the options spell a 0 that was asked for */
        add_number(w, "warm", v->n_warm);
    if (v->clamp)
        cli_warden_add(w, "--clamp");
    if (v->overcommit)
        cli_warden_add(w, "--overcommit=%lld",
                       v->overcommit == CSN_UNLIMITED ? 0LL : (long long) v->overcommit);
    if (v->disk_reserve) /* 0 that was asked for: nothing is kept free */
        cli_warden_add(w, "--disk-reserve=%lld",
                       v->disk_reserve == CSN_UNLIMITED ? 0LL : (long long) v->disk_reserve);
    add_number(w, "max-sandboxes", v->max_sandboxes);
    add_number(w, "max-cpu", v->max_cpu == CSN_UNLIMITED ? INT64_C(1) << 40 : v->max_cpu);
    add_size(w, "max-memory", v->max_memory);
    add_size(w, "max-disk", v->max_disk);
    add_number(w, "max-snapshots", v->max_snapshots);
    add_size(w, "max-snapshot-disk", v->max_snapshot_disk);
    add_number(w, "max-volumes", v->max_volumes);
    add_size(w, "max-volume-disk", v->max_volume_disk);
    add_number(w, "max-requests", v->max_requests);
    add_number(w, "max-connections", v->max_connections);
    add_number(w, "max-connections-per-address", v->max_per_address);
}

static int check(const cli_command *cmd, const struct values *v)
{
    size_t len = v->public_url ? strlen(v->public_url) : 0;

    if (v->public_url && ((!csn_starts_with(v->public_url, "http://") &&
                           !csn_starts_with(v->public_url, "https://")) ||
                          v->public_url[len - 1] == '/'))
        return cli_usage(
            cmd, "--public-url wants http://HOST or https://HOST, without a slash at the end");
    if (v->preview_life > PREVIEW_LIFE_MAX)
        return cli_usage(cmd, "--preview-token-life takes up to 34 years; or unlimited");
    if (v->n_spare > 16)
        return cli_usage(cmd, "--spare takes up to 16");
    if (v->n_warm > 256)
        return cli_usage(cmd, "--warm takes up to 256");
    return -1;
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    struct values v = { .n_warm = 1 };
    cli_warden w = { 0 };
    cli_args args;
    uint32_t walls = 0, strict = 0;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status < 0)
        status = cli_want(cmd, &args, 0, 0);
    if (status < 0)
        status = check(cmd, &v);
    if (status < 0)
        status = cli_fill_walls(cmd, &v.optional, &walls);
    if (status < 0)
        status = cli_fill_limits(cmd, &v.strict, &strict);
    if (status < 0)
        status = choose_network(&v);
    if (status < 0)
        status = set_key(cmd, &v);
    if (status < 0)
        status = cli_warden_begin(&w, v.state, v.user);
    if (status >= 0)
        return status;
    cli_warden_add(&w, "--listen=%s", v.listen ? v.listen : DEFAULT_LISTEN);
    if (v.n_spare > 0)
        cli_warden_add(&w, "--spare=%lld", (long long) v.n_spare);
    if (walls)
        cli_warden_add(&w, "--optional=%u", walls);
    if (strict)
        cli_warden_add(&w, "--strict=%u", strict);
    add_front_options(&w, &v, walls);
    return cli_warden_exec(&w);
}

const cli_command cli_cmd_serve = {
    .name = "serve",
    .summary = "Serve the Daytona API: its SDKs run against this machine",
    .usage = "serve [options]",
    .text = "The first start prints the URL, a key (once) and two lines to paste:\n"
            "  export DAYTONA_API_URL=http://127.0.0.1:3986/api\n"
            "  export DAYTONA_API_KEY=dtn_...\n"
            "Only this machine can connect unless --listen says otherwise; then a key must be\n"
            "configured (--api-key, --key-file or 'caisson key create'), and a proxy with TLS\n"
            "should stand in front. SIGTERM ends it gracefully; sandboxes live on.",
    .groups = groups,
    .run = run,
};
