#include "hostetc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/str.h"

/* Raised when the synthetic part of the layer changes: old layers are then not taken for new ones. */
#define LAYER_VERSION 3

enum { DEPTH_MAX = 8, FILE_MAX = 64 << 20 };

/* Relative to /etc, a pattern only in the last place. What an administrator may have put a password or a token in
 * (gitconfig, pip.conf, npmrc, wgetrc, profile.d, ssl/private …) is not here, and must not be. */
static const char *const etc_sources[] = {
    "ImageMagick-*",
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "default/locale",
    "ethertypes",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "java-*",
    "ld-musl-*.path",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "magic",
    "magic.mime",
    "matplotlibrc",
    "maven/logging",
    "maven/m2.conf",
    "mime.types",
    "netconfig",
    "networks",
    "os-release",
    "perl",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "protocols",
    "python3*",
    "rpc",
    "services",
    "shells",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
    "xattr.conf",
};

/* What is looked at on every create, so it is short: these change when the machine's programs, certificates or clock
 * do. A change of any other source is taken over with the next of these. */
static const char *const stamp_sources[] = {
    "/bin",
    "/lib",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/os-release",
    "/etc/ssl/certs",
};

/* On machines whose /bin isn't a link into /usr these are copied whole. */
static const char *const unmerged[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

/* Never copied, wherever they turn up. */
static const char *const refused[] = {
    "private", "modules", "firmware", "*.key", "*~", "*.dpkg-*"
};

typedef int visit_fn(int dirfd, const char *name, const char *dest, void *user);

static bool is_refused(const char *name)
{
    for (size_t i = 0; i < CSN_COUNT(refused); i++)
        if (fnmatch(refused[i], name, 0) == 0)
            return true;
    return false;
}

static int visit_matches(int dirfd, const char *pattern, const char *dest_dir, visit_fn *visit,
                         void *user)
{
    char dest[PATH_MAX];
    struct dirent *entry;
    DIR *dir;
    int r = 0, fd;

    fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    dir = fdopendir(fd);
    if (!dir) {
        csn_close(&fd);
        return -ENOMEM;
    }
    while (r == 0 && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.' || fnmatch(pattern, entry->d_name, 0) != 0)
            continue;
        if ((size_t) snprintf(dest, sizeof(dest), "%s%s", dest_dir, entry->d_name) < sizeof(dest))
            r = visit(dirfd, entry->d_name, dest, user);
    }
    (void) closedir(dir); /* only read from */
    return r;
}

/* One line of etc_sources. `dest` is relative to the new root: "etc/ssl/certs". */
static int visit_source(int etc_fd, const char *source, visit_fn *visit, void *user)
{
    const char *last = strrchr(source, '/');
    char parent[256], dest[512];
    csn_auto(fd) int dirfd = -1;

    last = last ? last + 1 : source;
    (void) snprintf(parent, sizeof(parent), "./%.*s", (int) (last - source),
                    source); /* short: ours */
    dirfd = openat(etc_fd, parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return errno == ENOENT || errno == EACCES ? 0 : -errno;
    (void) snprintf(dest, sizeof(dest), "etc/%.*s", (int) (last - source), source); /* the same */
    if (strchr(last, '*'))
        return visit_matches(dirfd, last, dest, visit, user);
    (void) snprintf(dest, sizeof(dest), "etc/%s", source); /* the same */
    return visit(dirfd, last, dest, user);
}

static int visit_all(visit_fn *visit, void *user)
{
    csn_auto(fd) int etc_fd = -1, root_fd = -1;
    int r = 0;

    etc_fd = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (etc_fd < 0 || root_fd < 0)
        return -errno;
    for (size_t i = 0; r == 0 && i < CSN_COUNT(etc_sources); i++)
        r = visit_source(etc_fd, etc_sources[i], visit, user);
    for (size_t i = 0; r == 0 && i < CSN_COUNT(unmerged); i++)
        if (!csn_hostetc_is_merged(unmerged[i]))
            r = visit(root_fd, unmerged[i], unmerged[i], user);
    return r;
}

bool csn_hostetc_is_merged(const char *name)
{
    char path[32], target[64];
    ssize_t n;

    (void) snprintf(path, sizeof(path), "/%.16s", name); /* short: ours */
    n = readlink(path, target, sizeof(target) - 1);
    if (n < 0)
        return false;
    target[n] = '\0';
    return csn_starts_with(target, "usr/") || csn_starts_with(target, "/usr/");
}

static void mix(uint64_t *hash, const void *data, size_t len)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i++)
        *hash = (*hash ^ p[i]) * UINT64_C(0x100000001b3);
}

