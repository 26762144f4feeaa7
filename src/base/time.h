/* Clocks and deadlines. A deadline is an absolute CLOCK_MONOTONIC time in ns that is carried down through calls, so
 * retries can't stretch it. */
#ifndef CSN_BASE_TIME_H
#define CSN_BASE_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CSN_NO_DEADLINE INT64_MAX
#define CSN_NS_PER_MS   INT64_C(1000000)
#define CSN_NS_PER_S    INT64_C(1000000000)

int64_t csn_now_ns(void);  /* CLOCK_MONOTONIC */
int64_t csn_wall_ms(void); /* ms since 1970, CLOCK_REALTIME */
/* ms since 1970 as the wall clock had it when this process first asked, and the time that went by since then, the machine's
 * sleep included: for what is due after some time, whatever the wall clock is set to meanwhile. One thread asks first. */
int64_t csn_steady_ms(void);

/* now + ns; negative or overflowing: CSN_NO_DEADLINE. */
int64_t csn_deadline_in_ns(int64_t ns);
int64_t csn_deadline_in_ms(int64_t ms); /* negative: CSN_NO_DEADLINE */
int64_t csn_deadline_min(int64_t a, int64_t b);
bool csn_deadline_passed(int64_t deadline_ns);

/* For poll() and epoll_wait(): -1 for CSN_NO_DEADLINE, else 0…INT_MAX, rounded up, so that a wait doesn't end
 * before the deadline. */
int csn_remaining_ms(int64_t deadline_ns);
int64_t csn_remaining_ns(int64_t deadline_ns); /* >= 0; CSN_NO_DEADLINE stays */

/* poll() one descriptor: 1 ready, 0 the deadline passed, -errno. `events` as in poll(). */
int csn_wait_fd(int fd, short events, int64_t deadline_ns);

#define CSN_ISO8601_SIZE 32 /* "2024-02-29T12:34:56.789Z" */

/* UTC with milliseconds. Returns out. */
char *csn_iso8601(int64_t wall_ms, char out[CSN_ISO8601_SIZE]);

/* "YYYY-MM-DDTHH:MM:SS[.fraction](Z|±HH:MM)": 0 or -EINVAL. */
int csn_parse_iso8601(const char *text, int64_t *ret_wall_ms);

#endif
