/* Debian images: mmdebstrap writes an archive, caisson-unpack makes a layer of it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "job.h"

enum { PACKAGES_MAX = 512, PACKAGE_SIZE = 128, OPTIONS_MAX = 16 };

/* Manuals and documents are for people; translations of messages too. */
static const char *const options[] = {
    "--variant=essential",
    "--mode=auto", /* root, else user namespaces */
    "--format=tar",
    "--quiet",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/info/*",
};

/* A name as dpkg has it, with "=version" or "/suite" behind: nothing that could be an option or a list. */
static bool is_package(const char *name)
{
    size_t len = strlen(name);

    if (len < 2 || len >= PACKAGE_SIZE - 16 ||
        !strchr("abcdefghijklmnopqrstuvwxyz0123456789", name[0]))
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.:=~/") ==
           len;
}

static int check_packages(const char *const *packages, size_t *ret_n, csn_error *err)
{
    size_t n = 0;

    for (; packages && packages[n]; n++) {
        if (n >= PACKAGES_MAX)
            return csn_fail(err, CSN_E_LIMIT, "more than %d packages", PACKAGES_MAX);
        if (!is_package(packages[n]))
            return csn_fail(err, CSN_E_INVALID, "'%.64s' is no Debian package name", packages[n]);
    }
    *ret_n = n;
    return CSN_OK;
}

/* The machine's own release, when it is a Debian; else what is stable. */
static void find_suite(char *out, size_t out_size)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_str rest, line, suite = CSN_STR("stable");
    bool is_debian = false;

    if (csn_read_file(AT_FDCWD, "/etc/os-release", &text, 64 << 10) == 0) {
        rest = csn_str_n(text.data, text.len);
        while (csn_str_split(&rest, '\n', &line)) {
            if (csn_str_is(line, "ID=debian"))
                is_debian = true;
            else if (csn_str_starts_with(line, CSN_STR("VERSION_CODENAME=")))
                suite = csn_str_n(line.data + 17, line.len - 17);
        }
    }
    if (!is_debian || suite.len == 0 || csn_str_copy(out, out_size, suite) < 0 ||
        strspn(out, "abcdefghijklmnopqrstuvwxyz") != strlen(out))
        (void) csn_str_copy(out, out_size, CSN_STR("stable")); /* fits */
}

/* Where this machine has its own packages from, when that is Debian's file of sources. */
static const char *find_sources(const char *suite)
{
    static const char *const paths[] = { "/etc/apt/sources.list.d/debian.sources",
                                         "/etc/apt/sources.list" };

    for (size_t i = 0; !csn_streq(suite, "stable") && i < CSN_COUNT(paths); i++) {
        csn_auto(buf) csn_buf text = CSN_BUF_INIT;

        if (csn_read_file(AT_FDCWD, paths[i], &text, 1 << 20) == 0 && strstr(text.data, suite))
            return paths[i];
    }
    return NULL;
}

static void on_built(csn_child *child, void *user)
{
    csn_image_job *job = user;
    csn_error err = { 0 };
    int r = CSN_OK;

    if (child->exit_code != 0) {
        csn_str said = csn_str_trim(csn_str_n(child->text.data, child->text.len));
        size_t last = said.len;

        while (last > 0 && said.data[last - 1] != '\n')
            last--;
        r = csn_fail(&err, CSN_E_SYSTEM, "build image '%s': mmdebstrap ended with %d: %.*s",
                     job->name, child->exit_code, (int) (said.len - last), said.data + last);
    } else if (lseek(job->source_fd, 0, SEEK_SET) < 0) {
        r = csn_fail_sys(&err, -errno, "build image '%s'", job->name);
    } else {
        r = csn_image_job_unpack(job, &err);
    }
    if (r < 0)
        csn_image_job_end(job, r, &err);
}

/* The archive lies in the temporary directory and goes with it. */
static int open_archive(csn_image_job *job, csn_error *err)
{
    job->source_fd = openat(job->tmp_fd, ".debian.tar",
                            O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return job->source_fd < 0 ? csn_fail_sys(err, -errno, "make the archive") : CSN_OK;
}

static int run_mmdebstrap(csn_image_job *job, char **argv, csn_error *err)
{
    csn_auto(fd) int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int r;

    if (null_fd < 0)
        return csn_fail_sys(err, -errno, "open '/dev/null'");
    r = csn_child_start(&job->child, job->images->loop, argv[0], argv,
                        (int[]){ null_fd, job->source_fd, -1 }, 3, 2, on_built, job, err);
    if (r == CSN_E_NOT_FOUND)
        return csn_fail(err, CSN_E_UNSUPPORTED, "mmdebstrap is missing: apt install mmdebstrap");
    return r;
}

/* argv of mmdebstrap. The "--include=…" texts are in `texts`. */
static void fill_argv(char **argv, char (*texts)[PACKAGE_SIZE], const char *const *packages,
                      size_t n, char *suite)
{
    static char program[] = "mmdebstrap", to_stdout[] = "-";
    const char *sources = find_sources(suite);
    size_t at = 0;

    argv[at++] = program;
    for (size_t i = 0; i < CSN_COUNT(options); i++)
        argv[at++] = (char *) options[i]; /* exec doesn't write to it */
    for (size_t i = 0; i < n; i++) {
        (void) snprintf(texts[i], PACKAGE_SIZE, "--include=%s", packages[i]); /* fits: checked */
        argv[at++] = texts[i];
    }
    argv[at++] = suite;
    argv[at++] = to_stdout;
    if (sources)
        argv[at++] = (char *) sources; /* likewise */
    argv[at] = NULL;
}

int csn_images_build_debian(csn_images *images, const char *name, const char *const *packages,
                            csn_op *op, csn_error *err)
{
    csn_auto(mem) char **argv = NULL;
    csn_auto(mem) char(*texts)[PACKAGE_SIZE] = NULL;
    csn_image_job *job = NULL;
    size_t n_packages = 0;
    char suite[32];
    int r = check_packages(packages, &n_packages, err);

    if (r < 0)
        return r;
    argv = csn_calloc(n_packages + OPTIONS_MAX, sizeof(*argv));
    texts = csn_calloc(n_packages + 1, sizeof(*texts));
    if (!argv || !texts)
        return csn_fail(err, CSN_E_NO_MEMORY, "build image '%s'", name);
    find_suite(suite, sizeof(suite));
    fill_argv(argv, texts, packages, n_packages, suite);
    r = csn_image_job_new(images, name, op, &job, err);
    if (r < 0)
        return r;
    job->source = "debian";
    r = open_archive(job, err);
    if (r == CSN_OK)
        r = run_mmdebstrap(job, argv, err);
    if (r < 0)
        r = csn_fail_in(err, r, "build image '%s'", name);
    return csn_image_job_begun(job, r);
}
