/* SPDX-License-Identifier: Apache-2.0 */
/* Which cgroup hierarchies there are and where we stand in them. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "cgroup_impl.h"
#include "lines.h"

#define MAX_BYTES (1u << 20)

static const struct {
    const char *name;
    uint32_t bit;
} controllers[] = {
    { "memory", CSN_CG_MEMORY },   { "pids", CSN_CG_PIDS },       { "cpu", CSN_CG_CPU },
    { "cpuacct", CSN_CG_CPUACCT }, { "freezer", CSN_CG_FREEZER }, { "devices", CSN_CG_DEVICES },
};

/* One mounted hierarchy, before we know our place in it. */
struct found {
    bool is_v2;
    uint32_t controllers;
    char root[CSN_CGROUP_PATH_MAX];  /* what of the hierarchy is mounted there */
    char mount[CSN_CGROUP_PATH_MAX]; /* where */
};

struct search {
    size_t n;
    struct found found[CSN_CG_N + 1];
    int own_len;
    char own[4096]; /* /proc/self/cgroup */
};

static uint32_t bits_of(csn_str list, char sep)
{
    uint32_t bits = 0;
    csn_str word;

    while (csn_str_split(&list, sep, &word))
        for (size_t i = 0; i < CSN_COUNT(controllers); i++)
            if (csn_str_is(word, controllers[i].name))
                bits |= controllers[i].bit;
    return bits;
}

/* "36 35 98:0 /root /mount opts [optional…] - type source superopts". Paths with escapes (blanks)
 * are passed over: nobody mounts cgroups there. */
static void take_mount(struct search *s, csn_str line)
{
    csn_str root = { NULL, 0 }, mount = { NULL, 0 }, field;
    struct found f = { .is_v2 = false };

    for (int i = 0; i < 5; i++) {
        field = csn_lines_field(&line, ' ');
        root = i == 3 ? field : root;
        mount = i == 4 ? field : mount;
    }
    while ((field = csn_lines_field(&line, ' ')).len && !csn_str_is(field, "-"))
        continue;
    csn_str type = csn_lines_field(&line, ' ');
    f.is_v2 = csn_str_is(type, "cgroup2");
    if (!f.is_v2 && !csn_str_is(type, "cgroup"))
        return;
    (void) csn_lines_field(&line, ' '); /* the source says nothing */
    f.controllers = f.is_v2 ? 0 : bits_of(csn_lines_field(&line, ' '), ',');
    if ((!f.is_v2 && !f.controllers) || s->n == CSN_COUNT(s->found) ||
        csn_str_find(root, '\\') >= 0 || csn_str_find(mount, '\\') >= 0)
        return;
    for (size_t i = 0; i < s->n; i++) /* mounted twice: the first will do */
        if (s->found[i].is_v2 == f.is_v2 && s->found[i].controllers == f.controllers)
            return;
    if (csn_str_copy(f.root, sizeof(f.root), root) == 0 &&
        csn_str_copy(f.mount, sizeof(f.mount), mount) == 0)
        s->found[s->n++] = f;
}

static int find_mounts(struct search *s)
{
    csn_lines lines;
    csn_str line;
    int r = csn_lines_open(&lines, AT_FDCWD, "/proc/self/mountinfo", MAX_BYTES);

    if (r < 0)
        return r;
    while ((r = csn_lines_next(&lines, &line)) > 0)
        take_mount(s, line);
    csn_lines_done(&lines);
    return r;
}

/* "4:memory:/path" or "0::/path": the path of the hierarchy that holds `f`. */
static int own_path(const struct search *s, const struct found *f, char out[CSN_CGROUP_PATH_MAX])
{
    csn_str rest = csn_str_n(s->own, (size_t) s->own_len), line, id, list;

    while (csn_str_split(&rest, '\n', &line)) {
        if (!csn_str_split(&line, ':', &id) || !csn_str_split(&line, ':', &list))
            continue;
        bool match = f->is_v2 ? csn_str_is(id, "0") && list.len == 0
                              : (bits_of(list, ',') & f->controllers) != 0;
        if (match)
            return csn_str_copy(out, CSN_CGROUP_PATH_MAX, line);
    }
    return -ENOENT;
}

/* The leaf of cgroup_divide.c is inside the group we divide. */
static void strip_engine(char *path)
{
    char *last = strrchr(path, '/');

    if (last && !strcmp(last + 1, CSN_CGROUP_ENGINE))
        *last = '\0';
}

