#include "hostbase.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "hostetc.h"
#include "image.h"
#include "kern/way.h"
#include "tree.h"

/* Theory of operation. A host-based sandbox sees the machine's /usr and, for all else, a small tree made here: some
 * empty directories, some files written from scratch, some copied from an explicit list (hostetc.c). The tree is a layer
 * named after the state of its sources. When the machine changes (ldconfig ran, an alternative was switched), the next
 * resolve makes another layer beside it; sandboxes that run keep theirs, csn_layer_sweep() takes it when they are gone.
 * It is made under a temporary name and renamed, so a layer with a proper name is always whole. */

enum { USER_ID = 1000 };

static const struct dir {
    const char *path;
    mode_t mode;
    uid_t owner;
} dirs[] = {
    { "dev", 0755, 0 },       { "etc", 0755, 0 },
    { "home", 0755, 0 },      { "home/daytona", 0755, USER_ID },
    { "media", 0755, 0 },     { "mnt", 0755, 0 },
    { "opt", 0755, 0 },       { "proc", 0555, 0 },
    { "opt/caisson", 0755, 0 }, { "opt/caisson/bin", 0755, 0 },
    { "root", 0700, 0 },      { "run", 0755, 0 },
    { "run/lock", 01777, 0 }, { "srv", 0755, 0 },
    { "tmp", 01777, 0 },      { "usr", 0755, 0 },
    { "var", 0755, 0 },       { "var/cache", 0755, 0 },
    { "var/lib", 0755, 0 },   { "var/log", 0755, 0 },
    { "var/spool", 0755, 0 }, { "var/tmp", 01777, 0 },
};

static const struct link {
    const char *path;
    const char *target;
} links[] = {
    { "etc/mtab", "../proc/self/mounts" },
    { "opt/caisson/bin/python", "/usr/bin/python3" }, /* last on PATH: the machine's own wins */
    { "var/lock", "/run/lock" },
    { "var/run", "/run" },
};

