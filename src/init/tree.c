/* SPDX-License-Identifier: Apache-2.0 */
#include "init/tree.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "init/sys.h"

enum {
    PID_MAX_EVER = 4194304,
    FIRST_PID_AFTER_WRAP = 300, /* RESERVED_PIDS */
    FORKS_PER_MS_EVER = 50,     /* nobody forks faster */
    CACHE_SIZE = 32768,         /* a power of 2 */
    CACHE_FULL = CACHE_SIZE / 2,
    STEPS_MAX = 65536,
    SPARING_PASSES = 60 /* two seconds: no program takes longer to start */
};

enum { /* whose a process is; else the index of its slot */
       OWNER_UNKNOWN = -1,
       OWNER_NOBODY = -2,
       OWNER_INIT = -3,    /* a worker: never a member of a tree */
       OWNER_PROCESS = -4, /* a thread: its process has a number of its own */
       OWNER_HIDDEN = -5   /* nobody can tell: dies with whoever dies first */
};

static struct known {
    pid_t pid, parent;
    int32_t owner;
    uint32_t look; /* entries of another look are free */
} cache[CACHE_SIZE];
static uint32_t this_look, n_cached;

/* The entry of pid, or a free one to fill, or NULL when the cache is full. */
static struct known *lookup(pid_t pid)
{
    uint32_t i = (uint32_t) pid * 2654435761u;

    for (;; i++) {
        struct known *k = &cache[i % CACHE_SIZE];
        if (k->look == this_look && k->pid == pid)
            return k;
        if (k->look != this_look)
            return n_cached < CACHE_FULL ? k : NULL;
    }
}

static struct known *remember(pid_t pid, pid_t parent, int owner)
{
    struct known *k = lookup(pid);

    if (!k)
        return NULL;
    n_cached += k->look != this_look;
    *k = (struct known){ pid, parent, owner, this_look };
    return k;
}

static int owner_if_known(pid_t pid, pid_t *ret_parent)
{
    const struct known *k = lookup(pid);

    if (!k || k->look != this_look)
        return OWNER_UNKNOWN;
    *ret_parent = k->parent;
    return k->owner;
}

/* "pid (comm) S ppid …": comm may hold anything, so the last ')' counts. */
int csn_tree_stat(pid_t pid, pid_t *ret_parent, char *ret_state)
{
    char path[32] = "/proc/", digits[12], text[512], *at;
    size_t n = 0, len = 6;
    int r;

    for (pid_t rest = pid; rest > 0; rest /= 10)
        digits[n++] = (char) ('0' + rest % 10);
    while (n > 0)
        path[len++] = digits[--n];
    memcpy(path + len, "/stat", 6);
    r = csn_sys_read_small(path, text, sizeof(text));
    at = r > 0 ? strrchr(text, ')') : NULL;
    if (!at || strlen(at) < 5)
        return -ENOENT;
    *ret_state = at[2];
    *ret_parent = (pid_t) strtol(at + 4, NULL, 10);
    return 0;
}

/* Before Linux 6.13 a hidden process has no known parent; but its session, if it still is one that we made, tells. */
static int owner_by_session(pid_t pid)
{
    pid_t session = getsid(pid);

    for (size_t i = 0; session > 0 && i < csn_n_slots; i++)
        if (csn_slots[i].process != 0 && atomic_load(&csn_slots[i].main_pid) == session)
            return (int) i;
    return OWNER_HIDDEN;
}

/* Remembers the parent and leaves the owner open, or says whose it is without one. */
static int ask_parent(pid_t pid, pid_t *ret_parent)
{
    char state;
    int r = csn_sys_ppid(pid, ret_parent);

    if (r == -ECHILD)
        return OWNER_PROCESS;
    if (r < 0)
        r = csn_tree_stat(pid, ret_parent, &state);
    if (r < 0)
        return owner_by_session(pid);
    remember(pid, *ret_parent, OWNER_UNKNOWN);
    return OWNER_UNKNOWN;
}

/* Climbs until somebody's owner is known. The way is remembered, so that a look costs each process one step. */
static int owner_of(pid_t pid)
{
    int owner = OWNER_UNKNOWN;
    pid_t at = pid, parent = 0;

    for (int steps = 0; owner == OWNER_UNKNOWN; steps++) {
        owner = owner_if_known(at, &parent);
        if (owner != OWNER_UNKNOWN)
            break;
        if (at <= 1 || steps == STEPS_MAX)
            owner = OWNER_NOBODY;
        else
            owner = ask_parent(at, &parent);
        if (owner == OWNER_UNKNOWN)
            at = parent;
    }
    for (pid_t p = pid; p > 1 && p != at && owner_if_known(p, &parent) == OWNER_UNKNOWN; p = parent)
        if (!remember(p, parent, owner))
            break;
    return owner;
}

