/* SPDX-License-Identifier: Apache-2.0 */
/* curl's multi interface on our loop: it says which sockets and when, we say when they are ready. */
#include <errno.h>
#include <sys/epoll.h>

#include "base/time.h"
#include "remote.h"

enum { HOST_CONNECTIONS_MAX = 128, CONNECTIONS_KEPT = 64 };

static void take_ended(csn_remote_program *p)
{
    CURLMsg *msg;
    int n_left;

    while ((msg = curl_multi_info_read(p->multi, &n_left))) {
        csn_curl_user *user = NULL;
        CURLcode code = msg->data.result;

        if (msg->msg != CURLMSG_DONE)
            continue;
        (void) curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **) &user);
        user->ended(user, code); /* frees it, most often */
    }
}

static void on_socket(csn_source *src, uint32_t events, void *user)
{
    csn_remote_program *p = user;
    int bits = (events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
               (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
               (events & EPOLLERR ? CURL_CSELECT_ERR : 0);
    int n_running;

    (void) curl_multi_socket_action(p->multi, csn_source_fd(src), bits, &n_running);
    take_ended(p);
}

static void on_timer(csn_timer *timer, void *user)
{
    csn_remote_program *p = user;
    int n_running;

    (void) timer;
    (void) curl_multi_socket_action(p->multi, CURL_SOCKET_TIMEOUT, 0, &n_running);
    take_ended(p);
}

static int set_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *known)
{
    csn_remote_program *p = user;
    csn_source *src = known;
    uint32_t events =
        (what & CURL_POLL_IN ? (uint32_t) EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);

    (void) easy;
    if (what == CURL_POLL_REMOVE) {
        csn_source_remove(src);
        (void) curl_multi_assign(p->multi, fd, NULL);
        return 0;
    }
    if (src)
        return csn_source_mod(src, events) < 0 ? -1 : 0;
    if (csn_loop_add(p->loop, fd, events, on_socket, p, &src) < 0)
        return -1;
    (void) curl_multi_assign(p->multi, fd, src);
    return 0;
}

static int set_timer(CURLM *multi, long timeout_ms, void *user)
{
    csn_remote_program *p = user;

    (void) multi;
    return csn_timer_set(p->loop, &p->multi_timer, csn_deadline_in_ms(timeout_ms), on_timer, p) < 0
               ? -1
               : 0;
}

void csn_multi_kick(csn_remote_program *p)
{
    (void) csn_timer_set(p->loop, &p->multi_timer, csn_now_ns(), on_timer, p); /* has memory */
}

int csn_multi_open(csn_remote_program *p)
{
    p->multi = curl_multi_init();
    if (!p->multi)
        return -ENOMEM;
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETFUNCTION, set_socket);
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETDATA, p);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERDATA, p);
    curl_multi_setopt(p->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long) HOST_CONNECTIONS_MAX);
    curl_multi_setopt(p->multi, CURLMOPT_MAXCONNECTS, (long) CONNECTIONS_KEPT);
    return 0;
}
