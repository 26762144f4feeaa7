#include "manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/str.h"
#include "entry_path.h"

const char *csn_manifest_arch(void)
{
    static const char *const names[][2] = {
        { "x86_64", "amd64" },    { "aarch64", "arm64" },   { "armv7l", "arm" },  { "i686", "386" },
        { "riscv64", "riscv64" }, { "ppc64le", "ppc64le" }, { "s390x", "s390x" },
    };
    static struct utsname u;

    if (uname(&u) < 0)
        return "unknown";
    for (size_t i = 0; i < CSN_COUNT(names); i++)
        if (csn_streq(u.machine, names[i][0]))
            return names[i][1];
    return u.machine;
}

static int parse(const char *text, size_t len, const char *what, csn_json **ret, csn_error *err)
{
    char where[160] = "";
    int r = csn_json_parse(text, len, ret, where);

    if (r == -ENOMEM)
        return csn_fail(err, CSN_E_NO_MEMORY, "read the %s", what);
    return r < 0 ? csn_fail(err, CSN_E_INVALID, "the %s is no JSON: %s", what, where) : CSN_OK;
}

static int read_digest(const char *text, char out[CSN_DIGEST_SIZE], csn_error *err)
{
    char shown[64];

    if (!csn_starts_with(text, "sha256:") || !csn_is_hex(text + 7, 64))
        return csn_fail(err, CSN_E_INVALID, "'%s' is no sha256 digest",
                        csn_entry_show(text, shown, sizeof(shown)));
    memcpy(out, text + 7, CSN_DIGEST_SIZE);
    return CSN_OK;
}

static bool is_index_type(const char *type)
{
    return csn_streq(type, "application/vnd.oci.image.index.v1+json") ||
           csn_streq(type, "application/vnd.docker.distribution.manifest.list.v2+json");
}

static int read_descriptor(const csn_json *v, csn_descriptor *ret, csn_error *err)
{
    ret->size = csn_json_get_int(v, "size", -1);
    ret->is_index = is_index_type(csn_json_get_str(v, "mediaType", ""));
    return read_digest(csn_json_get_str(v, "digest", ""), ret->sha256, err);
}

/* 2: made for us, 1: doesn't say, 0: for another machine or no image at all (a signature, an attestation). */
static int fitness(const csn_json *v, const char *arch)
{
    const csn_json *platform = csn_json_get(v, "platform");

    if (csn_json_type_of(csn_json_get(v, "artifactType")) == CSN_JSON_STRING)
        return 0;
    if (!platform)
        return 1;
    return csn_streq(csn_json_get_str(platform, "os", ""), "linux") &&
                   csn_streq(csn_json_get_str(platform, "architecture", ""), arch)
               ? 2
               : 0;
}

int csn_manifest_pick(const char *text, size_t len, const char *arch, csn_descriptor *ret,
                      csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *list, *best = NULL;
    int r, best_fit = 0;

    r = parse(text, len, "index", &doc, err);
    if (r < 0)
        return r;
    list = csn_json_get(doc, "manifests");
    for (size_t i = 0; i < csn_json_count(list); i++) {
        const csn_json *v = csn_json_at(list, i);
        int fit = v ? fitness(v, arch) : 0;

        if (fit > best_fit) {
            best = v;
            best_fit = fit;
        }
    }
    if (!best)
        return csn_fail(err, CSN_E_INVALID, "holds no image for linux/%s", arch);
    return read_descriptor(best, ret, err);
}

/* Every layer we know is a tar, packed or not; encrypted ones say so behind a '+'. */
static bool is_layer_type(const char *type)
{
    static const char *const ends[] = { "tar",      "tar+gzip", "tar+zstd",
                                        "tar.gzip", "tar.zstd", "tar+xz" };

    for (size_t i = 0; i < CSN_COUNT(ends); i++)
        if (csn_str_ends_with(csn_str_of(type), csn_str_of(ends[i])))
            return true;
    return false;
}