static void mix_source(uint64_t *hash, const char *path)
{
    struct stat st;

    mix(hash, path, strlen(path) + 1);
    if (lstat(path, &st) < 0)
        return; /* isn't there: the name alone says so */
    mix(hash, &st.st_mode, sizeof(st.st_mode));
    mix(hash, &st.st_size, sizeof(st.st_size));
    mix(hash, &st.st_ino, sizeof(st.st_ino));
    mix(hash, &st.st_mtim.tv_sec, sizeof(st.st_mtim.tv_sec));
    mix(hash, &st.st_mtim.tv_nsec, sizeof(st.st_mtim.tv_nsec));
}

uint64_t csn_hostetc_stamp(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ LAYER_VERSION;

    for (size_t i = 0; i < CSN_COUNT(stamp_sources); i++)
        mix_source(&hash, stamp_sources[i]);
    return hash;
}

static int copy_bytes(int from, int to, off_t size)
{
    while (size > 0) {
        ssize_t n = sendfile(to, from, NULL, (size_t) size);

        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0) /* it shrank while we read */
            break;
        if (n > 0)
            size -= n;
    }
    return 0;
}

static int copy_file(int dirfd, const char *name, int to_dir, const char *to)
{
    csn_auto(fd) int in = -1, out = -1;
    struct stat st;
    mode_t mode;

    in = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (in < 0)
        return errno == ENOENT || errno == EACCES ? 0 : -errno;
    if (fstat(in, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH) || st.st_size > FILE_MAX)
        return 0;
    out = openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return errno == EEXIST ? 0 : -errno;
    mode = (st.st_mode & 0111) ? 0755 : 0644;
    if (fchmod(out, mode) < 0)
        return -errno;
    return copy_bytes(in, out, st.st_size);
}

static int copy_link(int dirfd, const char *name, int to_dir, const char *to)
{
    char target[PATH_MAX];
    ssize_t n;

    n = readlinkat(dirfd, name, target, sizeof(target) - 1);
    if (n < 0)
        return -errno;
    target[n] = '\0';
    return symlinkat(target, to_dir, to) < 0 && errno != EEXIST ? -errno : 0;
}

static int copy_any(int dirfd, const char *name, int to_dir, const char *to, unsigned depth);

static int copy_dir(int dirfd, const char *name, int to_dir, const char *to, unsigned depth)
{
    csn_auto(fd) int out = -1;
    struct dirent *entry;
    int fd, r = 0;
    DIR *dir;

    fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == EACCES ? 0 : -errno;
    if (mkdirat(to_dir, to, 0755) < 0 && errno != EEXIST)
        r = -errno;
    out = openat(to_dir, to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    dir = out >= 0 && r == 0 && fchmod(out, 0755) == 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        r = -errno;
        csn_close(&fd);
        return r;
    }
    while (r == 0 && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            r = copy_any(fd, entry->d_name, out, entry->d_name, depth + 1);
    (void) closedir(dir); /* only read from */
    return r;
}

static int copy_any(int dirfd, const char *name, int to_dir, const char *to, unsigned depth)
{
    struct stat st;

    if (is_refused(name) || depth > DEPTH_MAX)
        return 0;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT || errno == EACCES ? 0 : -errno;
    if (S_ISLNK(st.st_mode))
        return copy_link(dirfd, name, to_dir, to);
    if (S_ISREG(st.st_mode))
        return copy_file(dirfd, name, to_dir, to);
    if (S_ISDIR(st.st_mode) && (st.st_mode & S_IXOTH))
        return copy_dir(dirfd, name, to_dir, to, depth);
    return 0;
}

/* Makes the parents of `dest` below the new root, all ours. */
static int make_parents(int root_fd, const char *dest)
{
    char path[512];
    int r;

    r = csn_str_copy(path, sizeof(path), csn_str_of(dest));
    for (char *slash = path; r == 0 && (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdirat(root_fd, path, 0755) == 0)
            r = fchmodat(root_fd, path, 0755, 0) < 0 ? -errno : 0;
        else if (errno != EEXIST)
            r = -errno;
        *slash = '/';
    }
    return r;
}

static int copy_source(int dirfd, const char *name, const char *dest, void *user)
{
    int root_fd = *(int *) user;
    struct stat st;
    int r;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    r = make_parents(root_fd, dest);
    return r < 0 ? r : copy_any(dirfd, name, root_fd, dest, 0);
}

int csn_hostetc_copy(int root_fd)
{
    return visit_all(copy_source, &root_fd);
}
