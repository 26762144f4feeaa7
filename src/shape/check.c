/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for single values. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "shape/create.h"

int csn_shape_check_name(const char *name, csn_error *err)
{
    size_t len = strlen(name);

    if (len > CSN_SHAPE_NAME_MAX)
        return csn_fail(err, CSN_E_INVALID, "name is longer than %d bytes", CSN_SHAPE_NAME_MAX);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char) name[i] < 0x20 || name[i] == 0x7f || name[i] == '/')
            return csn_fail(err, CSN_E_INVALID, "name may not hold '/' or control characters");
    return CSN_OK;
}

/* Components of a path: none empty, none "." or "..". */
static bool has_odd_part(const char *path)
{
    csn_str rest = csn_str_of(path), part;

    while (csn_str_split(&rest, '/', &part))
        if (part.len == 0 || csn_str_is(part, ".") || csn_str_is(part, ".."))
            return true;
    return false;
}

/* More than a file system takes as one name. */
static bool has_long_part(const char *path)
{
    csn_str rest = csn_str_of(path), part;

    while (csn_str_split(&rest, '/', &part))
        if (part.len > 255)
            return true;
    return false;
}

static bool is_in_system_dir(const char *path)
{
    static const char *const dirs[] = { "/proc", "/sys",  "/dev", "/boot", "/etc",
                                        "/bin",  "/sbin", "/lib", "/lib64" };

    for (size_t i = 0; i < CSN_COUNT(dirs); i++) {
        size_t len = strlen(dirs[i]);
        if (strncmp(path, dirs[i], len) == 0 && (path[len] == '/' || path[len] == '\0'))
            return true;
    }
    return false;
}

static bool has_control(const char *s)
{
    for (; *s; s++)
        if ((unsigned char) *s < 0x20 || *s == 0x7f)
            return true;
    return false;
}

int csn_shape_check_mount(const char *path, const char *subpath, csn_error *err)
{
    size_t len = strlen(path);
    char bare[1024];

    if (path[0] != '/')
        return csn_fail(err, CSN_E_INVALID, "mount path must be absolute");
    if (len >= sizeof(bare))
        return csn_fail(err, CSN_E_INVALID, "mount path is longer than %zu bytes",
                        sizeof(bare) - 1);
    memcpy(bare, path, len + 1);
    if (len > 1 && bare[len - 1] == '/')
        bare[len - 1] = '\0'; /* one slash at the end says nothing */
    if (bare[1] == '\0')
        return csn_fail(err, CSN_E_INVALID, "mount path may not be '/'");
    if (has_odd_part(bare + 1) || has_control(bare))
        return csn_fail(err, CSN_E_INVALID,
                        "mount path may not hold '.', '..', '//' or control characters");
    if (has_long_part(bare + 1) || (subpath && has_long_part(subpath)))
        return csn_fail(err, CSN_E_INVALID, "a name in the path is longer than 255 bytes");
    if (is_in_system_dir(bare))
        return csn_fail(err, CSN_E_INVALID, "mount path may not be in a system directory");
    if (subpath && *subpath && (subpath[0] == '/' || has_odd_part(subpath) || has_control(subpath)))
        return csn_fail(err, CSN_E_INVALID, "subpath must be relative, without '.', '..' and '//'");
    return CSN_OK;
}

static bool is_number_up_to(csn_str s, uint64_t max)
{
    uint64_t v;

    return s.len <= 3 && csn_parse_u64(s, &v) == 0 && v <= max;
}

static bool is_cidr(csn_str s)
{
    ptrdiff_t slash = csn_str_find(s, '/');
    csn_str rest, part;
    int n = 0;

    if (slash < 0 ||
        !is_number_up_to(csn_str_n(s.data + slash + 1, s.len - (size_t) slash - 1), 32))
        return false;
    rest = csn_str_n(s.data, (size_t) slash);
    while (csn_str_split(&rest, '.', &part)) {
        if (!is_number_up_to(part, 255))
            return false;
        n++;
    }
    return n == 4;
}

static bool is_domain(csn_str s)
{
    csn_str part;

    if (csn_str_starts_with(s, CSN_STR("*.")))
        s = csn_str_n(s.data + 2, s.len - 2);
    if (s.len == 0 || s.len > 253)
        return false;
    while (csn_str_split(&s, '.', &part)) {
        if (part.len == 0 || part.len > 63 || part.data[0] == '-' || part.data[part.len - 1] == '-')
            return false;
        for (size_t i = 0; i < part.len; i++) {
            char c = part.data[i];
            if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-'))
                return false;
        }
    }
    return true;
}

static int check_list(const char *list, bool (*is_good)(csn_str), const char *what, csn_error *err)
{
    csn_str rest = csn_str_of(list), part;
    int n = 0;

    while (csn_str_split(&rest, ',', &part)) {
        if (++n > 10)
            return csn_fail(err, CSN_E_INVALID, "more than 10 entries in the list of %s", what);
        if (!is_good(csn_str_trim(part)))
            return csn_fail(err, CSN_E_INVALID, "the list of %s has an entry that is none", what);
    }
    return CSN_OK;
}

int csn_shape_check_cidrs(const char *list, csn_error *err)
{
    return check_list(list, is_cidr, "IPv4 networks (a.b.c.d/n)", err);
}

int csn_shape_check_domains(const char *list, csn_error *err)
{
    return check_list(list, is_domain, "domain names", err);
}

/* A positive number in `unit`s, at most `max` of them. */
static int read_amount(const csn_json *body, const char *key, int64_t unit, double max,
                       int64_t *ret, csn_error *err)
{
    const csn_json *v = csn_json_get(body, key);
    csn_json_type type = csn_json_type_of(v);

    if (type == CSN_JSON_NONE || type == CSN_JSON_NULL)
        return CSN_OK;
    double amount = csn_json_double(v, NAN);
    if (!(amount > 0 && amount <= max))
        return csn_fail(err, CSN_E_INVALID, "%s must be a number above 0 and at most %.0f", key,
                        max);
    int64_t whole = (int64_t) (amount * (double) unit);
    *ret = whole > 0 ? whole : 1;
    return CSN_OK;
}

int csn_shape_read_resources(const csn_json *body, int64_t *cpu_milli, int64_t *memory_bytes,
                             int64_t *disk_bytes, csn_error *err)
{
    int r = read_amount(body, "cpu", 1000, 1024, cpu_milli, err);

    if (r == CSN_OK)
        r = read_amount(body, "memory", CSN_GIB, 16384, memory_bytes, err);
    if (r == CSN_OK)
        r = read_amount(body, "disk", CSN_GIB, 65536, disk_bytes, err);
    if (r == CSN_OK && csn_json_get_double(body, "gpu", 0) != 0)
        return csn_fail(err, CSN_E_INVALID, "this server has no GPU to give");
    return r;
}