/* The directory of our own group, as far as it is to be seen from here. */
static int own_dir(const struct search *s, const struct found *f, char out[CSN_CGROUP_PATH_MAX])
{
    char path[CSN_CGROUP_PATH_MAX];
    const char *below = path;
    size_t root_len = strlen(f->root);
    int r = own_path(s, f, path);

    if (r < 0)
        return r;
    if (strcmp(f->root, "/") != 0) {
        if (strncmp(path, f->root, root_len) != 0 || (path[root_len] && path[root_len] != '/'))
            return -ENOENT; /* another part of the hierarchy is mounted */
        below = path + root_len;
    }
    if (strstr(below, "/..")) /* outside of our cgroup namespace */
        return -ENOENT;
    if (!strcmp(below, "/"))
        below = "";
    int n = snprintf(out, CSN_CGROUP_PATH_MAX, "%s%s", f->mount, below);
    if (n < 0 || n >= CSN_CGROUP_PATH_MAX)
        return -ENAMETOOLONG;
    strip_engine(out);
    return 0;
}

static bool is_writable(const char *dir, const char *file)
{
    char path[CSN_CGROUP_PATH_MAX + 32];
    int n = snprintf(path, sizeof(path), "%s/%s", dir, file);

    return n > 0 && (size_t) n < sizeof(path) &&
           faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) == 0 &&
           faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

static uint32_t v2_available(const char *dir, const char *file)
{
    char path[CSN_CGROUP_PATH_MAX + 32], text[512];
    int n = snprintf(path, sizeof(path), "%s/%s", dir, file);

    if (n < 0 || (size_t) n >= sizeof(path))
        return 0;
    n = csn_small_read(AT_FDCWD, path, text, sizeof(text));
    uint32_t bits = n < 0 ? 0 : bits_of(csn_str_trim(csn_str_n(text, (size_t) n)), ' ');
    return (bits & CSN_CG_LIMITS) | CSN_CG_FREEZER | (bits & CSN_CG_CPU ? CSN_CG_CPUACCT : 0);
}

static bool have_systemd(void)
{
    return access("/run/systemd/system", F_OK) == 0;
}

/* ---- whose group it is ---- */

/* systemd marks the groups it has handed over. */
static bool is_marked(const char *dir)
{
    char value[4];

    return getxattr(dir, "user.delegate", value, sizeof(value)) > 0 ||
           getxattr(dir, "trusted.delegate", value, sizeof(value)) > 0; /* for root only */
}

static bool may_divide(const char *dir)
{
    return is_writable(dir, "cgroup.subtree_control") && is_writable(dir, "cgroup.procs");
}

/* From `dir` to its parent; false at `top`. */
static bool go_up(char *dir, const char *top)
{
    char *slash = strrchr(dir, '/');

    if (!strcmp(dir, top) || !slash || (size_t) (slash - dir) < strlen(top))
        return false;
    *slash = '\0';
    return true;
}

/* The first number in a file of a group; -1: "max", or no such file. */
static int64_t read_limit(const char *dir, const char *file)
{
    char path[CSN_CGROUP_PATH_MAX + 32];
    uint64_t value;
    int n = snprintf(path, sizeof(path), "%s/%s", dir, file);

    if (n < 0 || (size_t) n >= sizeof(path) || csn_small_read_u64(AT_FDCWD, path, &value) < 0 ||
        value > INT64_MAX)
        return -1;
    return (int64_t) value;
}

/* Whether memory or processors are limited in this group. */
static bool has_limit(const char *dir)
{
    static const char *const files[] = { "memory.max", "memory.high", "cpu.max", "cpuset.cpus" };
    char path[CSN_CGROUP_PATH_MAX + 32], text[64];

    for (size_t i = 0; i < CSN_COUNT(files); i++) {
        int n = snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
        n = n < 0 || (size_t) n >= sizeof(path) ? -1 : csn_small_read(AT_FDCWD, path, text, sizeof(text));
        if (n > 0 && strncmp(text, "max", 3) != 0 &&
            csn_str_trim(csn_str_n(text, (size_t) n)).len > 0)
            return true;
    }
    return false;
}

/* The nearest group from ours up that was handed over, if no limit is left behind on the way. That a user may write to his
 * unit's group does not make it his: an out-of-memory kill anywhere below it counts as the unit's own, and systemd then ends
 * the whole unit. His manager's group is one that was handed over. */
static bool find_marked(const char *top, const char *own, char out[CSN_CGROUP_PATH_MAX])
{
    (void) csn_str_copy(out, CSN_CGROUP_PATH_MAX, csn_str_of(own)); /* as long as itself */
    do {
        if (is_marked(out) && may_divide(out))
            return true;
    } while (!has_limit(out) && go_up(out, top));
    return false;
}

/* The smallest limit of processes from `own` up to, but not in, `to`. systemd has one on every unit, so it is no reason to
 * stay below; but no sandbox gets more. */
static int64_t pids_left_behind(const char *own, const char *to)
{
    char dir[CSN_CGROUP_PATH_MAX];
    int64_t least = 0;

    (void) csn_str_copy(dir, sizeof(dir), csn_str_of(own)); /* as long as itself */
    while (strcmp(dir, to) != 0) {
        int64_t limit = read_limit(dir, "pids.max");
        if (limit > 0 && (least == 0 || limit < least))
            least = limit;
        if (!go_up(dir, to))
            break;
    }
    return least;
}

