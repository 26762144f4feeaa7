/* SPDX-License-Identifier: Apache-2.0 */
/* caisson-remote's inside: one process per engine whose sandboxes are elsewhere. */
#ifndef CSN_REMOTE_H
#define CSN_REMOTE_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/loop.h"
#include "wire/frame.h"
#include "wire/web.h"

typedef struct csn_remote_program {
    csn_loop *loop;
    int sock; /* to the engine; -1 once it is gone */
    csn_source *source;
    CURLM *multi;
    csn_timer multi_timer, end_timer;
    csn_list transfers; /* under way */
    csn_list sockets;   /* WebSockets, open or on their way */
    csn_list lasts;     /* kept for the end */
    csn_list outbox;    /* answers the socket had no room for */
    unsigned n_lasts;
    bool has_key;
    csn_buf authorization, extra; /* whole header lines; secrets */
    csn_buf agent, option;        /* a name; a header line of some requests, or empty */
    bool is_leaving, is_at_last;
    char buffer[CSN_FRAME_MAX];
} csn_remote_program;

/* What curl is told to remember of a handle of its own: whom to tell of its end. */
typedef struct csn_curl_user {
    void (*ended)(struct csn_curl_user *user, CURLcode code);
} csn_curl_user;

typedef struct csn_transfer csn_transfer;
typedef void csn_transfer_done(csn_transfer *transfer, csn_remote_program *program);

/* One request under way. */
struct csn_transfer {
    csn_curl_user curl;
    csn_list link;
    csn_remote_program *program;
    uint32_t id;
    uint32_t flags;
    uint32_t last; /* see csn_web_ask */
    csn_transfer_done *done;

    CURL *easy;
    struct curl_slist *headers;
    csn_buf head, tail;
    int source_fd, sink_fd; /* -1: none */
    int64_t source_bytes, source_start;
    bool source_waits, sink_waits; /* may not be ready: asked before each read or write */
    int64_t n_sent;                /* of head, source and tail */
    size_t n_sunk;                 /* of the piece curl gives now */
    csn_source *watch;             /* while paused for a descriptor */

    csn_buf body;
    int64_t max_bytes, n_bytes, retry_after_ms;
    csn_web_failure failure;     /* ours, before curl's */
    bool is_enough;              /* of an error's body */
    char words[CURL_ERROR_SIZE]; /* curl's */
    char type[256], sentence[CURL_ERROR_SIZE];
    csn_web_answer answer; /* once done */
};

/* transfer.c: `fds` are taken, in any case. 0 or -errno (-ENOMEM); `done` comes from the loop. */
int csn_transfer_start(csn_remote_program *program, uint32_t id, const csn_web_request *request,
                       int source_fd, int sink_fd, csn_transfer_done *done);
csn_transfer *csn_transfer_free(csn_transfer *transfer); /* also one under way; always NULL */
/* What every connection needs: whom to trust, how long to wait, where not to go. */
void csn_curl_set_connection(CURL *easy, const csn_remote_program *program, const char *url,
                             int64_t timeout_ms, csn_curl_user *user);
csn_web_failure csn_curl_failure(CURLcode code);
/* A sentence that fits; parts of it may be a server's: what could disturb a terminal or a frame goes. */
void csn_copy_tidy(char *out, size_t size, const char *text);

/* socket.c: a WebSocket. The channel is taken, in any case. 0 or -ENOMEM. */
typedef struct csn_socket csn_socket;
int csn_socket_dial(csn_remote_program *program, const csn_web_call *call, int channel);
void csn_sockets_end(csn_remote_program *program); /* all of them, at once */

/* multi.c: curl's sockets and timers on our loop. */
int csn_multi_open(csn_remote_program *program);
void csn_multi_kick(csn_remote_program *program); /* something was added or unpaused */

#endif
