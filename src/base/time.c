#include "time.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>

int64_t csn_now_ns(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts); /* can't fail with this clock */
    return (int64_t) ts.tv_sec * CSN_NS_PER_S + ts.tv_nsec;
}

int64_t csn_wall_ms(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_REALTIME, &ts); /* can't fail with this clock */
    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / CSN_NS_PER_MS;
}

int64_t csn_steady_ms(void)
{
    static int64_t zero_ms; /* of CLOCK_BOOTTIME, on the wall clock */
    struct timespec ts;

    (void) clock_gettime(CLOCK_BOOTTIME, &ts); /* can't fail with this clock */
    int64_t boot_ms = (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / CSN_NS_PER_MS;
    if (zero_ms == 0)
        zero_ms = csn_wall_ms() - boot_ms;
    return zero_ms + boot_ms;
}

int64_t csn_deadline_in_ns(int64_t ns)
{
    int64_t deadline;

    if (ns < 0 || __builtin_add_overflow(csn_now_ns(), ns, &deadline))
        return CSN_NO_DEADLINE;
    return deadline;
}

int64_t csn_deadline_in_ms(int64_t ms)
{
    int64_t ns;

    if (ms < 0 || __builtin_mul_overflow(ms, CSN_NS_PER_MS, &ns))
        return CSN_NO_DEADLINE;
    return csn_deadline_in_ns(ns);
}

int64_t csn_deadline_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

bool csn_deadline_passed(int64_t deadline_ns)
{
    return deadline_ns != CSN_NO_DEADLINE && csn_now_ns() >= deadline_ns;
}

int64_t csn_remaining_ns(int64_t deadline_ns)
{
    if (deadline_ns == CSN_NO_DEADLINE)
        return CSN_NO_DEADLINE;
    int64_t now = csn_now_ns();
    return deadline_ns > now ? deadline_ns - now : 0;
}

int csn_remaining_ms(int64_t deadline_ns)
{
    int64_t ns = csn_remaining_ns(deadline_ns);

    if (ns == CSN_NO_DEADLINE)
        return -1;
    int64_t ms = ns / CSN_NS_PER_MS + (ns % CSN_NS_PER_MS ? 1 : 0);
    return ms > INT_MAX ? INT_MAX : (int) ms;
}

int csn_wait_fd(int fd, short events, int64_t deadline_ns)
{
    struct pollfd p = { .fd = fd, .events = events };

    for (;;) {
        int n = poll(&p, 1, csn_remaining_ms(deadline_ns));
        if (n > 0)
            return 1;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (csn_deadline_passed(deadline_ns))
            return 0;
    }
}

char *csn_iso8601(int64_t wall_ms, char out[CSN_ISO8601_SIZE])
{
    int64_t sec = wall_ms / 1000, ms = wall_ms % 1000;
    struct tm tm;

    if (ms < 0) {
        ms += 1000;
        sec--;
    }
    time_t t = (time_t) sec;
    if (!gmtime_r(&t, &tm) || tm.tm_year > 9999 - 1900 || tm.tm_year < -1900) {
        out[0] = '\0';
        return out;
    }
    size_t n = strftime(out, CSN_ISO8601_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    (void) snprintf(out + n, CSN_ISO8601_SIZE - n, ".%03uZ", (unsigned) ms % 1000u);
    return out;
}

/* Exactly n digits at *at, or -1. */
static int digits(const char **at, int n)
{
    int v = 0;

    for (int i = 0; i < n; i++, (*at)++) {
        if (**at < '0' || **at > '9')
            return -1;
        v = v * 10 + (**at - '0');
    }
    return v;
}

static bool eat(const char **at, char c)
{
    if (**at != c)
        return false;
    (*at)++;
    return true;
}

/* Days from 1970-01-01 in the Gregorian calendar; years 0…9999. The year starts in March, so that the leap day is
 * its last. */
static int64_t days_of(int year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
           719468;
}

static int days_in(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return month == 2 && is_leap ? 29 : days[month - 1];
}

static int parse_zone(const char **at, int *ret_minutes)
{
    *ret_minutes = 0;
    if (eat(at, 'Z'))
        return 0;
    int sign = eat(at, '+') ? 1 : eat(at, '-') ? -1 : 0;
    int h = sign ? digits(at, 2) : -1;
    int m = h >= 0 && eat(at, ':') ? digits(at, 2) : -1;
    if (m < 0 || m > 59 || h > 23)
        return -EINVAL;
    *ret_minutes = sign * (h * 60 + m);
    return 0;
}

static int parse_fraction_ms(const char **at, int *ret_ms)
{
    int unit = 100, n = 0;

    *ret_ms = 0;
    if (!eat(at, '.'))
        return 0;
    for (; **at >= '0' && **at <= '9'; (*at)++, n++, unit /= 10)
        *ret_ms += (**at - '0') * unit;
    return n > 0 && n <= 9 ? 0 : -EINVAL;
}

int csn_parse_iso8601(const char *text, int64_t *ret_wall_ms)
{
    const char *at = text;
    int ms, zone;

    int year = digits(&at, 4);
    int month = year >= 0 && eat(&at, '-') ? digits(&at, 2) : -1;
    int day = month > 0 && eat(&at, '-') ? digits(&at, 2) : -1;
    int hour = day > 0 && eat(&at, 'T') ? digits(&at, 2) : -1;
    int minute = hour >= 0 && eat(&at, ':') ? digits(&at, 2) : -1;
    int second = minute >= 0 && eat(&at, ':') ? digits(&at, 2) : -1;
    if (second < 0 || month > 12 || day > days_in(year, month) || hour > 23 || minute > 59 ||
        second > 60)
        return -EINVAL;
    if (parse_fraction_ms(&at, &ms) < 0 || parse_zone(&at, &zone) < 0 || *at)
        return -EINVAL;
    int64_t sec = days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    *ret_wall_ms = (sec - (int64_t) zone * 60) * 1000 + ms;
    return 0;
}