/* Shepherds are tops of trees: whoever climbs to one belongs to it. */
static void remember_ours(void)
{
    this_look++;
    n_cached = 0;
    for (size_t i = 0; i < csn_n_slots; i++)
        if (csn_slots[i].process != 0 && csn_slots[i].shepherd > 0)
            remember(csn_slots[i].shepherd, 1, (int) i);
    for (int i = 0; i < CSN_WORKERS_MAX; i++)
        if (csn_workers[i] > 0)
            remember(csn_workers[i], 1, OWNER_INIT);
}

static pid_t highest_pid(void)
{
    char text[32];

    if (csn_sys_read_small("/proc/sys/kernel/pid_max", text, sizeof(text)) <= 0)
        return PID_MAX_EVER;
    return (pid_t) strtol(text, NULL, 10) - 1;
}

/* The number given last in this namespace: the fifth word of loadavg; -1: procfs does not say. */
static pid_t last_pid(void)
{
    char text[128], *at;

    if (csn_sys_read_small("/proc/loadavg", text, sizeof(text)) <= 0)
        return -1;
    at = strrchr(text, ' ');
    return at ? (pid_t) strtol(at + 1, NULL, 10) : -1;
}

int64_t csn_tasks_since(pid_t pid)
{
    pid_t last = last_pid();

    if (last < 0)
        return 1;
    return last >= pid ? last - pid
                       : (int64_t) last - pid + highest_pid() + 1 - FIRST_PID_AFTER_WRAP;
}

/* Whom a look is for. */
typedef struct csn_aim {
    int owner, sig;
    int takes_hidden, spares_hidden; /* neither: they are nobody's concern */
    size_t n_spared;
} csn_aim;

/* Between its clone and its exec a program is as hidden as its shepherd, whose memory it has. */
static int is_another_starting(const csn_slot *slot)
{
    for (size_t i = 0; i < csn_n_slots; i++)
        if (&csn_slots[i] != slot && csn_slots[i].process != 0 && csn_slots[i].shepherd > 0 &&
            atomic_load(&csn_slots[i].said) == CSN_SAID_NOTHING)
            return 1;
    return 0;
}

/* Before Linux 6.13 code can hide its parents (not dumpable, a session of its own, hidepid): then every end of a tree is
 * its end, too. Whoever ends a tree looks again and again, so that can wait until no innocent is among the hidden. */
static csn_aim aim_at(const csn_slot *slot, int sig)
{
    const int is_end = sig == SIGSTOP || sig == SIGKILL;
    const int spares = is_end && slot->n_passes <= SPARING_PASSES && is_another_starting(slot);

    return (csn_aim){ .owner = slot->shepherd > 0 ? (int) (slot - csn_slots) : OWNER_NOBODY,
                  .sig = sig,
                  .takes_hidden = is_end && !spares,
                  .spares_hidden = spares };
}

static size_t look_between(pid_t from, pid_t to, csn_aim *aim, pid_t *found, size_t n)
{
    for (pid_t pid = from; pid <= to && n < CSN_TREE_MAX; pid++) {
        if (kill(pid, 0) < 0 && errno == ESRCH)
            continue;
        if (csn_slot_of_shepherd(pid))
            continue;
        const int owner = owner_of(pid);
        aim->n_spared += owner == OWNER_HIDDEN && aim->spares_hidden;
        if (owner != aim->owner && !(owner == OWNER_HIDDEN && aim->takes_hidden))
            continue;
        (void) kill(pid, aim->sig); /* gone meanwhile: fine */
        found[n++] = pid;
    }
    return n;
}

/* Numbers are given in a circle: descendants of a shepherd stand between it and the last one given, unless there was
 * time to go all the way round. */
static size_t look(const csn_slot *slot, csn_aim *aim, pid_t *found)
{
    const pid_t highest = highest_pid(), last = last_pid();
    const int64_t age_ms = csn_sys_now_ms() - slot->born_ms;
    size_t n;

    if (last < 0 || (age_ms + 1) * FORKS_PER_MS_EVER >= highest)
        return look_between(2, highest, aim, found, 0);
    if (aim->owner == OWNER_NOBODY) /* older ones, too */
        return look_between(2, last >= slot->first_pid ? last : highest, aim, found, 0);
    if (last >= slot->first_pid)
        return look_between(slot->first_pid, last, aim, found, 0);
    n = look_between(2, last, aim, found, 0);
    return look_between(slot->first_pid, highest, aim, found, n);
}

size_t csn_tree_signal(const csn_slot *slot, int sig, pid_t found[CSN_TREE_MAX], size_t *ret_n_spared)
{
    csn_aim aim = aim_at(slot, sig);

    remember_ours();
    size_t n = look(slot, &aim, found);
    *ret_n_spared = aim.n_spared;
    return n;
}
