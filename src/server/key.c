/* SPDX-License-Identifier: Apache-2.0 */
#include "server/key.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/id.h"
#include "base/time.h"

int csn_key_hash(const char *text, size_t len, unsigned char ret_hash[32])
{
    unsigned n = 0;

    return EVP_Digest(text, len, ret_hash, &n, EVP_sha256(), NULL) == 1 && n == 32 ? 0 : -EIO;
}

/* Four characters of 64: enough to tell one's own keys apart, no help to anybody else. */
static int fill(csn_key_row *row, const char *text, size_t len)
{
    row->created_ms = csn_wall_ms();
    (void) snprintf(row->hint, sizeof(row->hint), "dtn_********%s",
                    len >= 32 ? text + len - 4 : "");
    int r = csn_id_uuid(row->id);
    return r < 0 ? r : csn_key_hash(text, len, row->hash);
}

int csn_key_mint(char ret_text[CSN_KEY_SIZE], csn_key_row *row)
{
    memcpy(ret_text, "dtn_", sizeof("dtn_"));
    int r = csn_id_hex(ret_text + 4, 32);
    return r < 0 ? r : fill(row, ret_text, strlen(ret_text));
}

int csn_key_adopt(const char *text, csn_key_row *row, csn_error *err)
{
    size_t len = strlen(text);

    if (len < CSN_KEY_TEXT_MIN || len > CSN_KEY_TEXT_MAX)
        return csn_fail(err, CSN_E_INVALID, "an API key has %d to %d characters; this one has %zu",
                        CSN_KEY_TEXT_MIN, CSN_KEY_TEXT_MAX, len);
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return csn_fail(err, CSN_E_INVALID,
                            "an API key has printable ASCII characters alone, without spaces");
    int r = fill(row, text, len);
    return r < 0 ? csn_fail_sys(err, r, "make a key") : CSN_OK;
}

int csn_org_ensure(csn_store *store, const char *name, csn_org_row *ret_row, csn_error *err)
{
    csn_org_row row = { .created_ms = csn_wall_ms() };
    int r = csn_store_org_get(store, name, ret_row, err);

    if (r != CSN_E_NOT_FOUND)
        return r;
    if (!name[0] || strlen(name) >= sizeof(row.name))
        return csn_fail(err, CSN_E_INVALID, "an organisation's name has 1 to 128 bytes");
    (void) snprintf(row.name, sizeof(row.name), "%s", name);
    r = csn_id_uuid(row.id);
    if (r < 0)
        return csn_fail_sys(err, r, "make an id");
    r = csn_store_org_insert(store, &row, err);
    if (r == CSN_OK)
        *ret_row = row;
    return r;
}
