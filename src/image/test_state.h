#ifndef CSN_IMAGE_TEST_STATE_H
#define CSN_IMAGE_TEST_STATE_H

/* An engine whose state is this test's own, what lies in it, and something to import. */

#include <stdbool.h>

#include <caisson.h>

#include "csn_test.h"

#define BUSYBOX "/usr/bin/busybox"

extern csn_engine *engine; /* of open_engine(), until the test ends */
extern csn_error err;      /* of the last call */

void open_engine(void);

#define OK(call)       ((call) == CSN_OK ? (void) 0 : FAIL("%s: %s", #call, err.message))
#define at(...)        csn_test_path(__VA_ARGS__)
#define A_SANDBOX(...) a_sandbox((csn_sandbox_options){ __VA_ARGS__ })

csn_sandbox *a_sandbox(csn_sandbox_options o);
csn_sandbox *gone(csn_sandbox *box);                   /* deletes it; NULL */
const char *says(csn_sandbox *box, const char *shell); /* what a shell text prints, both streams */

/* Entries of a directory of the state: those that stay, or (hidden) what an unfinished verb left. */
int count_in(const char *name, bool hidden);
/* So many images and layers, and nothing unfinished. */
void check_state(int n_images, int n_layers);

void need_busybox(void);     /* else the test is skipped */
const char *make_tree(void); /* the directory of a tiny system: its path */

#endif
