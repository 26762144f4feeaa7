/* SPDX-License-Identifier: Apache-2.0 */
/* The warden's inside: the small process that holds the engine for the front. */
#ifndef CSN_WARDEN_WARDEN_H
#define CSN_WARDEN_WARDEN_H

#include <stdbool.h>
#include <sys/types.h>

#include <caisson/engine.h>

#include "base/list.h"
#include "base/loop.h"
#include "warden/message.h"

typedef struct csn_warden_options {
    const char *state;  /* DIR: engine/, front/, lock */
    const char *listen; /* ADDR:PORT */
    const char *user; /* of the front when we are root; NULL: as before, or caisson, else nobody */
    const char *libexec;    /* where caisson-serve and caisson-keeper are */
    int64_t n_spare;        /* keepers kept ready */
    int64_t optional_walls; /* CSN_WALL_… */
    int64_t strict;         /* CSN_LIMIT_… of every sandbox */
    char **front_argv;      /* passed on; NULL at the end */
    char missing
        [160]; /* "--walls-missing=landlock, keeper" for the front, after the trial; else empty */
    bool is_errand;         /* only run the front on its directory, in our place: `caisson key` */
} csn_warden_options;

typedef struct csn_wd {
    csn_loop *loop;
    csn_engine *engine;
    const char *libexec; /* borrowed */
    uint32_t optional_walls, strict;
    int lock_fd, front_lock_fd, listen_fd, link_fd, front_pidfd, signal_fd;
    pid_t front_pid;
    csn_source *link_src, *engine_src, *front_src;
    csn_list queue; /* answers that did not fit into the socket */
    size_t n_queued, n_jobs;
    bool is_stopping, is_front_gone, is_ready;
    int status; /* to end with */
    csn_timer stop_timer;
} csn_wd;

/* place.c: DIR, its lock, the front's directory; who the front is */
typedef struct csn_front_user {
    uid_t uid;
    gid_t gid;
    bool is_other; /* than we are */
    char name[33];
} csn_front_user;
/* The locks NULL: beside a server that may run. *ret_front_fd is the front's directory: it gets that and no path, since
 * DIR may lie where its user can't go, in root's home for one. */
int csn_place_open(const csn_warden_options *o, const csn_front_user *user, int *ret_lock_fd,
                   int *ret_front_lock_fd, int *ret_front_fd, csn_error *err);
/* Refuses a lost database while there are sandboxes that only it knew. */
int csn_place_check(const csn_warden_options *o, int front_fd, csn_error *err);
int csn_front_user_find(const csn_warden_options *o, csn_front_user *ret_user, csn_error *err);

/* listen.c: binds "127.0.0.1:3986", "[::1]:0", "localhost:3986" */
int csn_listen_open(const char *where, int *ret_fd, csn_error *err);

/* trial.c: makes a sandbox as clients will, uses and deletes it; fills o->missing */
int csn_trial_run(csn_wd *wd, csn_warden_options *o, csn_error *err);

/* front.c: starts caisson-serve; its link is wd->link_fd after */
int csn_front_start(csn_wd *wd, const csn_warden_options *o, const csn_front_user *user,
                    int front_fd, csn_error *err);

/* Becomes it instead: no engine, no socket. Returns only to fail. */
int csn_front_exec(const csn_warden_options *o, const csn_front_user *user, int front_fd,
                   csn_error *err);

/* link.c: messages of the front are read, checked and handed to csn_serve_ask(); answers are sent or queued */
int csn_link_open(csn_wd *wd);
void csn_link_close(csn_wd *wd);
/* fd (-1: none) is taken. */
void csn_link_send(csn_wd *wd, const csn_answer *answer, int fd);
void csn_link_done(csn_wd *wd, uint64_t serial, int result, const csn_error *err, int fd);
/* After a job began or ended: reads on, or not, since as many as there may be are under way; and ends the loop when the
 * front is gone and the last one is done. */
void csn_link_pace(csn_wd *wd);

/* serve.c: does what was asked */
void csn_serve_ask(csn_wd *wd, const csn_ask *ask);

#endif
