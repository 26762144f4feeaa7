/* The parsers of foreign images. The first byte says which: index, manifest, docker manifest, configuration, the name of
 * an entry, or (all others) a tar through libarchive into a scratch directory. */
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "unpack/manifest.h"
#include "unpack/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void feed_config(const char *text, size_t len)
{
    static csn_image_config config;

    (void) csn_image_config_read(text, len, "amd64", &config,
                                 NULL); /* what it says doesn't matter here */
    csn_image_config_auto(&config);
    config = (csn_image_config){ .env = NULL };
}

static void feed_name(const char *text, size_t len)
{
    char out[CSN_ENTRY_PATH_MAX], shown[64], *name = strndup(text, len);

    if (name && csn_entry_path(name, 100, out) == 0 && (out[0] == '/' || strstr(out, "/../")))
        abort();
    if (name)
        (void) csn_entry_show(name, shown, sizeof(shown));
    free(name);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void) st;
    (void) flag;
    (void) ftw;
    return remove(path);
}

/* Below a fresh directory; what an entry may not do shows as a file beside it. */
static void feed_tar(const char *bytes, size_t len)
{
    csn_budget budget = {
        .max_bytes = 1 << 20, .max_files = 64, .max_ratio = 100, .max_depth = 20
    };
    char dir[] = "/tmp/csn-fuzz-XXXXXX", sha256[CSN_DIGEST_SIZE];
    csn_auto(fd) int fd = -1, root = -1;
    csn_tar_kind kind;
    csn_writer w;

    fd = memfd_create("tar", MFD_CLOEXEC);
    if (fd < 0 || csn_write_all(fd, bytes, len) < 0 || !mkdtemp(dir))
        return;
    root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void) lseek(fd, 0, SEEK_SET);         /* a memfd can */
    (void) csn_tar_sniff(fd, &kind, NULL); /* must only not crash */
    (void) lseek(fd, 0, SEEK_SET);
    csn_writer_init(&w, root, &budget, (csn_layer_ids){ .is_kept = geteuid() == 0 },
                    (len & 1) != 0);
    if (csn_tar_unpack(fd, &w, sha256, NULL) == CSN_OK)
        (void) csn_writer_finish(&w, NULL); /* likewise */
    csn_writer_done(&w);
    (void) nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS); /* a scratch directory */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static csn_manifest manifest;
    static csn_docker_manifest docker;
    static csn_descriptor descriptor;
    const char *text = (const char *) data + 1;

    if (size == 0 || csn_digest_prepare() < 0)
        return 0;
    size--;
    switch (data[0]) {
    case 'i':
        (void) csn_manifest_pick(text, size, "amd64", &descriptor, NULL); /* must only not crash */
        break;
    case 'm':
        (void) csn_manifest_read(text, size, &manifest, NULL);
        break;
    case 'd':
        (void) csn_docker_manifest_read(text, size, &docker, NULL);
        break;
    case 'c':
        feed_config(text, size);
        break;
    case 'n':
        feed_name(text, size);
        break;
    default:
        feed_tar(text, size);
    }
    return 0;
}
