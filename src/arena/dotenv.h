/* Reading `.env` files: KEY=value lines as people write them. */
#ifndef CSN_ARENA_DOTENV_H
#define CSN_ARENA_DOTENV_H

#include <stddef.h>

#include <caisson/config.h>

typedef struct csn_dotenv_pair {
    char *key, *value;
} csn_dotenv_pair;

typedef struct csn_dotenv {
    csn_dotenv_pair *pairs; /* a later line of the same key replaces the earlier one */
    size_t n;
} csn_dotenv;

/* Adds the pairs of one file's text. A malformed line is passed over with a warning "NAME:LINE: …"; `name` is only for
 * those. 0 or -ENOMEM. */
int csn_dotenv_parse(csn_dotenv *env, const char *name, const char *data, size_t len,
                     csn_config_warn_fn warn, void *user);
const char *csn_dotenv_get(const csn_dotenv *env, const char *key); /* NULL: absent */
void csn_dotenv_done(csn_dotenv *env);

#endif