static const char *const top_links[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

#define PATH_LINE "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/caisson/bin"

/* Programs written for Daytona call ts-node; most machines have esbuild at most. The compiled file lies beside its
 * source, where node looks for modules. */
static const char ts_node_text[] =
    "#!/bin/sh\n"
    "# Stands in for ts-node with esbuild and node: types are taken away, not checked.\n"
    "is_text=\n"
    "while [ $# -gt 0 ]; do\n"
    "    case $1 in\n"
    "    -e | --eval) is_text=1 text=$2 && shift 2 ;;\n"
    "    -O | --compilerOptions | --compiler-options | -P | --project | --cwd | -r | --require) shift 2 ;;\n"
    "    -v | --version) exec esbuild --version ;;\n"
    "    -*) shift ;;\n"
    "    *) break ;;\n"
    "    esac\n"
    "done\n"
    "if [ -n \"$is_text\" ]; then\n"
    "    printf '%s\\n' \"$text\" |\n"
    "        esbuild --loader=ts --format=cjs --platform=node --log-level=error >\"/tmp/ts-node.$$.cjs\" || exit 1\n"
    "    out=/tmp/ts-node.$$.cjs\n"
    "else\n"
    "    [ $# -gt 0 ] || { echo 'ts-node: a file, or -e TEXT' >&2 && exit 2; }\n"
    "    out=${1%.*}.$$.cjs\n"
    "    [ -w \"$(dirname \"$1\")\" ] || out=/tmp/ts-node.$$.cjs\n"
    "    esbuild \"$1\" --bundle --packages=external --format=cjs --platform=node --log-level=error \\\n"
    "        --outfile=\"$out\" || exit 1\n"
    "    shift\n"
    "fi\n"
    "trap 'rm -f \"$out\"' EXIT\n"
    "node \"$out\" \"$@\"\n";

/* %s: the login shell. */
static const char passwd_text[] = "root:x:0:0:root:/root:%s\n"
                                  "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                                  "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
                                  "sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
                                  "daytona:x:1000:1000:daytona:/home/daytona:%s\n"
                                  "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";

static const struct file {
    const char *path;
    const char *text;
    uid_t owner;
} files[] = {
    { "etc/group",
      "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nmail:x:8:\n"
      "utmp:x:43:\nstaff:x:50:\nusers:x:100:\ndaytona:x:1000:\nnogroup:x:65534:\n",
      0 },
    { "etc/hosts",
      "127.0.0.1\tlocalhost caisson\n::1\tlocalhost ip6-localhost ip6-loopback caisson\n", 0 },
    { "etc/hostname", "caisson\n", 0 },
    { "etc/resolv.conf", "nameserver 198.18.0.3\n", 0 }, /* the user-mode network's own resolver */
    { "etc/nsswitch.conf",
      "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
      "protocols: files\nservices: files\nethers: files\nrpc: files\n",
      0 },
    { "etc/environment", "PATH=\"" PATH_LINE "\"\n", 0 },
    { "etc/profile",
      "PS1='$ '\n"
      "PATH=\"${PATH:-" PATH_LINE "}\"\nexport PATH\n"
      "[ -n \"$BASH_VERSION\" ] && [ -r /etc/bash.bashrc ] && . /etc/bash.bashrc\n:\n",
      0 },
    { "etc/shells", "/bin/sh\n/bin/bash\n/usr/bin/sh\n/usr/bin/bash\n", 0 },
    { "etc/fstab", "", 0 },
    { "home/daytona/.profile",
      "[ -n \"$BASH_VERSION\" ] && [ -r ~/.bashrc ] && . ~/.bashrc\nPATH=\"$HOME/.local/bin:$PATH\"\n",
      USER_ID },
    { "home/daytona/.bashrc",
      "case $- in *i*) ;; *) return ;; esac\nHISTCONTROL=ignoreboth\nshopt -s checkwinsize\n"
      "PS1='\\u@\\h:\\w\\$ '\nalias ls='ls --color=auto'\n",
      USER_ID },
};

/* Without privilege all files are the same user's, who is uid 1000 inside: give_all() */
static int give(int dirfd, const char *path, uid_t owner)
{
    if (csn_way_find() != CSN_WAY_PRIVILEGED)
        return 0;
    return fchownat(dirfd, path, owner, (gid_t) owner, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int make_dirs(int root_fd)
{
    for (size_t i = 0; i < CSN_COUNT(dirs); i++) {
        const struct dir *d = &dirs[i];
        int r;

        if (mkdirat(root_fd, d->path, 0700) < 0 && errno != EEXIST)
            return -errno;
        r = give(root_fd, d->path, d->owner);
        if (r < 0)
            return r;
        if (fchmodat(root_fd, d->path, d->mode, 0) < 0) /* mkdir heeds the caller's umask */
            return -errno;
    }
    return 0;
}

static int make_links(int root_fd)
{
    for (size_t i = 0; i < CSN_COUNT(links); i++)
        if (symlinkat(links[i].target, root_fd, links[i].path) < 0)
            return -errno;
    for (size_t i = 0; i < CSN_COUNT(top_links); i++) {
        char target[32];

        if (!csn_hostetc_is_merged(top_links[i])) /* copied whole by csn_hostetc_copy() */
            continue;
        (void) snprintf(target, sizeof(target), "usr/%s", top_links[i]); /* short: ours */
        if (symlinkat(target, root_fd, top_links[i]) < 0)
            return -errno;
    }
    return 0;
}

static int write_file(int root_fd, const char *path, const char *text, uid_t owner, mode_t mode)
{
    csn_auto(fd) int fd = -1;
    int r;

    fd = openat(root_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EEXIST ? 0 : -errno; /* the machine's own copy came first */
    r = csn_write_all(fd, text, strlen(text));
    if (r < 0)
        return r;
    if (fchmod(fd, mode) < 0)
        return -errno;
    return give(root_fd, path, owner);
}

static int write_files(int root_fd)
{
    const char *shell = access("/usr/bin/bash", X_OK) == 0 || access("/bin/bash", X_OK) == 0
                            ? "/bin/bash"
                            : "/bin/sh";
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    int r;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    csn_buf_printf(&text, passwd_text, shell, shell);
#pragma GCC diagnostic pop
    r = text.error < 0 ? text.error : write_file(root_fd, "etc/passwd", text.data, 0, 0644);
    for (size_t i = 0; r == 0 && i < CSN_COUNT(files); i++)
        r = write_file(root_fd, files[i].path, files[i].text, files[i].owner, 0644);
    return r < 0 ? r : write_file(root_fd, "opt/caisson/bin/ts-node", ts_node_text, 0, 0755);
}

/* A root that is not the machine's makes them for another user. */
static int give_all(int root_fd)
{
    csn_owner owner = { .is_other = false };

    if (csn_way_find() == CSN_WAY_PRIVILEGED || csn_way_owner(&owner))
        return 0;
    return owner.is_other ? csn_tree_give(root_fd, ".", owner.uid, owner.gid) : 0;
}

static const struct step {
    const char *name;
    int (*run)(int root_fd);
} steps[] = {
    { "make directories", make_dirs },
    { "make links", make_links },
    { "copy the machine's files", csn_hostetc_copy },
    { "write files", write_files }, /* after the copies, which win */
    { "give them to the sandboxes' user", give_all },
};

static int fill(int tmp_fd, csn_error *err)
{
    csn_auto(fd) int root_fd = -1;
    csn_owner owner;
    const char *why_not = csn_way_find() == CSN_WAY_PRIVILEGED ? NULL : csn_way_owner(&owner);
    int r = 0;

    if (why_not)
        return csn_fail(err, CSN_E_UNSUPPORTED, "%s", why_not);
    root_fd = csn_tree_open_dir(tmp_fd, "root", 0755);
    if (root_fd < 0)
        return csn_fail_sys(err, root_fd, "make the base of image 'host'");
    if (fchmod(root_fd, 0755) < 0)
        return csn_fail_sys(err, -errno, "make the base of image 'host'");
    for (size_t i = 0; i < CSN_COUNT(steps); i++) {
        r = steps[i].run(root_fd);
        if (r < 0)
            return csn_fail_sys(err, r, "make the base of image 'host': %s", steps[i].name);
    }
    return CSN_OK;
}

/* With the lock held: makes the layer unless another process did meanwhile. */
static int make_layer(int layers_fd, const char *layer, csn_error *err)
{
    csn_auto(fd) int tmp_fd = -1;
    char tmp[48], id[17];
    int r;

    if (faccessat(layers_fd, layer, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return CSN_OK;
    r = csn_id_hex(id, 8);
    if (r < 0)
        return csn_fail_sys(err, r, "name a layer");
    (void) snprintf(tmp, sizeof(tmp), ".tmp-%s", id); /* fits */
    tmp_fd = csn_tree_open_dir(layers_fd, tmp, 0700);
    if (tmp_fd < 0 || flock(tmp_fd, LOCK_EX | LOCK_NB) < 0)
        return csn_fail_sys(err, tmp_fd < 0 ? tmp_fd : -errno, "make layer '%s'", layer);
    r = fill(tmp_fd, err);
    if (r == CSN_OK) {
        int e =
            fchmod(tmp_fd, 0755) < 0 ? -errno : csn_tree_rename(layers_fd, tmp, layers_fd, layer);

        if (e < 0)
            r = csn_fail_sys(err, e, "name layer '%s'", layer);
    }
    if (r < 0)
        (void) csn_tree_remove(layers_fd, tmp); /* the first mistake is the one to report */
    return r;
}

/* One directory may serve the machine's root and, in a container, one that is not: the files of each are others'. */
static uint64_t way_stamp(void)
{
    csn_owner owner;

    if (geteuid() != 0 || csn_way_find() == CSN_WAY_PRIVILEGED || csn_way_owner(&owner))
        return 0;
    return (uint64_t) owner.uid + 1;
}

void csn_hostbase_name(char ret_layer[65])
{
    (void) snprintf(ret_layer, 65, "host-%016" PRIx64,
                    csn_hostetc_stamp() ^ way_stamp()); /* fits */
}

static int find(int state_fd, const char *layer, char ret_layer[65])
{
    char path[96];

    (void) snprintf(path, sizeof(path), "layers/%s/root", layer); /* fits */
    if (faccessat(state_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 1;
    memcpy(ret_layer, layer, 65);
    return CSN_OK;
}

int csn_hostbase_find(int state_fd, char ret_layer[65])
{
    char layer[65];

    csn_hostbase_name(layer);
    return find(state_fd, layer, ret_layer);
}

int csn_hostbase_prepare(int state_fd, char ret_layer[65], csn_error *err)
{
    csn_auto(fd) int layers_fd = -1, hold_fd = -1, lock_fd = -1;
    char layer[65];
    int r;

    csn_hostbase_name(layer);
    if (find(state_fd, layer, ret_layer) == CSN_OK)
        return CSN_OK;
    r = csn_layers_hold(state_fd, &hold_fd, err);
    if (r < 0)
        return r;
    layers_fd = csn_tree_open_dir(state_fd, "layers", 0700);
    if (layers_fd < 0)
        return csn_fail_sys(err, layers_fd, "open the layers' directory");
    lock_fd = openat(layers_fd, ".lock-host", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock_fd < 0 || flock(lock_fd, LOCK_EX) < 0)
        return csn_fail_sys(err, -errno, "lock the layers");
    r = make_layer(layers_fd, layer, err);
    if (r == CSN_OK)
        memcpy(ret_layer, layer, sizeof(layer));
    return r;
}
