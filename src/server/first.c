/* SPDX-License-Identifier: Apache-2.0 */
#include "server/first.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

#define KEY_CONFIGURED "configured"
#define KEY_FIRST      "first"

static bool is_any(const struct sockaddr_storage *a)
{
    static const struct in6_addr any6 = IN6ADDR_ANY_INIT;

    if (a->ss_family == AF_INET)
        return ((const struct sockaddr_in *) a)->sin_addr.s_addr == htonl(INADDR_ANY);
    return memcmp(&((const struct sockaddr_in6 *) a)->sin6_addr, &any6, sizeof(any6)) == 0;
}

static bool is_loopback(const struct sockaddr_storage *a)
{
    static const struct in6_addr one6 = IN6ADDR_LOOPBACK_INIT;

    if (a->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *) a)->sin_addr.s_addr) >> 24 == 127;
    return memcmp(&((const struct sockaddr_in6 *) a)->sin6_addr, &one6, sizeof(one6)) == 0;
}

int csn_first_look(int listen_fd, const char *public_url, csn_first *ret, csn_error *err)
{
    struct sockaddr_storage a = { 0 };
    socklen_t len = sizeof(a);
    char host[INET6_ADDRSTRLEN] = "";

    if (getsockname(listen_fd, (struct sockaddr *) &a, &len) < 0)
        return csn_fail_sys(err, -errno, "look at the listening socket");
    if (a.ss_family != AF_INET && a.ss_family != AF_INET6)
        return csn_fail(err, CSN_E_INVALID, "the listening socket is of an unknown family");
    bool is_v6 = a.ss_family == AF_INET6;
    const void *address = is_v6 ? (const void *) &((const struct sockaddr_in6 *) &a)->sin6_addr
                                : (const void *) &((const struct sockaddr_in *) &a)->sin_addr;
    unsigned port = ntohs(is_v6 ? ((const struct sockaddr_in6 *) &a)->sin6_port
                                : ((const struct sockaddr_in *) &a)->sin_port);
    if (is_any(&a)) /* a client on this machine can paste this one */
        (void) snprintf(host, sizeof(host), "%s", is_v6 ? "::1" : "127.0.0.1");
    else if (!inet_ntop(a.ss_family, address, host, sizeof(host)))
        return csn_fail_sys(err, -errno, "print the listening address");
    *ret = (csn_first){ .is_loopback = is_loopback(&a) };
    if (public_url)
        (void) snprintf(ret->url, sizeof(ret->url), "%s", public_url);
    else
        (void) snprintf(ret->url, sizeof(ret->url), "http://%s%s%s:%u", is_v6 ? "[" : "", host,
                        is_v6 ? "]" : "", port);
    return CSN_OK;
}

/* The key of this name, and no other, is the one in `row`. */
static int replace(csn_store *store, const csn_key_row *row, csn_error *err)
{
    csn_key_row old;
    int r = csn_store_key_find(store, row->hash, &old, err);

    if (r != CSN_E_NOT_FOUND)
        return r; /* it works already, under whatever name */
    r = csn_store_begin(store, err);
    if (r < 0)
        return r;
    r = csn_store_key_remove(store, row->org_id, row->name, err);
    if (r == CSN_OK || r == CSN_E_NOT_FOUND)
        r = csn_store_key_insert(store, row, err);
    if (r == CSN_OK)
        return csn_store_commit(store, err);
    csn_store_rollback(store);
    return r;
}

static int make_first(csn_store *store, csn_key_row *row, csn_first *first, csn_error *err)
{
    int64_t n = csn_store_key_count(store, err);

    if (n < 0)
        return (int) n;
    if (n > 0)
        return CSN_OK;
    if (!first->is_loopback)
        return csn_fail(err, CSN_E_DENIED,
                        "others than this machine could connect, and no key is configured: give "
                        "--api-key or --key-file, or make one with 'caisson key create'");
    int r = csn_key_mint(first->key, row);
    if (r < 0)
        return csn_fail_sys(err, r, "make a key");
    (void) snprintf(row->name, sizeof(row->name), "%s", KEY_FIRST);
    return csn_store_key_insert(store, row, err);
}

int csn_first_keys(csn_store *store, const char *configured, csn_first *first, csn_error *err)
{
    csn_key_row row = { .is_admin = true };
    csn_org_row org;
    int r = csn_org_ensure(store, CSN_ORG_DEFAULT, &org, err);

    if (r < 0)
        return r;
    if (configured) {
        r = csn_key_adopt(configured, &row, err);
        (void) snprintf(row.name, sizeof(row.name), "%s", KEY_CONFIGURED);
    }
    (void) snprintf(row.org_id, sizeof(row.org_id), "%s", org.id);
    if (r < 0)
        return r;
    return configured ? replace(store, &row, err) : make_first(store, &row, first, err);
}

int csn_first_print(const csn_first *first, bool is_key_configured, const char *data_dir,
                    const char *walls_missing)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    csn_buf_printf(&out, "Caisson serves the Daytona API at %s (state in %.*s)\n\n", first->url,
                   (int) (strlen(data_dir) - strlen("/front")), data_dir);
    csn_buf_printf(&out, "    export DAYTONA_API_URL=%s/api\n", first->url);
    if (first->key[0])
        csn_buf_printf(&out, "    export DAYTONA_API_KEY=%s\n\n", first->key);
    else
        csn_buf_printf(&out, "    export DAYTONA_API_KEY=…\n\n");
    if (first->key[0])
        csn_buf_puts(&out, "The key is shown this once; 'caisson key create' makes another one.\n");
    else if (is_key_configured)
        csn_buf_puts(&out, "The key is the configured one.\n");
    else
        csn_buf_puts(&out,
                     "The keys made before are valid; 'caisson key create' makes another one.\n");
    if (walls_missing)
        csn_buf_printf(&out, "Sandboxes start without these walls, as --optional allows: %s.\n",
                       walls_missing);
    if (!first->is_loopback && csn_starts_with(first->url, "http://"))
        csn_log(CSN_LOG_WARN,
                "without TLS everyone on the way can read keys and files: put a proxy "
                "with TLS in front and name it with --public-url https://…",
                NULL);
    return out.error < 0 ? out.error : csn_write_all(1, out.data, out.len);
}