static int read_layers(const csn_json *list, csn_manifest *m, csn_error *err)
{
    size_t n = csn_json_count(list);

    if (csn_json_type_of(list) != CSN_JSON_ARRAY || n == 0)
        return csn_fail(err, CSN_E_INVALID, "the manifest names no layers");
    if (n > CSN_MANIFEST_LAYERS_MAX)
        return csn_fail(err, CSN_E_LIMIT, "%zu layers, more than %d", n, CSN_MANIFEST_LAYERS_MAX);
    for (size_t i = 0; i < n; i++) {
        const csn_json *v = csn_json_at(list, i);
        const char *type = csn_json_get_str(v, "mediaType", "");
        char shown[96];
        int r;

        if (!is_layer_type(type))
            return csn_fail(err, CSN_E_UNSUPPORTED, "a layer is of type '%s'",
                            csn_entry_show(type, shown, sizeof(shown)));
        r = read_descriptor(v, &m->layers[i], err);
        if (r < 0)
            return r;
    }
    m->n_layers = n;
    return CSN_OK;
}

int csn_manifest_read(const char *text, size_t len, csn_manifest *ret, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    int r;

    memset(ret, 0, sizeof(*ret));
    r = parse(text, len, "manifest", &doc, err);
    if (r == CSN_OK)
        r = read_descriptor(csn_json_get(doc, "config"), &ret->config, err);
    return r < 0 ? r : read_layers(csn_json_get(doc, "layers"), ret, err);
}

static int read_path(const char *text, char out[CSN_MANIFEST_PATH_MAX], csn_error *err)
{
    char path[CSN_ENTRY_PATH_MAX], shown[96];

    if (csn_entry_path(text, 16, path) < 0 || !*path || strlen(path) >= CSN_MANIFEST_PATH_MAX)
        return csn_fail(err, CSN_E_INVALID, "the manifest names '%s'",
                        csn_entry_show(text, shown, sizeof(shown)));
    memcpy(out, path, strlen(path) + 1);
    return CSN_OK;
}

int csn_docker_manifest_read(const char *text, size_t len, csn_docker_manifest *ret, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *image, *layers;
    size_t n;
    int r;

    memset(ret, 0, sizeof(*ret));
    r = parse(text, len, "manifest", &doc, err);
    if (r < 0)
        return r;
    image = csn_json_at(doc, 0); /* `docker save` of several images: the first */
    layers = csn_json_get(image, "Layers");
    n = csn_json_count(layers);
    if (csn_json_type_of(layers) != CSN_JSON_ARRAY || n == 0)
        return csn_fail(err, CSN_E_INVALID, "the manifest names no layers");
    if (n > CSN_MANIFEST_LAYERS_MAX)
        return csn_fail(err, CSN_E_LIMIT, "%zu layers, more than %d", n, CSN_MANIFEST_LAYERS_MAX);
    r = read_path(csn_json_get_str(image, "Config", ""), ret->config, err);
    for (size_t i = 0; r == CSN_OK && i < n; i++)
        r = read_path(csn_json_str(csn_json_at(layers, i), ""), ret->layers[i], err);
    ret->n_layers = n;
    return r;
}

static void free_list(char **list)
{
    for (char **e = list; e && *e; e++)
        free(*e);
    free(list);
}

void csn_image_config_auto(csn_image_config *config)
{
    int saved = errno;

    free_list(config->env);
    free_list(config->entrypoint);
    free_list(config->cmd);
    free(config->cwd);
    free(config->user);
    errno = saved;
}

static int no_memory(csn_error *err)
{
    return csn_fail(err, CSN_E_NO_MEMORY, "read the configuration");
}

/* Takes from what all of the configuration's text may come to. */
static int spend(size_t *left, const char *text, csn_error *err)
{
    size_t n = strlen(text) + 1;

    if (n > *left)
        return csn_fail(err, CSN_E_LIMIT, "the configuration's Env, Entrypoint and Cmd have more than %d KiB",
                        CSN_MANIFEST_TEXT_MAX >> 10);
    *left -= n;
    return CSN_OK;
}

/* A pair that is none is left out rather than refused: others run such images. */
static int read_env(const csn_json *list, size_t *left, csn_image_config *c, csn_error *err)
{
    size_t n = csn_json_count(list), n_kept = 0;

    if (n > CSN_MANIFEST_ENV_MAX)
        n = CSN_MANIFEST_ENV_MAX;
    c->env = csn_calloc(n + 1, sizeof(*c->env));
    if (!c->env)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        const char *pair = csn_json_str(csn_json_at(list, i), "");
        int r;

        if (pair[0] == '=' || !strchr(pair, '='))
            continue;
        r = spend(left, pair, err);
        if (r < 0)
            return r;
        c->env[n_kept] = csn_strdup(pair);
        if (!c->env[n_kept])
            return no_memory(err);
        n_kept++;
    }
    return CSN_OK;
}

