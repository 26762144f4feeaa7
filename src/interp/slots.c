/* A program that starts children recursively could fill the machine with sandboxes: so many may be alive at once, the next
 * one waits. Process-wide, since children run on threads of their own. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "interp.h"

enum { SLOTS = 5, SLOTS_MAX = 50, WAIT_S = 60 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER;
static int n_taken;

static int n_slots(void)
{
    const char *text = getenv("FLEET_MAX_CONCURRENT_SANDBOXES");
    int64_t n;

    if (!text || csn_parse_i64(csn_str_of(text), &n) < 0)
        return SLOTS;
    return n < 1 ? 1 : n > SLOTS_MAX ? SLOTS_MAX : (int) n;
}

int csn_slot_take(csn_interp *i, csn_error *err)
{
    struct timespec until;
    int r = 0, n = n_slots();

    if (i->has_slot)
        return CSN_OK;
    (void) clock_gettime(CLOCK_REALTIME, &until); /* the clock of pthread_cond_timedwait */
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&mutex);
    while (n_taken >= n && r == 0)
        r = pthread_cond_timedwait(&freed, &mutex, &until);
    if (n_taken < n) {
        n_taken++;
        i->has_slot = true;
    }
    pthread_mutex_unlock(&mutex);
    return i->has_slot
               ? CSN_OK
               : csn_fail(
                     err, CSN_E_TIMEOUT,
                     "%d sandboxes are alive and none ended within %d seconds (FLEET_MAX_CONCURRENT_SANDBOXES)",
                     n, WAIT_S);
}

void csn_slot_give_back(csn_interp *i)
{
    if (!i->has_slot)
        return;
    i->has_slot = false;
    pthread_mutex_lock(&mutex);
    n_taken--;
    pthread_cond_signal(&freed);
    pthread_mutex_unlock(&mutex);
}
