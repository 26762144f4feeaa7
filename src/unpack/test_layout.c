/* caisson-unpack on OCI layouts and docker archives. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "unpack/digest.h"
#include "unpack/test_program.h"

static void digest_file(const char *path, char out[CSN_DIGEST_SIZE])
{
    csn_auto(buf) csn_buf bytes = CSN_BUF_INIT;

    CHECK_INT(csn_digest_prepare(), 0);
    CHECK_INT(csn_read_file(AT_FDCWD, path, &bytes, 64 << 20), 0);
    CHECK_INT(csn_digest_of(bytes.data, bytes.len, out), 0);
}

/* Moves a file to its place among the blobs. */
static void add_blob(const char *path, char out[CSN_DIGEST_SIZE])
{
    digest_file(path, out);
    CHECK(rename(path, at("oci/blobs/sha256/%s", out)) == 0);
}

static void add_text_blob(char out[CSN_DIGEST_SIZE], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void add_text_blob(char out[CSN_DIGEST_SIZE], const char *fmt, ...)
{
    static char text[8192];
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    write_text(at("blob"), text);
    add_blob(at("blob"), out);
}

static const char *our_arch(void)
{
#if defined(__x86_64__)
    return "amd64";
#elif defined(__aarch64__)
    return "arm64";
#else
    SKIP("the test doesn't know this machine's architecture");
#endif
}

typedef struct layout {
    char lower[CSN_DIGEST_SIZE], upper[CSN_DIGEST_SIZE], config[CSN_DIGEST_SIZE],
        manifest[CSN_DIGEST_SIZE];
} layout;

static void make_layer_files(void)
{
    tar_maker tar;

    tar_begin(&tar, at("lower.tar"));
    TAR_ADD(&tar, .name = "etc/a", .data = "lower a");
    TAR_ADD(&tar, .name = "etc/b", .data = "lower b");
    TAR_ADD(&tar, .name = "opt/x/y", .data = "lower y");
    tar_end(&tar);
    tar_begin(&tar, at("upper.tar"));
    TAR_ADD(&tar, .name = "etc/.wh.a");
    TAR_ADD(&tar, .name = "etc/c", .data = "upper c");
    TAR_ADD(&tar, .name = "opt/x/.wh..wh..opq");
    TAR_ADD(&tar, .name = "opt/x/z", .data = "upper z");
    tar_end(&tar);
}

static layout make_layout(void)
{
    layout l;

    CHECK(mkdir(at("oci"), 0755) == 0 && mkdir(at("oci/blobs"), 0755) == 0 &&
          mkdir(at("oci/blobs/sha256"), 0755) == 0);
    make_layer_files();
    RUN("gzip", "-nf", at("upper.tar"));
    add_blob(at("lower.tar"), l.lower);
    add_blob(at("upper.tar.gz"), l.upper);
    add_text_blob(l.config,
                  "{\"architecture\":\"%s\",\"os\":\"linux\",\"config\":{\"Env\":[\"LANG=C\"],"
                  "\"WorkingDir\":\"/srv\"},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[]}}",
                  our_arch());
    add_text_blob(
        l.manifest,
        "{\"schemaVersion\":2,\"config\":{\"digest\":\"sha256:%s\"},\"layers\":["
        "{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"sha256:%s\"},"
        "{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+gzip\",\"digest\":\"sha256:%s\"}]}",
        l.config, l.lower, l.upper);
    write_text(at("oci/oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}");
    return l;
}

static void write_index(const char *manifest)
{
    char text[1024];

    (void) snprintf(text, sizeof(text),
                    "{\"schemaVersion\":2,\"manifests\":[{\"digest\":\"sha256:%s\",\"platform\":"
                    "{\"os\":\"linux\",\"architecture\":\"mips\"}},{\"mediaType\":"
                    "\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"sha256:%s\","
                    "\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\"}}]}",
                    "0000000000000000000000000000000000000000000000000000000000000000", manifest,
                    our_arch());
    write_text(at("oci/index.json"), text);
}

static void check_layers(const outcome *o)
{
    struct stat st;
    char value[4] = "";

    CHECK_STR(o->message, "");
    CHECK_INT(o->result, CSN_OK);
    CHECK_INT(o->n_layers, 2);
    CHECK_INT(o->n_fresh, 2);
    CHECK_STR(text_of(in_layer(o, 1, "etc/a")), "lower a");
    CHECK_STR(text_of(in_layer(o, 0, "etc/c")), "upper c");
    CHECK(lstat(in_layer(o, 0, "etc/a"), &st) == 0);
    CHECK(S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0));
    CHECK(access(in_layer(o, 0, "etc/.wh.a"), F_OK) < 0);
    CHECK_INT(lgetxattr(in_layer(o, 0, "opt/x"), "user.overlay.opaque", value, sizeof(value)), 1);
    CHECK_STR(value, "y");
    CHECK_STR(o->env0, "LANG=C");
    CHECK_STR(o->cwd, "/srv");
}

TEST(an_oci_layout_becomes_layers_with_their_whiteouts)
{
    layout l = make_layout();
    outcome o;

    write_index(l.manifest);
    o = unpack(at("oci"));
    check_layers(&o);
    CHECK_STR(o.source, "oci");
    CHECK_STR(o.layers[0], l.upper);
    CHECK_STR(o.layers[1], l.lower);
}

TEST(an_oci_layout_in_an_archive_is_the_same)
{
    layout l = make_layout();
    outcome o;

    write_index(l.manifest);
    RUN("tar", "czf", at("image.tar.gz"), "-C", at("oci"), ".");
    o = unpack(at("image.tar.gz"));
    check_layers(&o);
    CHECK_STR(o.source, "oci");
}

TEST(a_layer_that_exists_is_not_unpacked_again)
{
    layout l = make_layout();
    outcome o;

    make_dirs();
    CHECK(mkdir(at("layers/%s", l.lower), 0755) == 0);
    CHECK(mkdir(at("layers/%s/root", l.lower), 0755) == 0);
    write_index(l.manifest);
    o = unpack(at("oci"));
    CHECK_INT(o.result, CSN_OK);
    CHECK_INT(o.n_layers, 2);
    CHECK_INT(o.n_fresh, 1);
    CHECK(access(at("out/%s", l.lower), F_OK) < 0);
}

TEST(a_layer_that_is_not_what_its_digest_says_is_refused)
{
    layout l = make_layout();
    tar_maker tar;
    outcome o;

    write_index(l.manifest);
    tar_begin(&tar, at("oci/blobs/sha256/%s", l.lower));
    TAR_ADD(&tar, .name = "etc/a", .data = "forged");
    tar_end(&tar);
    o = unpack(at("oci"));
    CHECK_INT(o.result, CSN_E_INVALID);
    CHECK(strstr(o.message, "is not what its digest says"));
    CHECK(access(at("out/%s", l.lower), F_OK) < 0);
}

TEST(a_manifest_or_configuration_that_was_changed_is_refused)
{
    layout l = make_layout();

    write_index(l.manifest);
    write_text(at("oci/blobs/sha256/%s", l.config), "{}");
    CHECK_INT(unpack(at("oci")).result, CSN_E_INVALID);
    write_text(at("oci/blobs/sha256/%s", l.manifest), "{}");
    CHECK_INT(unpack(at("oci")).result, CSN_E_INVALID);
    CHECK(unlink(at("oci/blobs/sha256/%s", l.manifest)) == 0);
    CHECK_INT(unpack(at("oci")).result, CSN_E_INVALID);
}

TEST(a_blob_that_is_a_link_out_of_the_layout_is_not_read)
{
    layout l = make_layout();
    char path[512];

    write_index(l.manifest);
    (void) snprintf(path, sizeof(path), "%s", at("oci/blobs/sha256/%s", l.config));
    CHECK(rename(path, at("elsewhere")) == 0);
    CHECK(symlink(at("elsewhere"), path) == 0);
    CHECK(unpack(at("oci")).result < 0);
    CHECK(unlink(path) == 0 && symlink("../../../elsewhere", path) == 0);
    CHECK(unpack(at("oci")).result < 0);
    CHECK(unlink(path) == 0 && mkfifo(path, 0644) == 0);
    CHECK(unpack(at("oci")).result < 0);
}

TEST(an_index_of_indexes_ends_somewhere)
{
    char digest[CSN_DIGEST_SIZE];
    char text[512];

    (void) make_layout();
    (void) snprintf(digest, sizeof(digest), "%064d", 0);
    for (int i = 0; i < 12; i++)
        add_text_blob(digest,
                      "{\"manifests\":[{\"mediaType\":\"application/vnd.oci.image.index.v1+json\","
                      "\"digest\":\"sha256:%s\"}]}",
                      digest);
    (void) snprintf(text, sizeof(text),
                    "{\"manifests\":[{\"mediaType\":\"application/vnd.oci.image.index.v1+json\","
                    "\"digest\":\"sha256:%s\"}]}",
                    digest);
    write_text(at("oci/index.json"), text);
    CHECK_INT(unpack(at("oci")).result, CSN_E_INVALID);
}

static void make_docker_dir(const char *first_layer)
{
    char text[1024], lower[CSN_DIGEST_SIZE], upper[CSN_DIGEST_SIZE];

    CHECK(mkdir(at("docker"), 0755) == 0);
    make_layer_files();
    digest_file(at("lower.tar"), lower);
    digest_file(at("upper.tar"), upper);
    CHECK(rename(at("lower.tar"), at("docker/lower.tar")) == 0);
    CHECK(rename(at("upper.tar"), at("docker/upper.tar")) == 0);
    (void) snprintf(
        text, sizeof(text),
        "{\"architecture\":\"%s\",\"config\":{\"Env\":[\"LANG=C\"],\"WorkingDir\":\"/srv\"},"
        "\"rootfs\":{\"diff_ids\":[\"sha256:%s\",\"sha256:%s\"]}}",
        our_arch(), lower, upper);
    write_text(at("docker/config.json"), text);
    (void) snprintf(
        text, sizeof(text),
        "[{\"Config\":\"config.json\",\"RepoTags\":null,\"Layers\":[\"%s\",\"upper.tar\"]}]",
        first_layer);
    write_text(at("docker/manifest.json"), text);
}

TEST(a_docker_archive_becomes_layers)
{
    outcome o;

    make_docker_dir("lower.tar");
    RUN("tar", "cf", at("docker.tar"), "-C", at("docker"), "manifest.json", "config.json",
        "lower.tar", "upper.tar");
    o = unpack(at("docker.tar"));
    check_layers(&o);
    CHECK_STR(o.source, "docker-archive");
}

TEST(a_docker_archive_is_checked_against_its_configuration)
{
    tar_maker tar;

    make_docker_dir("lower.tar");
    tar_begin(&tar, at("docker/lower.tar"));
    TAR_ADD(&tar, .name = "etc/a", .data = "forged");
    tar_end(&tar);
    CHECK_INT(unpack(at("docker")).result, CSN_E_INVALID);
}

TEST(a_docker_archive_names_no_file_of_the_machine)
{
    make_docker_dir("../lower.tar");
    CHECK_INT(unpack(at("docker")).result, CSN_E_INVALID);
}