/* A command with a word left out would be another one: so all of it or nothing. A text alone is one word, as others
 * have it; null and nothing are the same. */
static int read_words(const csn_json *config, const char *key, size_t *left, char ***ret, csn_error *err)
{
    const csn_json *list = csn_json_get(config, key);
    bool is_text = csn_json_type_of(list) == CSN_JSON_STRING;
    size_t n = is_text ? 1 : csn_json_count(list);

    if (n > CSN_MANIFEST_WORDS_MAX)
        return csn_fail(err, CSN_E_LIMIT, "the configuration's %s has %zu words, more than %d", key, n,
                        CSN_MANIFEST_WORDS_MAX);
    *ret = csn_calloc(n + 1, sizeof(**ret));
    if (!*ret)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        const csn_json *word = is_text ? list : csn_json_at(list, i);
        int r;

        if (csn_json_type_of(word) != CSN_JSON_STRING)
            return csn_fail(err, CSN_E_INVALID, "the configuration's %s is no list of words", key);
        r = spend(left, csn_json_str(word, ""), err);
        if (r < 0)
            return r;
        (*ret)[i] = csn_strdup(csn_json_str(word, ""));
        if (!(*ret)[i])
            return no_memory(err);
    }
    return CSN_OK;
}

static int read_user(const csn_json *config, csn_image_config *c, csn_error *err)
{
    const char *user = csn_json_get_str(config, "User", "");

    for (const char *p = user; *p; p++)
        if ((unsigned char) *p <= ' ' || *p == 127 || p - user >= CSN_MANIFEST_USER_MAX)
            return csn_fail(err, CSN_E_INVALID, "the configuration's User is no user");
    c->user = csn_strdup(user);
    return c->user ? CSN_OK : no_memory(err);
}

static int read_command(const csn_json *config, csn_image_config *c, csn_error *err)
{
    size_t left = CSN_MANIFEST_TEXT_MAX;
    int r = read_env(csn_json_get(config, "Env"), &left, c, err);

    if (r == CSN_OK)
        r = read_words(config, "Entrypoint", &left, &c->entrypoint, err);
    if (r == CSN_OK)
        r = read_words(config, "Cmd", &left, &c->cmd, err);
    return r < 0 ? r : read_user(config, c, err);
}

static int read_diff_ids(const csn_json *list, csn_image_config *c, csn_error *err)
{
    size_t n = csn_json_count(list);

    if (n > CSN_MANIFEST_LAYERS_MAX)
        return csn_fail(err, CSN_E_LIMIT, "%zu layers, more than %d", n, CSN_MANIFEST_LAYERS_MAX);
    for (size_t i = 0; i < n; i++) {
        int r = read_digest(csn_json_str(csn_json_at(list, i), ""), c->diff_ids[i], err);

        if (r < 0)
            return r;
    }
    c->n_diff_ids = n;
    return CSN_OK;
}

int csn_image_config_read(const char *text, size_t len, const char *arch, csn_image_config *ret,
                          csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *config;
    const char *cwd, *its_arch;
    char shown[64];
    int r;

    memset(ret, 0, sizeof(*ret));
    r = parse(text, len, "configuration", &doc, err);
    if (r < 0)
        return r;
    its_arch = csn_json_get_str(doc, "architecture", arch);
    if (!csn_streq(its_arch, arch) && *its_arch)
        return csn_fail(err, CSN_E_INVALID, "made for '%s', this machine is '%s'",
                        csn_entry_show(its_arch, shown, sizeof(shown)), arch);
    config = csn_json_get(doc, "config");
    cwd = csn_json_get_str(config, "WorkingDir", "");
    ret->cwd = csn_strdup(cwd[0] == '/' && strlen(cwd) < CSN_ENTRY_PATH_MAX ? cwd : "");
    if (!ret->cwd)
        return no_memory(err);
    r = read_command(config, ret, err);
    if (r < 0)
        return r;
    return read_diff_ids(csn_json_get(csn_json_get(doc, "rootfs"), "diff_ids"), ret, err);
}
