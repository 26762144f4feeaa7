#include <stdio.h>
#include <stdlib.h>

#include "csn_test.h"
#include "unpack/manifest.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

static csn_descriptor picked;
static csn_manifest manifest;
static csn_docker_manifest docker;
static csn_image_config config;
static csn_error err;

static int pick(const char *text)
{
    return csn_manifest_pick(text, strlen(text), "amd64", &picked, &err);
}

TEST(an_index_yields_the_image_for_this_machine)
{
    CHECK_INT(pick("{\"manifests\":["
                   "{\"digest\":\"sha256:" A
                   "\",\"platform\":{\"os\":\"linux\",\"architecture\":\"s390x\"}},"
                   "{\"digest\":\"sha256:" B
                   "\",\"platform\":{\"os\":\"linux\",\"architecture\":\"amd64\"}}]}"),
              CSN_OK);
    CHECK_STR(picked.sha256, B);
}

TEST(an_image_that_names_no_platform_will_do)
{
    CHECK_INT(pick("{\"manifests\":[{\"digest\":\"sha256:" A "\",\"size\":12}]}"), CSN_OK);
    CHECK_STR(picked.sha256, A);
    CHECK_INT(picked.size, 12);
}

TEST(an_index_without_one_for_us_is_refused)
{
    CHECK_INT(pick("{\"manifests\":[{\"digest\":\"sha256:" A
                   "\",\"platform\":{\"os\":\"unknown\",\"architecture\":\"unknown\"}}]}"),
              CSN_E_INVALID);
    CHECK_STR(err.message, "holds no image for linux/amd64");
    CHECK_INT(pick("{}"), CSN_E_INVALID);
    CHECK_INT(pick("[]"), CSN_E_INVALID);
    CHECK_INT(pick("{\"manifests\":[null, 7, {}]}"), CSN_E_INVALID);
    CHECK_INT(pick("{\"manifests\":"), CSN_E_INVALID);
}

TEST(a_digest_must_be_one)
{
    static const char *const bad[] = {
        "sha256:../../../../etc/passwd", "sha512:" A B, "sha256:" A "a", "sha256:AAAA", "", A,
    };
    char text[512];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void) snprintf(text, sizeof(text), "{\"manifests\":[{\"digest\":\"%s\"}]}", bad[i]);
        CHECK_INT(pick(text), CSN_E_INVALID);
    }
}

static int read_manifest(const char *text)
{
    return csn_manifest_read(text, strlen(text), &manifest, &err);
}

#define LAYER(digest, type) "{\"digest\":\"sha256:" digest "\",\"mediaType\":\"" type "\"}"
#define OCI                 "application/vnd.oci.image.layer.v1."

TEST(a_manifest_names_configuration_and_layers)
{
    CHECK_INT(read_manifest("{\"config\":{\"digest\":\"sha256:" A
                            "\"},\"layers\":[" LAYER(B, OCI "tar+gzip") "," LAYER(
                                C, "application/vnd.docker.image.rootfs.diff.tar.gzip") "]}"),
              CSN_OK);
    CHECK_STR(manifest.config.sha256, A);
    CHECK_INT(manifest.n_layers, 2);
    CHECK_STR(manifest.layers[1].sha256, C);
}

TEST(a_manifest_with_what_we_cannot_read_is_refused)
{
    CHECK_INT(read_manifest("{\"config\":{\"digest\":\"sha256:" A
                            "\"},\"layers\":[" LAYER(B, OCI "tar+encrypted") "]}"),
              CSN_E_UNSUPPORTED);
    CHECK_INT(read_manifest("{\"config\":{\"digest\":\"sha256:" A "\"},\"layers\":[]}"),
              CSN_E_INVALID);
    CHECK_INT(read_manifest("{\"layers\":[" LAYER(B, OCI "tar") "]}"), CSN_E_INVALID);
}

TEST(a_manifest_has_a_bounded_number_of_layers)
{
    char text[16384];
    size_t n = (size_t) snprintf(text, sizeof(text),
                                 "{\"config\":{\"digest\":\"sha256:" A "\"},\"layers\":[");

    for (int i = 0; i < 63; i++)
        n += (size_t) snprintf(text + n, sizeof(text) - n, "%s" LAYER(B, OCI "tar"), i ? "," : "");
    (void) snprintf(text + n, sizeof(text) - n, "]}");
    CHECK_INT(read_manifest(text), CSN_E_LIMIT);
}

static int read_docker(const char *text)
{
    return csn_docker_manifest_read(text, strlen(text), &docker, &err);
}

