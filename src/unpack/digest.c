#include "digest.h"

#include <errno.h>
#include <openssl/evp.h>

#include "base/auto.h"
#include "base/id.h"

/* Fetched once: a later fetch would look for configuration files that are out of reach by then. */
static EVP_MD *sha256;

int csn_digest_prepare(void)
{
    char out[CSN_DIGEST_SIZE];

    if (!sha256)
        sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    return sha256 ? csn_digest_of("", 0, out) : -ENOSYS;
}

csn_digest *csn_digest_new(void)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();

    if (ctx && EVP_DigestInit_ex2(ctx, sha256, NULL) != 1) {
        EVP_MD_CTX_free(ctx);
        ctx = NULL;
    }
    return (csn_digest *) ctx;
}

int csn_digest_add(csn_digest *digest, const void *data, size_t len)
{
    return EVP_DigestUpdate((EVP_MD_CTX *) digest, data, len) == 1 ? 0 : -EIO;
}

int csn_digest_end(csn_digest *digest, char out[CSN_DIGEST_SIZE])
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (EVP_DigestFinal_ex((EVP_MD_CTX *) digest, raw, &len) != 1 || len != 32)
        return -EIO;
    csn_hex(out, raw, len);
    return 0;
}

csn_digest *csn_digest_free(csn_digest *digest)
{
    EVP_MD_CTX_free((EVP_MD_CTX *) digest);
    return NULL;
}

void csn_digest_auto(csn_digest **digest)
{
    int saved = errno;

    *digest = csn_digest_free(*digest);
    errno = saved;
}

int csn_digest_of(const void *data, size_t len, char out[CSN_DIGEST_SIZE])
{
    csn_auto(digest) csn_digest *digest = csn_digest_new();
    int r;

    if (!digest)
        return -ENOMEM;
    r = csn_digest_add(digest, data, len);
    return r < 0 ? r : csn_digest_end(digest, out);
}