/* A group at the top would be outside of such a limit. */
static bool is_below_limit(const char *top, const char *own)
{
    char dir[CSN_CGROUP_PATH_MAX];

    (void) csn_str_copy(dir, sizeof(dir), csn_str_of(own)); /* as long as itself */
    while (strcmp(dir, top) != 0) {
        if (has_limit(dir))
            return true;
        if (!go_up(dir, top))
            break;
    }
    return false;
}

bool csn_cgroup_v2_choose(const char *top, const char *own, bool is_root, bool has_systemd,
                          csn_cgroup_hierarchy *h)
{
    bool is_found = has_systemd ? find_marked(top, own, h->path) : may_divide(own);

    if (is_found && !has_systemd)
        (void) csn_str_copy(h->path, sizeof(h->path), csn_str_of(own)); /* fits: as long as itself */
    if (!is_found && is_root && may_divide(top) && !is_below_limit(top, own)) {
        (void) csn_str_copy(h->path, sizeof(h->path), csn_str_of(top)); /* fits, likewise */
        is_found = true;
    }
    if (is_found) {
        h->controllers = v2_available(h->path, "cgroup.controllers");
        h->is_top = !strcmp(h->path, top);
        h->left_pids = pids_left_behind(own, h->path);
    }
    return is_found;
}

static bool probe_v2(const struct search *s, const struct found *f, csn_cgroup_hierarchy *h)
{
    char own[CSN_CGROUP_PATH_MAX];
    bool is_whole = !strcmp(f->root, "/");

    return own_dir(s, f, own) == 0 &&
           csn_cgroup_v2_choose(f->mount, own, geteuid() == 0 && is_whole, have_systemd(), h);
}

static void use_v2(csn_cgroup_host *host, const csn_cgroup_hierarchy *h)
{
    host->rung = CSN_CGROUP_V2;
    host->n_hierarchies = 1;
    host->hierarchies[0] = *h;
    host->controllers = h->controllers;
}

/* v1: the file is in the hierarchy's own root group only, not in what a container sees as its root. */
static bool is_true_top(const char *dir)
{
    char path[CSN_CGROUP_PATH_MAX + 32];
    int n = snprintf(path, sizeof(path), "%s/release_agent", dir);

    return n > 0 && (size_t) n < sizeof(path) && access(path, F_OK) == 0;
}

static void probe_v1(const struct search *s, csn_cgroup_host *host)
{
    for (size_t i = 0; i < s->n && host->n_hierarchies < CSN_CG_N; i++) {
        csn_cgroup_hierarchy *h = &host->hierarchies[host->n_hierarchies];
        if (s->found[i].is_v2 || own_dir(s, &s->found[i], h->path) < 0 ||
            !is_writable(h->path, "tasks"))
            continue;
        h->controllers = s->found[i].controllers;
        h->is_top = is_true_top(h->path);
        host->controllers |= h->controllers;
        host->n_hierarchies++;
    }
    if (host->controllers & CSN_CG_LIMITS)
        host->rung = CSN_CGROUP_V1;
}

/* A user's systemd can make a scope that belongs to us. */
static bool user_systemd(void)
{
    const char *dir = getenv("XDG_RUNTIME_DIR");
    char path[256];

    if (geteuid() == 0 || !dir || !have_systemd())
        return false;
    int n = snprintf(path, sizeof(path), "%s/systemd/private", dir);
    return n > 0 && (size_t) n < sizeof(path) && access(path, F_OK) == 0;
}

/* v2 when it can do all that is asked, else v1, else what little v2 can do. */
int csn_cgroup_probe(csn_cgroup_host *ret_host)
{
    csn_cgroup_hierarchy v2 = { .controllers = 0 };
    struct search s = { .n = 0 };
    int r = find_mounts(&s);

    if (r < 0)
        return r;
    s.own_len = csn_small_read(AT_FDCWD, "/proc/self/cgroup", s.own, sizeof(s.own));
    if (s.own_len < 0)
        return s.own_len;
    memset(ret_host, 0, sizeof(*ret_host));
    for (size_t i = 0; i < s.n; i++)
        if (s.found[i].is_v2 && !probe_v2(&s, &s.found[i], &v2))
            v2.controllers = 0;
    if ((v2.controllers & CSN_CG_LIMITS) != CSN_CG_LIMITS)
        probe_v1(&s, ret_host);
    if (ret_host->rung == CSN_CGROUP_NONE && v2.controllers & CSN_CG_LIMITS)
        use_v2(ret_host, &v2);
    if (ret_host->rung == CSN_CGROUP_NONE) {
        memset(ret_host, 0, sizeof(*ret_host));
        ret_host->can_delegate = user_systemd();
    }
    return 0;
}
