/* Every operation given up at every step of its life. */
#ifndef CSN_STORY_OP_WALK_H
#define CSN_STORY_OP_WALK_H

#include <stdbool.h>

#include <caisson.h>

/* One round's world: a fresh sandbox, and what the verb needs in it. */
typedef struct op_world {
    csn_engine *engine;
    csn_sandbox *box;
    csn_process *process; /* a background command, if the verb wants one; freed by the walk */
    int fd;               /* to be read or written by the verb; -1: none; closed by the walk */
    int n_done, result;   /* told by the verb's `done` */
} op_world;

typedef enum op_group { OP_SANDBOX, OP_COMMAND, OP_FILE, OP_IMAGE } op_group;

typedef struct op_verb {
    op_group group;
    const char *name;
    bool is_local;  /* only on this machine */
    bool no_box;    /* needs no sandbox */
    bool is_made;   /* what it made must be gone when it was given up */
    int background; /* 1: with a background command */
    csn_op *(*begin)(op_world *w, csn_error *err);
} op_verb;

extern const op_verb op_verbs[];
extern const size_t n_op_verbs;

/* Walks one verb: cancelled, dropped and late after 0, 1, 2, … turns of the loop, until it is over by itself. Fails the test
 * when `done` does not run as often as promised, or when sandboxes, commands or files of it are left. */
void walk_op(csn_engine *engine, const op_verb *verb);

#endif
