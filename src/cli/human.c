/* Numbers for people. */
#include <stdio.h>

#include <caisson/engine.h>

#include "base/time.h"
#include "out.h"

enum { RING = 8, ROOM = 32 };

static char *next_buffer(void)
{
    static char ring[RING][ROOM];
    static unsigned at;

    return ring[at++ % RING];
}

const char *cli_size(int64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    double value = (double) bytes;
    char *out = next_buffer();
    size_t unit = 0;

    while (value >= 1023.95 && unit + 1 < CSN_COUNT(units)) {
        value /= 1024;
        unit++;
    }
    if (unit == 0 || value >= 99.95 || value == (double) (int64_t) value)
        (void) snprintf(out, ROOM, "%.0f %s", value, units[unit]);
    else
        (void) snprintf(out, ROOM, "%.1f %s", value, units[unit]);
    return out;
}

const char *cli_limit_size(int64_t bytes)
{
    return bytes == CSN_UNLIMITED ? "none" : cli_size(bytes);
}

const char *cli_duration_ms(int64_t ms)
{
    char *out = next_buffer();

    if (ms == CSN_UNLIMITED)
        return "none";
    if (ms < 1000)
        (void) snprintf(out, ROOM, "%lld ms", (long long) ms);
    else if (ms < 60000)
        (void) snprintf(out, ROOM, "%.4g s", (double) ms / 1000);
    else if (ms < 3600000)
        (void) snprintf(out, ROOM, "%.4g min", (double) ms / 60000);
    else
        (void) snprintf(out, ROOM, "%.4g h", (double) ms / 3600000);
    return out;
}

const char *cli_age(int64_t since_wall_ms)
{
    int64_t s = (csn_wall_ms() - since_wall_ms) / 1000;
    char *out = next_buffer();

    if (s < 0)
        s = 0;
    if (s < 60)
        (void) snprintf(out, ROOM, "%llds", (long long) s);
    else if (s < 3600)
        (void) snprintf(out, ROOM, "%lldm", (long long) s / 60);
    else if (s < 86400 * 2)
        (void) snprintf(out, ROOM, "%lldh", (long long) s / 3600);
    else
        (void) snprintf(out, ROOM, "%lldd", (long long) s / 86400);
    return out;
}
