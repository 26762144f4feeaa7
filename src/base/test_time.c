#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/time.h"
#include "csn_test.h"

TEST(deadlines_are_absolute_and_bounded)
{
    int64_t now = csn_now_ns();

    CHECK(csn_deadline_in_ms(1000) >= now + CSN_NS_PER_S);
    CHECK_INT(csn_deadline_in_ms(-1), CSN_NO_DEADLINE);
    CHECK_INT(csn_deadline_in_ms(INT64_MAX), CSN_NO_DEADLINE);
    CHECK_INT(csn_deadline_in_ns(INT64_MAX), CSN_NO_DEADLINE);
    CHECK(csn_deadline_passed(now));
    CHECK(!csn_deadline_passed(CSN_NO_DEADLINE));
    CHECK_INT(csn_deadline_min(3, CSN_NO_DEADLINE), 3);
}

TEST(remaining_time_is_rounded_up)
{
    CHECK_INT(csn_remaining_ms(CSN_NO_DEADLINE), -1);
    CHECK_INT(csn_remaining_ms(0), 0);
    CHECK_INT(csn_remaining_ms(csn_now_ns() + 10 * CSN_NS_PER_S + 1), 10000 + 0);
    CHECK_INT(csn_remaining_ms(CSN_NO_DEADLINE - 1), INT_MAX);
}

TEST(waiting_ends_with_the_event_or_the_deadline)
{
    int p[2];

    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    CHECK_INT(csn_wait_fd(p[0], POLLIN, csn_deadline_in_ms(5)), 0);
    CHECK_INT(write(p[1], "x", 1), 1);
    CHECK_INT(csn_wait_fd(p[0], POLLIN, CSN_NO_DEADLINE), 1);
    csn_close(&p[0]);
    csn_close(&p[1]);
}

TEST(dates_are_written_and_read_alike)
{
    static const struct {
        int64_t ms;
        const char *text;
    } dates[] = {
        { 0, "1970-01-01T00:00:00.000Z" },
        { 951827696789, "2000-02-29T12:34:56.789Z" },
        { -1, "1969-12-31T23:59:59.999Z" },
        { 4102444800000, "2100-01-01T00:00:00.000Z" },
    };
    char out[CSN_ISO8601_SIZE];
    int64_t ms;

    for (size_t i = 0; i < CSN_COUNT(dates); i++) {
        CHECK_STR(csn_iso8601(dates[i].ms, out), dates[i].text);
        CHECK_INT(csn_parse_iso8601(dates[i].text, &ms), 0);
        CHECK_INT(ms, dates[i].ms);
    }
    CHECK_INT(csn_parse_iso8601("2000-02-29T13:34:56.789123+01:00", &ms), 0);
    CHECK_INT(ms, 951827696789);
    CHECK(csn_wall_ms() > INT64_C(1600000000000));
}

TEST(dates_that_don_t_exist_are_refused)
{
    const char *bad[] = { "",
                          "2001-02-29T00:00:00Z",
                          "2001-13-01T00:00:00Z",
                          "2001-00-01T00:00:00Z",
                          "2001-01-00T00:00:00Z",
                          "2001-01-01T24:00:00Z",
                          "2001-01-01T00:00:00",
                          "2001-01-01T00:00:00Zx",
                          "2001-01-01 00:00:00Z",
                          "2001-01-01T00:00:00.Z",
                          "2001-01-01T00:00:00+1:00",
                          "2001-1-01T00:00:00Z" };
    int64_t ms;

    for (size_t i = 0; i < CSN_COUNT(bad); i++)
        CHECK_INT(csn_parse_iso8601(bad[i], &ms), -EINVAL);
}

/* The wall clock of this program, as far as it was set by a test. */
static int64_t wall_was_set_by_s;

int clock_gettime(clockid_t which, struct timespec *ret)
{
    int r = (int) syscall(SYS_clock_gettime, which, ret);

    if (r == 0 && which == CLOCK_REALTIME)
        ret->tv_sec += wall_was_set_by_s;
    return r;
}

TEST(a_wall_clock_that_is_set_moves_nothing_that_is_due)
{
    int64_t began = csn_steady_ms(), wall = csn_wall_ms();

    CHECK(began - wall < 1000 && wall - began < 1000);
    wall_was_set_by_s = 2 * 86400;
    CHECK(csn_wall_ms() >= wall + INT64_C(2) * 86400 * 1000);
    CHECK(csn_steady_ms() >= began && csn_steady_ms() < began + 60000);
    wall_was_set_by_s = -2 * 86400;
    CHECK(csn_steady_ms() >= began);
}
