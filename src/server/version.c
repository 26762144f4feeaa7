/* SPDX-License-Identifier: Apache-2.0 */
#include "server/version.h"

#include <string.h>
#include <strings.h>

bool csn_version_parse(const char *text, int ret_parts[3])
{
    const char *p = *text == 'v' ? text + 1 : text;

    for (int i = 0; i < 3; i++) {
        int n = 0, n_digits = 0;
        for (; *p >= '0' && *p <= '9'; p++, n_digits++)
            n = n > 100000 ? n : n * 10 + (*p - '0');
        ret_parts[i] = n;
        if (n_digits == 0 || (i < 2 && *p != '.'))
            return false;
        p += i < 2;
    }
    return true;
}

bool csn_version_is_below(const int version[3], int major, int minor)
{
    return version[0] < major || (version[0] == major && version[1] < minor);
}

csn_log_style csn_log_style_of(const char *version, const char *split)
{
    int parts[3];

    if (!version)
        return split && strcasecmp(split, "true") == 0 ? CSN_LOG_MARKED : CSN_LOG_PLAIN;
    if (strstr(version, "dev") || !csn_version_parse(version, parts) ||
        !csn_version_is_below(parts, 0, 167))
        return CSN_LOG_JSON;
    return csn_version_is_below(parts, 0, 27) ? CSN_LOG_PLAIN : CSN_LOG_MARKED;
}
