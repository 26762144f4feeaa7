/* The terminal we were started on: raw for a while, and surely back. */
#ifndef CSN_CLI_TERM_H
#define CSN_CLI_TERM_H

#include <stdbool.h>
#include <stdint.h>

/* Raw mode on `fd` until cli_term_restore(); also undone by exit(), SIGSEGV & co. 0 or -errno. */
int cli_term_raw(int fd);

/* Line by line mode and the rest as they were; does nothing when they are. Async-signal-safe. */
void cli_term_restore(void);

/* The alternate screen without cursor, for displays that redraw; undone by the same cli_term_restore(). */
void cli_term_screen(int fd);

/* The size of the terminal at fd; 24 × 80 when it tells none. */
void cli_term_size(int fd, uint16_t *rows, uint16_t *cols);

#endif
