/* SPDX-License-Identifier: Apache-2.0 */
/* What the front asks of the warden and what it is answered: one SEQPACKET message each, of a fixed layout.
 *
 * Theory of operation. The front parses what the network sends, so the warden takes each of its messages for hostile
 * bytes: a message has exactly the length its verb and number of mounts demand, every text ends within its array, every
 * name has the shape of a name, every number lies in its range, and a verb uses only the fields that are its own. Whatever
 * is not so ends the connection, since a sound front never sends it. There is nothing to parse: the layout is C's, both
 * programs are of one build, and its version is part of the head.
 *
 * Each ask has a serial that its answers carry. A listing is answered by any number of SEEN or IMAGE messages and then
 * DONE; everything else by DONE alone. DONE of CREATE, START and LEND may bring one descriptor: a connection to the
 * sandbox's keeper. QUIT (serial 0) is the warden's wish that the front end. */
#ifndef CSN_WARDEN_MESSAGE_H
#define CSN_WARDEN_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

enum { CSN_ASK_MAGIC = 0x43574131, CSN_ASK_MOUNTS = 16 }; /* "CWA1" */

typedef enum csn_ask_verb {
    CSN_ASK_CREATE = 1,
    CSN_ASK_START,
    CSN_ASK_STOP,
    CSN_ASK_DELETE,
    CSN_ASK_FORK,     /* other: the new sandbox's id */
    CSN_ASK_SNAPSHOT, /* other: the new image's name */
    CSN_ASK_LEND,
    CSN_ASK_LIST,
    CSN_ASK_VOLUME_CREATE, /* other: its name; likewise below */
    CSN_ASK_VOLUME_DELETE,
    CSN_ASK_IMAGES,
    CSN_ASK_IMAGE_DELETE,
    CSN_ASK_RESIZE,      /* new limits; 0 leaves one as it is */
    CSN_ASK_READY,       /* the front answers requests from now on */
    CSN_ASK_VOLUME_SIZE, /* other: its name; answered like an image */
    CSN_ASK_VERBS
} csn_ask_verb;

enum { /* flags of CREATE */
       CSN_ASK_NETWORK = 1 << 0,
       CSN_ASK_EPHEMERAL = 1 << 1,
       CSN_ASK_FLAGS = (1 << 2) - 1
};

enum { CSN_ASK_READ_ONLY = 1 << 0 }; /* of a mount */

typedef struct csn_ask_mount {
    uint32_t flags;
    char volume[68];
    char path[1024];
    char subpath[256]; /* "": the whole volume */
} csn_ask_mount;

typedef struct csn_ask {
    uint32_t magic, verb;
    uint64_t serial;
    uint32_t flags;
    int32_t grace_ms;
    int64_t memory_bytes, cpu_milli, disk_bytes, pids; /* 0: the engine's default */
    char id[40]; /* a UUID in lower case; of STOP and DELETE also the engine's own id */
    char other[68];
    char image[68];
    char user[36];
    uint32_t n_mounts;
    csn_ask_mount mounts[CSN_ASK_MOUNTS]; /* only n_mounts of them travel */
} csn_ask;

typedef enum csn_answer_kind {
    CSN_ANSWER_DONE = 1,
    CSN_ANSWER_SEEN,  /* a sandbox: name, state */
    CSN_ANSWER_IMAGE, /* an image: name, size_bytes */
    CSN_ANSWER_QUIT,
    CSN_ANSWER_KINDS
} csn_answer_kind;

typedef struct csn_answer {
    uint32_t magic, kind;
    uint64_t serial;
    int32_t result; /* CSN_OK or CSN_E_… */
    int32_t sys_errno;
    int32_t state; /* csn_state */
    uint32_t reserved;
    int64_t size_bytes;
    char name[72];
    char message[248]; /* csn_error's */
} csn_answer;

/* How many bytes of it travel. */
size_t csn_ask_size(const csn_ask *ask);

/* 0 when these `len` bytes, which lie in `ask`, are a message a sound front may send; else -EBADMSG. */
int csn_ask_check(const csn_ask *ask, size_t len);
int csn_answer_check(const csn_answer *answer, size_t len);

#endif