TEST(a_docker_archive_names_files_within_it)
{
    CHECK_INT(
        read_docker("[{\"Config\":\"c.json\",\"Layers\":[\"a/layer.tar\",\"./b/layer.tar\"]}]"),
        CSN_OK);
    CHECK_STR(docker.config, "c.json");
    CHECK_STR(docker.layers[1], "b/layer.tar");
    CHECK_INT(read_docker("[{\"Config\":\"../c.json\",\"Layers\":[\"a\"]}]"), CSN_E_INVALID);
    CHECK_INT(read_docker("[{\"Config\":\"c\",\"Layers\":[\"/etc/passwd\"]}]"), CSN_E_INVALID);
    CHECK_INT(read_docker("[{\"Config\":\"c\",\"Layers\":[7]}]"), CSN_E_INVALID);
    CHECK_INT(read_docker("[]"), CSN_E_INVALID);
    CHECK_INT(read_docker("{}"), CSN_E_INVALID);
}

static int read_config(const char *text)
{
    csn_image_config_auto(&config);
    return csn_image_config_read(text, strlen(text), "amd64", &config, &err);
}

TEST(a_configuration_yields_environment_and_directory)
{
    CHECK_INT(
        read_config(
            "{\"architecture\":\"amd64\",\"config\":{\"Env\":[\"A=1\",\"=x\",\"none\",\"B=\"],"
            "\"WorkingDir\":\"/app\"},\"rootfs\":{\"diff_ids\":[\"sha256:" A "\"]}}"),
        CSN_OK);
    CHECK_STR(config.env[0], "A=1");
    CHECK_STR(config.env[1], "B=");
    CHECK(config.env[2] == NULL);
    CHECK_STR(config.cwd, "/app");
    CHECK_INT(config.n_diff_ids, 1);
    CHECK_INT(read_config("{}"), CSN_OK);
    CHECK_STR(config.cwd, "");
    CHECK_INT(read_config("{\"config\":{\"WorkingDir\":\"../x\"}}"), CSN_OK);
    CHECK_STR(config.cwd, "");
    CHECK_INT(read_config("{\"architecture\":\"arm64\"}"), CSN_E_INVALID);
    csn_image_config_auto(&config);
}

TEST(a_configuration_yields_what_it_would_run_and_as_whom)
{
    CHECK_INT(read_config("{\"config\":{\"Entrypoint\":[\"/bin/tool\",\"\"],\"Cmd\":[\"a b\",\"-c\"],"
                          "\"User\":\"101:app\"}}"),
              CSN_OK);
    CHECK_STR(config.entrypoint[0], "/bin/tool");
    CHECK_STR(config.entrypoint[1], "");
    CHECK(config.entrypoint[2] == NULL);
    CHECK_STR(config.cmd[0], "a b");
    CHECK_STR(config.cmd[1], "-c");
    CHECK(config.cmd[2] == NULL);
    CHECK_STR(config.user, "101:app");
    CHECK_INT(read_config("{\"config\":{\"Entrypoint\":null,\"Cmd\":\"bash\",\"User\":null}}"), CSN_OK);
    CHECK(config.entrypoint[0] == NULL);
    CHECK_STR(config.cmd[0], "bash");
    CHECK_STR(config.user, "");
    csn_image_config_auto(&config);
}

TEST(a_command_with_a_word_that_is_none_is_refused)
{
    CHECK_INT(read_config("{\"config\":{\"Entrypoint\":[\"a\",7]}}"), CSN_E_INVALID);
    CHECK_STR(err.message, "the configuration's Entrypoint is no list of words");
    CHECK_INT(read_config("{\"config\":{\"Cmd\":[null]}}"), CSN_E_INVALID);
    CHECK_INT(read_config("{\"config\":{\"User\":\"a b\"}}"), CSN_E_INVALID);
    CHECK_INT(read_config("{\"config\":{\"User\":\"\\u001b[2J\"}}"), CSN_E_INVALID);
    csn_image_config_auto(&config);
}

TEST(a_configuration_has_a_bounded_command_and_environment)
{
    static char text[300 << 10];
    size_t n = (size_t) snprintf(text, sizeof(text), "{\"config\":{\"Cmd\":[\"\"");

    for (int i = 0; i < 256; i++)
        n += (size_t) snprintf(text + n, sizeof(text) - n, ",\"x\"");
    (void) snprintf(text + n, sizeof(text) - n, "]}}");
    CHECK_INT(read_config(text), CSN_E_LIMIT);
    n = (size_t) snprintf(text, sizeof(text), "{\"config\":{\"Env\":[\"A=");
    memset(text + n, 'a', 129 << 10);
    (void) snprintf(text + n + (129 << 10), sizeof(text) - n - (129 << 10), "\"]}}");
    CHECK_INT(read_config(text), CSN_E_LIMIT);
    csn_image_config_auto(&config);
}
